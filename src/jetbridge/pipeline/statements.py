"""What a statement asks for; each is a frozen value that knows its own text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from jetbridge.catalog import OnConflict


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
class Insert:
    """`by_name`: columns of the query go to those of the same name."""

    target: ObjectName
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    returning: str = ""


class Changing(Enum):
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"


@dataclass(frozen=True)
class Change:
    """UPDATE, DELETE or MERGE INTO, by its whole text."""

    kind: Changing
    text: str


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
class Alter:
    target: ObjectName
    text: str
    if_exists: bool = False


class Boundary(Enum):
    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


@dataclass(frozen=True)
class Transaction:
    boundary: Boundary


@dataclass(frozen=True)
class Attach:
    """`place` may hold a password, and `secret` is what a secret of the session says."""

    place: str = field(repr=False)
    alias: str
    options: dict[str, str] = field(default_factory=dict, repr=False)
    on_conflict: OnConflict = OnConflict.ERROR
    secret: Mapping[str, str] | None = field(default=None, repr=False)


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
    """A table, or a query."""

    text: str


@dataclass(frozen=True)
class Explain:
    statement: "Statement"


Statement = (
    Query
    | CreateTableAs
    | CreateTable
    | Insert
    | Change
    | CreateSchema
    | Drop
    | Alter
    | Transaction
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
