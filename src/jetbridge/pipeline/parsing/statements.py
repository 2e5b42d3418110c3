"""What a statement asks for; each is a frozen value that knows its own text."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from jetbridge.catalog import Alteration, OnConflict


@dataclass(frozen=True)
class ObjectName:
    """A name as it was written: its last part, and what stands before it."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part is not None)


@dataclass(frozen=True)
class Query:
    """Anything that yields rows."""

    text: str


@dataclass(frozen=True)
class CreateTableAs:
    target: ObjectName
    query: str
    on_conflict: OnConflict = OnConflict.ERROR
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateTable:
    """`columns` is what stands in and after the brackets: DuckDB itself says what that means."""

    target: ObjectName
    columns: str
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class ValuesList:
    """`VALUES (1, DEFAULT)`: expressions row by row, and the text that follows the rows."""

    rows: tuple[tuple[str, ...], ...]
    rest: str = ""


@dataclass(frozen=True)
class Insert:
    """`by_name`: columns of the query go to those of the same name.

    `values` is the query again, where it is a list of values with DEFAULT among them.
    """

    target: ObjectName
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    returning: str = ""
    values: ValuesList | None = None


class DmlKind(Enum):
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class UpdateOrDelete:
    """`with_` is the WITH clause, `from_` what follows FROM in UPDATE and USING in DELETE.

    `assignments` are columns and their new values. TRUNCATE is a DELETE of all rows.
    """

    kind: DmlKind
    target: ObjectName
    alias: str
    assignments: tuple[tuple[str, str], ...] = ()
    with_: str = ""
    from_: str = ""
    where: str = ""
    returning: str = ""


class MatchCase(Enum):
    MATCHED = "MATCHED"
    NEW = "NOT MATCHED"
    GONE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class WhenClause:
    """`action` is UPDATE, DELETE, INSERT, NOTHING or ERROR.

    `values` are columns and expressions; None means those of the source, by name or by position.
    `message` is what ERROR says.
    """

    case: MatchCase
    condition: str
    action: str
    values: tuple[tuple[str, str], ...] | None = ()
    columns: tuple[str, ...] = ()
    by_name: bool = False
    message: str = ""


@dataclass(frozen=True)
class MergeStatement:
    """`using` are the columns of USING (...), else `condition` is that of ON."""

    with_: str
    target: ObjectName
    alias: str
    source: str
    source_alias: str
    condition: str
    using: tuple[str, ...]
    clauses: tuple[WhenClause, ...]
    returning: str

    def effective_clauses(self) -> Sequence[tuple[WhenClause, Sequence[str]]]:
        """The clauses that can change a row, each with the conditions that come before its own."""
        effective = []
        for number, clause in enumerate(self.clauses):
            earlier = [
                other.condition for other in self.clauses[:number] if other.case is clause.case
            ]
            if clause.action != "NOTHING" and "" not in earlier:
                effective.append((clause, earlier))
        return effective


@dataclass(frozen=True)
class CreateSchema:
    name: ObjectName
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class Drop:
    """A schema or a table."""

    kind: str
    name: ObjectName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AddDeclaredColumn:
    """ADD COLUMN, or a field of a STRUCT; what `declaration` means only DuckDB can say."""

    path: tuple[str, ...]
    declaration: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class ChangeColumnType:
    """What `data_type` means only DuckDB can say."""

    column: str
    data_type: str
    expression: str = ""


@dataclass(frozen=True)
class SetLayout:
    """SET PARTITIONED BY or SET SORTED BY; "" is RESET, None is what the statement leaves alone."""

    partition_by: str | None = None
    sort_by: str | None = None


AlterAction = Alteration | AddDeclaredColumn | ChangeColumnType | SetLayout


@dataclass(frozen=True)
class AlterTable:
    target: ObjectName
    action: AlterAction
    if_exists: bool = False


class TransactionCommand(Enum):
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class TransactionStatement:
    boundary: TransactionCommand


@dataclass(frozen=True)
class Attach:
    """`place` may hold a password."""

    place: str = field(repr=False)
    alias: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class Detach:
    alias: str
    if_exists: bool = False


@dataclass(frozen=True)
class CreateSecret:
    name: str
    options: dict[str, str] = field(repr=False)
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class DropSecret:
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Load:
    """INSTALL or LOAD of an extension whose work is done here without it."""

    verb: str
    name: str


@dataclass(frozen=True)
class Use:
    name: ObjectName


@dataclass(frozen=True)
class SetValue:
    """`value` None is RESET."""

    name: str
    value: str | None


@dataclass(frozen=True)
class Show:
    """`what`: tables, all tables, schemas, databases, or the name of a setting."""

    what: str


@dataclass(frozen=True)
class Describe:
    """A table, or the text of a query."""

    subject: ObjectName | str


@dataclass(frozen=True)
class Explain:
    statement: "Query | CreateTableAs | Insert"


Statement = (
    Query
    | CreateTableAs
    | CreateTable
    | Insert
    | UpdateOrDelete
    | MergeStatement
    | CreateSchema
    | Drop
    | AlterTable
    | TransactionStatement
    | Attach
    | Detach
    | CreateSecret
    | DropSecret
    | Load
    | Use
    | SetValue
    | Show
    | Describe
    | Explain
)
