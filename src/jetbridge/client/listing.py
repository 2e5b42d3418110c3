"""Decodes and checks the descriptions of schemas and tables, as DuckDB's client does."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from jetbridge.catalog import ROWID, fold
from jetbridge.client.errors import reading_answer
from jetbridge.errors import NotSupported, ServerError
from jetbridge.wire.codec import Blob, decode, unpack
from jetbridge.wire.flight_pb2 import FlightInfo
from jetbridge.wire.limits import ANSWER_LIMITS
from jetbridge.wire.schemas import read_schema

_ROWID_MARK = b"is_rowid"
_CHECKS = b"check_constraints"
_SERVED_AS_TABLE = "table"


@dataclass(frozen=True)
class TableListing:
    """Describe a table as the server lists it.

    Attributes:
        schema_name: The schema of the table.
        name: The name of the table.
        comment: The comment on the table; empty without one.
        announced: All columns in the order of scans, with `rowid`.
        descriptor: The Flight descriptor that later calls send for the table.
        checks: The expressions of CHECK constraints.
        total_records: The number of rows; -1 if the server does not know it.

    Examples:
        >>> table = client.table("shop", "orders")
        >>> (table.name, table.total_records, table.row_id)
        ('orders', 3, DataType(int64))
    """

    schema_name: str
    name: str
    comment: str
    announced: pa.Schema
    descriptor: bytes
    checks: tuple[str, ...] = ()
    total_records: int = -1

    @property
    def schema(self) -> pa.Schema:
        """Return the columns without `rowid`.

        Examples:
            >>> client.table("shop", "orders").schema.names
            ['id', 'city', 'price']
        """
        return pa.schema([f for f in self.announced if not is_rowid(f)])

    @property
    def row_id(self) -> pa.DataType | None:
        """Return the type of `rowid`; None if the table has no row ids.

        Examples:
            >>> client.table("shop", "orders").row_id
            DataType(int64)
        """
        return next((f.type for f in self.announced if is_rowid(f)), None)

    def position(self, column: str) -> int | None:
        """Return the position of a column among `announced`, or None.

        Args:
            column: The name of the column, in upper or lower case; `rowid` is one of them.

        Examples:
            >>> client.table("shop", "orders").position("CITY")
            1
        """
        folded = fold(column)
        if folded == ROWID and self.row_id is not None:
            return next(i for i, f in enumerate(self.announced) if is_rowid(f))
        names = [fold(f.name) for f in self.announced]
        return names.index(folded) if folded in names else None


@dataclass(frozen=True)
class SchemaListing:
    """Describe a schema and its tables.

    Attributes:
        name: The name of the schema.
        comment: The comment on the schema; empty without one.
        tags: Names and values that the server keeps with the schema.
        tables: The tables of the schema.

    Examples:
        >>> [shop] = client.list_schemas()
        >>> (shop.name, [table.name for table in shop.tables])
        ('shop', ['orders'])
    """

    name: str
    comment: str
    tags: Mapping[str, str]
    tables: tuple[TableListing, ...]


class VersionInfo(msgspec.Struct, frozen=True):
    """Hold the version of a catalog."""

    catalog_version: int
    is_fixed: bool


class ListedContents(msgspec.Struct, frozen=True):
    """Hold compressed contents, or the URL and the hash of contents that are elsewhere."""

    sha256: str = ""
    url: str | None = None
    serialized: Blob | None = None


class SchemaEntry(msgspec.Struct, frozen=True):
    """Describe one schema of a listing."""

    name: str
    description: str
    tags: dict[str, str]
    contents: ListedContents
    is_default: bool | None = None


class CatalogListing(msgspec.Struct, frozen=True):
    """Hold the result of the action `list_schemas`."""

    contents: ListedContents
    schemas: list[SchemaEntry]
    version_info: VersionInfo


class _Item(msgspec.Struct, frozen=True):
    type: str
    catalog: str
    schema: str
    name: str
    comment: str | None = None


class _Checks(msgspec.Struct, frozen=True):
    constraints: list[str]


def is_rowid(field: pa.Field) -> bool:
    """Return whether the server marks this column as the row id."""
    return bool((field.metadata or {}).get(_ROWID_MARK))


def read_listing(body: bytes) -> CatalogListing:
    """Decode the result of the action `list_schemas`."""
    with reading_answer("list_schemas"):
        return decode(CatalogListing, _decompress(body), "list_schemas", ANSWER_LIMITS)


def read_schemas(
    listing: CatalogListing, catalog: str, list_flights: Callable[[str], Iterable[FlightInfo]]
) -> list[SchemaListing]:
    """Return the schemas; `list_flights` lists those whose contents are not in the listing."""
    contents_by_hash = _whole_catalog(listing.contents)
    schemas = []
    for entry in listing.schemas:
        packed = _schema_bytes(entry, contents_by_hash)
        flights = list_flights(entry.name) if packed is None else _unpack_flights(entry, packed)
        tables = read_tables(flights, catalog, entry.name)
        schemas.append(SchemaListing(entry.name, entry.description, entry.tags, tuple(tables)))
    return schemas


def read_tables(flights: Iterable[FlightInfo], catalog: str, schema: str) -> Iterable[TableListing]:
    """Yield the tables of a schema. Raises ServerError if the server lists those of another one."""
    for flight in flights:
        if not flight.app_metadata:
            continue
        item = _read_item(flight)
        if item.catalog != catalog or item.schema != schema:
            raise ServerError(
                f"the server lists {item.catalog}.{item.schema}.{item.name} in schema {schema!r}"
            )
        if item.type == _SERVED_AS_TABLE:
            yield _table(flight, item)


def read_table(flight: FlightInfo) -> TableListing:
    """Return the table that a FlightInfo describes."""
    return _table(flight, _read_item(flight))


def _read_item(flight: FlightInfo) -> _Item:
    with reading_answer("a FlightInfo"):
        return decode(_Item, flight.app_metadata, "app_metadata")


def _table(flight: FlightInfo, item: _Item) -> TableListing:
    with reading_answer("a FlightInfo"):
        announced = read_schema(flight.schema, "the schema of the table")
        checks = (announced.metadata or {}).get(_CHECKS)
        return TableListing(
            item.schema,
            item.name,
            item.comment or "",
            announced,
            flight.flight_descriptor.SerializeToString(),
            tuple(decode(_Checks, checks, "check_constraints").constraints) if checks else (),
            flight.total_records,
        )


def _whole_catalog(contents: ListedContents) -> Mapping[str, bytes]:
    """Return the contents of schemas by their hash; empty if they are not sent in one piece."""
    if not contents.sha256 or contents.serialized is None:
        return {}
    _check_hash("the catalog", contents.serialized, contents.sha256)
    with reading_answer("list_schemas"):
        pairs = unpack(contents.serialized, "the catalog", ANSWER_LIMITS)
        contents_by_hash = {sha256.decode(): packed for sha256, packed in pairs}
    for sha256, packed in contents_by_hash.items():
        _check_hash("a schema in the catalog", packed, sha256)
    return contents_by_hash


def _schema_bytes(entry: SchemaEntry, contents_by_hash: Mapping[str, bytes]) -> bytes | None:
    contents = entry.contents
    if contents.serialized is not None:
        if contents.sha256:
            _check_hash(f"schema {entry.name!r}", contents.serialized, contents.sha256)
        return contents.serialized
    if contents.sha256 in contents_by_hash:
        return contents_by_hash[contents.sha256]
    if contents.url:
        raise NotSupported(
            f"the contents of schema {entry.name!r} are at {contents.url}; this client does not "
            "read URLs"
        )
    if contents.sha256:
        raise ServerError(f"the contents of schema {entry.name!r} are not in the listing")
    return None


def _unpack_flights(entry: SchemaEntry, packed: bytes) -> Sequence[FlightInfo]:
    with reading_answer(f"list_schemas for schema {entry.name!r}"):
        return [
            FlightInfo.FromString(flight)
            for flight in unpack(_decompress(packed), "the flights", ANSWER_LIMITS)
        ]


def _decompress(packed: bytes) -> bytes:
    length, data = unpack(packed, "compressed contents", ANSWER_LIMITS)
    if not 0 <= length <= ANSWER_LIMITS.request_bytes:
        raise ValueError(f"the listing announces {length} bytes; the limit is 1 GiB")
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        plain: bytes = stream.read(length + 1)
    if len(plain) != length:
        raise ValueError(f"the zstd frame does not have the {length} bytes that it announces")
    return plain


def _check_hash(title: str, data: bytes, sha256: str) -> None:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ServerError(f"the contents of {title} do not match their SHA-256")
