"""What catalogs are asked and what they answer: frozen values, no behaviour."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from jetbridge.expr import Expr

ROWID = "rowid"
# The column that says what MERGE INTO does with a row.
MERGE_ACTION = "merge_action"


@dataclass(frozen=True)
class CatalogVersion:
    """`number` rises with every DDL statement; `fixed` promises that it never will."""

    number: int
    fixed: bool = False


@dataclass(frozen=True)
class SchemaInfo:
    name: str
    comment: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class UniqueKey:
    columns: tuple[str, ...]
    primary: bool = False


@dataclass(frozen=True)
class TableInfo:
    """A table at one version.

    `schema` holds the visible columns only. `nullable=False` is NOT NULL; the field metadata
    `default` (a DuckDB SQL expression) and `comment` are passed on to clients.
    `row_id` is the type of the `rowid` column of scans, or None for a table without one.
    `version` rises with every change and is what AT (VERSION => n) takes; None: no history.
    `identity` is another one after DROP and CREATE of the same name; empty where names suffice.
    """

    name: str
    schema: pa.Schema
    comment: str = ""
    row_id: pa.DataType | None = None
    version: int | None = None
    identity: str = ""
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()


@dataclass(frozen=True)
class Scan:
    """What a scan asks for.

    `columns`: the columns to produce, in this order; may contain `rowid`; may be empty, then only
    the number of rows counts. None: all visible columns, then `rowid` if the table has one.
    `filter`: rows for which it is not TRUE may be left out; a table may ignore it.
    `part`: one of the parts `CanSplit.split` gave for the same table version; None: all rows.
    `may_use`: for functions, the catalogs the caller may use; None: all of them.
    `owner`: for functions, the name of the caller's token; "" where callers need none.
    """

    columns: tuple[str, ...] | None = None
    filter: Expr | None = None
    part: str | None = None
    may_use: frozenset[str] | None = None
    owner: str = ""


class AtUnit(StrEnum):
    VERSION = "VERSION"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class AsOf:
    """A point in a table's past: a version number, or a timestamp as DuckDB prints it."""

    unit: AtUnit
    value: str


class Merging(StrEnum):
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


class OnConflict(StrEnum):
    ERROR = "error"
    IGNORE = "ignore"
    REPLACE = "replace"


@dataclass(frozen=True)
class CreateTable:
    """`schema` as in TableInfo: NOT NULL is `nullable=False`, defaults are field metadata."""

    name: str
    schema: pa.Schema
    on_conflict: OnConflict = OnConflict.ERROR
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class DMLOptions:
    """Options of one DML statement.

    `returning`: each write must answer with `DMLResult.returning_data`.
    `returning_columns`: with `returning`, the columns wanted; empty means all. Filled from the
    columns the client sent, so a table may use it to save work, and may ignore it.
    """

    returning: bool = False
    returning_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class DMLResult:
    """What one write did; `returning_data` is None unless RETURNING was asked for."""

    affected_rows: int
    returning_data: pa.RecordBatch | None = None
