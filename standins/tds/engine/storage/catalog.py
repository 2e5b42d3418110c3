"""Databases, schemas, tables, views: what is defined, never the rows.

Definitions do not change; DDL puts a new one in place of the old. A transaction keeps its own in
an overlay that only it sees until it commits, so that rolling back DDL is forgetting the overlay.
"""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from standins.tds.values import SqlType

DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"
DEFAULT_SCHEMA = "dbo"
SYSTEM_SCHEMAS = {"dbo": 1, "guest": 2, "INFORMATION_SCHEMA": 3, "sys": 4}
FIRST_OBJECT = 581577110


def now() -> datetime:
    """In milliseconds, as the catalog tells it."""
    moment = datetime.now(UTC).replace(tzinfo=None)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@dataclass
class Identity:
    """Counts on when a transaction is rolled back, as SQL Server's does."""

    seed: int
    step: int
    last: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self, count: int) -> int:
        """The first of so many new values."""
        with self.lock:
            first = self.seed if self.last is None else self.last + self.step
            if count:
                self.last = first + self.step * (count - 1)
            return first

    def see(self, value: int) -> None:
        """An explicit value beyond what was given out moves the counter."""
        with self.lock:
            ahead = self.last is None or (value - self.last) * self.step > 0
            if ahead:
                self.last = value


@dataclass(frozen=True)
class Default:
    name: str
    text: str
    object_id: int


@dataclass(frozen=True)
class ColumnDef:
    """`stored` is the column's name in DuckDB; it stays when the column is renamed."""

    name: str
    type: SqlType
    nullable: bool
    column_id: int
    stored: str
    collation: str = ""
    default: Default | None = None
    identity: Identity | None = None

    @property
    def binary(self) -> bool:
        return "BIN" in self.collation.upper()


@dataclass(frozen=True)
class Key:
    """PRIMARY KEY, UNIQUE, or an index; `kind` is PK, UQ or IX. Columns by their ids."""

    name: str
    kind: str
    columns: tuple[int, ...]
    unique: bool
    clustered: bool
    object_id: int
    index_id: int
    descending: tuple[bool, ...] = ()
    included: tuple[int, ...] = ()
    columnstore: bool = False
    named: bool = True


@dataclass(frozen=True)
class Check:
    name: str
    text: str
    object_id: int
    column_id: int = 0


@dataclass(frozen=True)
class ForeignKey:
    name: str
    columns: tuple[int, ...]
    target: int
    target_columns: tuple[int, ...]
    object_id: int
    on_delete: str = "NO_ACTION"


@dataclass(frozen=True)
class Table:
    """A table, or a view where `query` is not None; a view has no columns of its own here."""

    object_id: int
    database: str
    schema: str
    name: str
    stored: str = ""
    columns: tuple[ColumnDef, ...] = ()
    keys: tuple[Key, ...] = ()
    checks: tuple[Check, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()
    query: str | None = None
    definition: str = ""
    view_names: tuple[str, ...] = ()
    created: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)
    next_column: int = 1

    @property
    def is_view(self) -> bool:
        return self.query is not None

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def long_name(self) -> str:
        return f"{self.database}.{self.schema}.{self.name}"

    def column(self, name: str) -> ColumnDef | None:
        wanted = name.lower()
        return next((each for each in self.columns if each.name.lower() == wanted), None)

    def by_id(self, column_id: int) -> ColumnDef:
        return next(each for each in self.columns if each.column_id == column_id)

    @property
    def identity(self) -> ColumnDef | None:
        return next((each for each in self.columns if each.identity), None)

    @property
    def uniques(self) -> tuple[Key, ...]:
        return tuple(each for each in self.keys if each.unique)

    @property
    def primary(self) -> Key | None:
        return next((each for each in self.keys if each.kind == "PK"), None)

    def with_column(self, column: ColumnDef) -> "Table":
        """In the place of the one with its id."""
        columns = tuple(
            column if each.column_id == column.column_id else each for each in self.columns
        )
        return replace(self, columns=columns)


@dataclass
class Database:
    name: str
    database_id: int
    collation: str = DEFAULT_COLLATION
    snapshot: bool = False
    read_committed_snapshot: bool = False
    schemas: dict[str, int] = field(default_factory=lambda: dict(SYSTEM_SCHEMAS))
    # Extended properties of schemas: their values by the number of the schema and by name.
    properties: dict[int, dict[str, str]] = field(default_factory=dict)

    def schema(self, name: str) -> str | None:
        """As it was created; names are compared without case."""
        wanted = name.lower()
        return next((each for each in self.schemas if each.lower() == wanted), None)


class Catalog:
    """What is committed. A transaction's overlay is `changes`: definitions by id, None for gone."""

    def __init__(self) -> None:
        self.databases: dict[str, Database] = {}
        self.objects: dict[int, Table] = {}
        self._numbers = itertools.count(FIRST_OBJECT, 16)
        self._schemas = itertools.count(5)
        self._columns = itertools.count(1)
        self.lock = threading.RLock()

    def number(self) -> int:
        return next(self._numbers)

    def column(self) -> str:
        """A name for DuckDB that no column has had; one that was rolled back is still there."""
        return f"c{next(self._columns)}"

    def schema_number(self) -> int:
        return next(self._schemas)

    def add_database(self, name: str) -> Database:
        with self.lock:
            made = Database(name, len(self.databases) + 1)
            self.databases[name.lower()] = made
            return made

    def visible(self, changes: dict[int, Table | None]) -> Iterator[Table]:
        with self.lock:
            ids = list(self.objects.items())
        for object_id, table in ids:
            seen = changes.get(object_id, table)
            if seen is not None:
                yield seen
        known = {object_id for object_id, _ in ids}
        for object_id, change in changes.items():
            if object_id not in known and change is not None:
                yield change

    def find(
        self, database: str, schema: str, name: str, changes: dict[int, Table | None]
    ) -> Table | None:
        wanted = (database.lower(), schema.lower(), name.lower())
        for table in self.visible(changes):
            if (table.database.lower(), table.schema.lower(), table.name.lower()) == wanted:
                return table
        return None

    def publish(self, changes: dict[int, Table | None]) -> None:
        with self.lock:
            for object_id, table in changes.items():
                if table is None:
                    self.objects.pop(object_id, None)
                else:
                    self.objects[object_id] = table
