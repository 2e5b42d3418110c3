"""Scans tables with the filter as parameters, and splits scans by ranges of the key."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds
from jetbridge.backends.mssql.types import ServerColumn, is_read_as_text
from jetbridge.catalog import ROWID, Scan, TableInfo
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import statements
from jetbridge.dialects.tsql.predicates import condition
from jetbridge.duckdb_engine import cast
from jetbridge.errors import BadRequest

WHOLE = "all"
_SPLIT_ROWS = 100_000
_MAX_SPLITS = 8
_BATCH_ROWS = 65_536
_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class ScanQuery:
    """Hold a query, and convert its rows to those of a scan.

    `selected` are the fields of the query, `targets` those of the scan. The row ids are made from
    the columns of the key.
    """

    sql: str
    parameters: tuple[Any, ...]
    title: str
    selected: tuple[pa.Field, ...]
    targets: tuple[pa.Field, ...]
    row_ids: RowIds | None

    def convert(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert the driver's batches to those of the scan."""
        schema = pa.schema(self.targets)
        with name_errors(self.title):
            if not self.targets:
                yield from _empty_rows(batches)
                return
            for batch in batches:
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(self._columns(batch), schema=schema)

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        selected = {
            field.name: _convert(column, field)
            for field, column in zip(self.selected, batch.columns, strict=True)
        }
        columns = []
        for field in self.targets:
            if field.name != ROWID or self.row_ids is None:
                columns.append(selected[field.name])
            else:
                keys = [selected[column.name] for column in self.row_ids.columns]
                columns.append(self.row_ids.encode(keys))
        return columns


def _convert(column: pa.Array, field: pa.Field) -> pa.Array:
    """Convert a column, and cut times to DuckDB's six digits of a second."""
    if pa.types.is_time64(column.type):
        return column.cast(field.type, safe=False)
    return cast(column, field)


def _empty_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield as many rows without columns as the server has counted."""
    left = sum(batch.column(0)[0].as_py() for batch in batches if batch.num_rows)
    blank = pa.record_batch({"n": pa.nulls(min(left, _BATCH_ROWS))}).select([])
    while left > 0:
        yield blank.slice(0, min(left, _BATCH_ROWS))
        left -= _BATCH_ROWS


def plan_query(
    table: TableDescription, info: TableInfo, row_ids: RowIds | None, request: Scan
) -> ScanQuery:
    """Return the query of a scan. Raises BadRequest for columns and splits that do not exist."""
    columns = {fold(column.name): column for column in table.columns}
    fields = {fold(field.name): field for field in info.schema}
    if row_ids is not None:
        fields[ROWID] = pa.field(ROWID, row_ids.type, nullable=False)
    names = request.columns
    if names is None:
        names = (*info.schema.names, *([ROWID] if row_ids is not None else []))
    targets = tuple(_find_field(fields, name, table) for name in names)
    selected = {fold(field.name): field for field in targets if field.name != ROWID}
    if len(selected) < len(targets) and row_ids is not None:
        selected |= {fold(key.name): fields[fold(key.name)] for key in row_ids.columns}
    items = [_item(columns[name]) for name in selected]
    where, parameters = _where(table, request)
    sql = statements.select(table.schema, table.name, items, where)
    return ScanQuery(sql, parameters, table.title(), tuple(selected.values()), targets, row_ids)


def _find_field(fields: dict[str, pa.Field], name: str, table: TableDescription) -> pa.Field:
    field = fields.get(fold(name))
    if field is None:
        raise BadRequest(f"table {table.name!r} has no column {name!r}")
    return field


def _item(column: ServerColumn) -> str:
    return (
        statements.as_text(column.name)
        if is_read_as_text(column)
        else statements.bracket(column.name)
    )


def _where(table: TableDescription, request: Scan) -> tuple[str, tuple[Any, ...]]:
    pushed = None
    if request.filter is not None:
        types = {fold(column.name): column.type for column in table.columns}
        pushed = condition(request.filter, types)
    conditions = [pushed.sql] if pushed else []
    parameters = pushed.parameters if pushed else ()
    if request.part not in (None, WHOLE):
        text, bounds = _range(table, request.part or "")
        conditions.append(text)
        parameters = (*parameters, *bounds)
    return " AND ".join(conditions), parameters


def _range(table: TableDescription, split: str) -> tuple[str, tuple[int, ...]]:
    """Read `low:high` of the first column of the key; an empty bound is none."""
    column = _split_column(table)
    bounds = split.split(":")
    if column is None or len(bounds) != 2 or not all(map(_is_number, bounds)):  # noqa: PLR2004
        raise BadRequest(f"table {table.name!r} has no split {split!r}")
    low, high = bounds
    parameters = tuple(int(bound) for bound in bounds if bound)
    return statements.between(column.name, bool(low), bool(high)), parameters


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() or not text


def _split_column(table: TableDescription) -> ServerColumn | None:
    key = table.primary_key()
    return key[0] if key and key[0].type in _WHOLE_NUMBERS else None


def list_splits(server: ConnectionPool, table: TableDescription) -> Sequence[str]:
    """Return ranges of the key that together contain all rows; one range for a small table."""
    column = _split_column(table)
    number = min(_MAX_SPLITS, count_rows(server, table) // _SPLIT_ROWS) if column else 0
    if column is None or number < 2:  # noqa: PLR2004 - nothing to split
        return [WHOLE]
    ((low, high),) = server.query(statements.select_bounds(table.schema, table.name, column.name))
    if low is None or high - low < number:
        return [WHOLE]
    cuts = [str(low + (high - low) * index // number) for index in range(1, number)]
    return [f"{a}:{b}" for a, b in zip(["", *cuts], [*cuts, ""], strict=True)]


def count_rows(server: ConnectionPool, table: TableDescription) -> int:
    """Return the row count of the server's statistics, which reads no rows.

    Babelfish keeps only an estimate, or 0, so there the rows are counted.
    """
    if server.is_babelfish():
        ((rows,),) = server.query(statements.select(table.schema, table.name, []))
        return int(rows)
    ((rows,),) = server.query(statements.ROW_COUNT, table.object_id)
    return int(rows or 0)


def stream(server: ConnectionPool, query: ScanQuery) -> Iterator[pa.RecordBatch]:
    """Yield the driver's batches of a query, on a connection of its own."""
    with server.borrow_odbc() as connection:
        yield from connection.stream(query.sql, query.parameters)
