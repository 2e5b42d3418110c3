"""Values that catalogs get and return; they are frozen and have no behaviour.

The default of a column is text in the metadata of its field, which `default_of` reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import pyarrow as pa

from jetbridge.catalog.identifiers import find_duplicate_name
from jetbridge.errors import BadRequest
from jetbridge.expr import Expr

ROWID = "rowid"
# The column that says what MERGE INTO does with a row.
MERGE_ACTION = "merge_action"


@dataclass(frozen=True)
class CatalogVersion:
    """Number a state of the definitions in a catalog.

    Attributes:
        number: Rises with every DDL statement. Clients list the catalog again when it does.
        fixed: True promises that the number never changes, so clients need not ask again.

    Examples:
        >>> MemoryCatalog().version()
        CatalogVersion(number=1, fixed=False)
    """

    number: int
    fixed: bool = False


@dataclass(frozen=True)
class SchemaInfo:
    """Describe a schema.

    Attributes:
        name: The name, spelled as it was created.
        comment: The comment, or "".
        tags: Further properties, by name.

    Examples:
        >>> MemoryCatalog().create_schema(SchemaInfo("shop", "what we sell")).info().comment
        'what we sell'
    """

    name: str
    comment: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class UniqueKey:
    """Declare that no two rows have the same values in these columns.

    Attributes:
        columns: The names of the columns, at least one.
        primary: True for PRIMARY KEY, which also means NOT NULL; False for UNIQUE.

    Examples:
        >>> UniqueKey(("id",), primary=True)
        UniqueKey(columns=('id',), primary=True)
    """

    columns: tuple[str, ...]
    primary: bool = False


@dataclass(frozen=True)
class TableInfo:
    """Describe a table at one version.

    Attributes:
        name: The name, spelled as it was created.
        schema: The visible columns. `nullable=False` is NOT NULL. The field metadata `default` (an
            expression in DuckDB's SQL) and `comment` are passed on to clients.
        comment: The comment, or "".
        row_id: The type of the column `rowid` of scans, or None for a table without row ids.
        version: Rises with every change, and is what AT (VERSION => n) takes. None: the table has
            no versions.
        identity: Differs between a table and one that was created later under the same name.
            Empty: the name is enough.
        checks: The conditions of the CHECK constraints, in DuckDB's SQL.
        keys: The PRIMARY KEY and UNIQUE constraints.

    Examples:
        >>> info = TableInfo("orders", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
        >>> info.row_id is None
        True
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
    """Say which columns and rows of a table a scan reads.

    Attributes:
        columns: The columns, in this order; `rowid` may be one of them. Empty: only the number of
            rows matters. None: all visible columns, then `rowid` if the table has row ids.
        filter: Rows for which it is not TRUE may be left out. A table may ignore it.
        part: A name that `CanSplit.split` returned for the same version. None: all rows.
        may_use: For functions: the catalogs that the caller may use. None: all of them.
        owner: For functions: the name of the caller's token, or "" without tokens.

    Examples:
        >>> sum(batch.num_rows for batch in table.scan(Scan(columns=("id",))))
        3
    """

    columns: tuple[str, ...] | None = None
    filter: Expr | None = None
    part: str | None = None
    may_use: frozenset[str] | None = None
    owner: str = ""


class AtUnit(StrEnum):
    """Name the two forms of AT.

    Examples:
        >>> AtUnit("VERSION")
        <AtUnit.VERSION: 'VERSION'>
    """

    VERSION = "VERSION"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class AsOf:
    """Name a past state of a table, as AT does.

    Attributes:
        unit: Whether the value is a version or a time.
        value: The number of a version, or a timestamp as DuckDB prints it.

    Examples:
        >>> AsOf(AtUnit.VERSION, "1").value
        '1'
    """

    unit: AtUnit
    value: str


class Merging(StrEnum):
    """Name what MERGE INTO does with a row, in the column `MERGE_ACTION`.

    Examples:
        >>> [action.value for action in Merging]
        ['UPDATE', 'DELETE', 'INSERT']
    """

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


class OnConflict(StrEnum):
    """Say what CREATE does if the object exists: fail, keep it, or replace it.

    Examples:
        >>> OnConflict("replace")
        <OnConflict.REPLACE: 'replace'>
    """

    ERROR = "error"
    IGNORE = "ignore"
    REPLACE = "replace"


@dataclass(frozen=True)
class CreateTable:
    """Describe the table that CREATE TABLE makes.

    Attributes:
        name: The name of the table.
        schema: The columns, as in `TableInfo`.
        on_conflict: What happens if there is a table of this name.
        checks: The conditions of the CHECK constraints, in DuckDB's SQL.
        keys: The PRIMARY KEY and UNIQUE constraints.
        comment: The comment, or "".

    Examples:
        >>> CreateTable("orders", pa.schema([("id", pa.int64())])).on_conflict
        <OnConflict.ERROR: 'error'>
    """

    name: str
    schema: pa.Schema
    on_conflict: OnConflict = OnConflict.ERROR
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class DMLOptions:
    """Say what an INSERT, UPDATE or DELETE returns.

    Attributes:
        returning: True: each write must return `DMLResult.returning_data`.
        returning_columns: With `returning`, the columns that the caller needs; empty means all. A
            table may use it to do less, and may ignore it.

    Examples:
        >>> DMLOptions(returning=True).returning_columns
        ()
    """

    returning: bool = False
    returning_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class DMLResult:
    """Say what one write did.

    Attributes:
        affected_rows: The number of rows that were inserted, updated or deleted.
        returning_data: The rows that RETURNING returns, or None without RETURNING.

    Examples:
        >>> with table.inserting(DMLOptions()) as write:
        ...     write(pa.record_batch({"id": [4]})).affected_rows
        1
    """

    affected_rows: int
    returning_data: pa.RecordBatch | None = None


DEFAULT = b"default"


def default_of(field: pa.Field) -> str | None:
    """Return the default of a column as an expression in DuckDB's SQL, or None if it has none.

    Raises BadRequest if it is not UTF-8.
    """
    text = (field.metadata or {}).get(DEFAULT)
    try:
        return text.decode() if text else None
    except UnicodeDecodeError:
        raise BadRequest(f"the default of column {field.name!r} is not UTF-8") from None


def refuse_duplicate_fields(field: pa.Field) -> None:
    """Raise BadRequest if a STRUCT at any depth of a column has two fields of one name."""
    _refuse_duplicate_fields(field.type, field.name)


def _refuse_duplicate_fields(data_type: pa.DataType, column: str) -> None:
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    children = [data_type.field(index) for index in range(data_type.num_fields)]
    if pa.types.is_struct(data_type) or pa.types.is_union(data_type):
        name = find_duplicate_name([child.name for child in children])
        if name is not None:
            raise BadRequest(
                f"column {column!r} has two fields named {name!r}: names match without regard to "
                "case; rename one of them"
            )
    for child in children:
        _refuse_duplicate_fields(child.type, column)
