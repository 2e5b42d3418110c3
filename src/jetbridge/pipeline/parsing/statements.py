"""Defines statements as values: parsing makes them complete, so no command reads text again.

What only DuckDB can judge, such as a query or the type of a column, stays text in a named field.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from jetbridge.catalog import Alteration, OnConflict


@dataclass(frozen=True)
class ObjectName:
    """Hold a name as the statement has it: its last part, and the parts before it, if any."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part is not None)


@dataclass(frozen=True)
class Query:
    """Describe a statement that returns rows."""

    text: str


@dataclass(frozen=True)
class CreateTableAs:
    """Describe CREATE TABLE AS. `columns` rename the first columns of the query."""

    target: ObjectName
    query: str
    on_conflict: OnConflict = OnConflict.ERROR
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateTableStatement:
    """Describe CREATE TABLE. `columns` is the list in brackets, which DuckDB reads."""

    target: ObjectName
    columns: str
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class ValuesList:
    """Describe `VALUES (1, DEFAULT)`: expressions by row, and the text that follows the rows."""

    rows: tuple[tuple[str, ...], ...]
    rest: str = ""


@dataclass(frozen=True)
class Insert:
    """Describe INSERT INTO.

    `by_name`: columns of the query go to the columns of the same name. `returning` are the
    expressions after RETURNING. `values` is the query again if it is VALUES with DEFAULT in it.
    """

    target: ObjectName
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    returning: tuple[str, ...] = ()
    values: ValuesList | None = None


class DmlKind(Enum):
    """Name the statements that change rows where they are."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class UpdateOrDelete:
    """Describe UPDATE, DELETE, or TRUNCATE, which is a DELETE of all rows.

    `assignments` are columns and their new values. `with_` is the WITH clause, and `from_` is what
    follows FROM in UPDATE and USING in DELETE.
    """

    kind: DmlKind
    target: ObjectName
    alias: str
    assignments: tuple[tuple[str, str], ...] = ()
    with_: str = ""
    from_: str = ""
    where: str = ""
    returning: tuple[str, ...] = ()


class MatchCase(Enum):
    """Name the rows of a WHEN clause: matched, of the source only, or of the target only."""

    MATCHED = "MATCHED"
    NEW = "NOT MATCHED"
    GONE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class WhenClause:
    """Describe a WHEN clause of MERGE INTO.

    `action` is UPDATE, DELETE, INSERT, NOTHING or ERROR. `values` are columns and expressions;
    None stands for the columns of the source, by name or by position. `message` belongs to ERROR.
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
    """Describe MERGE INTO. `using` are the columns of USING (...), or `condition` is that of ON."""

    with_: str
    target: ObjectName
    alias: str
    source: str
    source_alias: str
    condition: str
    using: tuple[str, ...]
    clauses: tuple[WhenClause, ...]
    returning: tuple[str, ...]

    def effective_clauses(self) -> Sequence[tuple[WhenClause, Sequence[str]]]:
        """Return the clauses that can change a row, each with the conditions of those before it."""
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
    """Describe CREATE SCHEMA."""

    name: ObjectName
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class Drop:
    """Describe DROP SCHEMA or DROP TABLE; `kind` is schema or table."""

    kind: str
    name: ObjectName
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AddDeclaredColumn:
    """Describe ADD COLUMN, also of a field of a STRUCT; DuckDB reads the `declaration`."""

    path: tuple[str, ...]
    declaration: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class ChangeColumnType:
    """Describe ALTER COLUMN ... TYPE; DuckDB reads the `data_type`."""

    column: str
    data_type: str
    expression: str = ""


@dataclass(frozen=True)
class SetLayout:
    """Describe SET or RESET of PARTITIONED BY and SORTED BY. "" resets, None changes nothing."""

    partition_by: str | None = None
    sort_by: str | None = None


AlterAction = Alteration | AddDeclaredColumn | ChangeColumnType | SetLayout


@dataclass(frozen=True)
class AlterTable:
    """Describe ALTER TABLE."""

    target: ObjectName
    action: AlterAction
    if_exists: bool = False


class TransactionCommand(Enum):
    """Name what begins or ends a transaction."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class TransactionStatement:
    """Describe BEGIN, COMMIT or ROLLBACK."""

    command: TransactionCommand


@dataclass(frozen=True)
class Attach:
    """Describe ATTACH. `location` may contain a password, so no `repr` shows it."""

    location: str = field(repr=False)
    alias: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class Detach:
    """Describe DETACH."""

    alias: str
    if_exists: bool = False


@dataclass(frozen=True)
class CreateSecret:
    """Describe CREATE SECRET; no `repr` shows its options."""

    name: str
    options: dict[str, str] = field(repr=False)
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True)
class DropSecret:
    """Describe DROP SECRET."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Load:
    """Describe INSTALL or LOAD of an extension of DuckDB that jetbridge replaces."""

    verb: str
    name: str


@dataclass(frozen=True)
class Use:
    """Describe USE."""

    name: ObjectName


@dataclass(frozen=True)
class SetValue:
    """Describe SET, or RESET if `value` is None."""

    name: str
    value: str | None


@dataclass(frozen=True)
class Show:
    """Describe SHOW of tables, all tables, schemas, databases, settings, or one setting."""

    what: str


@dataclass(frozen=True)
class Describe:
    """Describe DESCRIBE: its subject is a table, or the text of a query."""

    subject: ObjectName | str


@dataclass(frozen=True)
class Explain:
    """Describe EXPLAIN of another statement."""

    statement: "Query | CreateTableAs | Insert"


Statement = (
    Query
    | CreateTableAs
    | CreateTableStatement
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
