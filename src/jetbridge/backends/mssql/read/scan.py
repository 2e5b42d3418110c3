"""Reading a table: the columns wanted, conditions as parameters, ranges of the key."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.errors import naming
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
_PART_ROWS = 100_000
_MOST_PARTS = 8
_COUNTED = 65_536
_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class ScanQuery:
    """`targets` are the fields of the answer; the row id is made of columns of the key."""

    sql: str
    parameters: tuple[Any, ...]
    title: str
    asked: tuple[pa.Field, ...]
    targets: tuple[pa.Field, ...]
    row_ids: RowIds | None

    def conformed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema(self.targets)
        with naming(self.title):
            if not self.targets:
                yield from _counted(batches)
                return
            for batch in batches:
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(self._columns(batch), schema=schema)

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        found = {
            field.name: _conformed(column, field)
            for field, column in zip(self.asked, batch.columns, strict=True)
        }
        made = []
        for field in self.targets:
            if field.name != ROWID or self.row_ids is None:
                made.append(found[field.name])
            else:
                made.append(self.row_ids.of([found[each.name] for each in self.row_ids.columns]))
        return made


def _conformed(column: pa.Array, field: pa.Field) -> pa.Array:
    """Seven digits of a second become six, as DuckDB has them."""
    if pa.types.is_time64(column.type):
        return column.cast(field.type, safe=False)
    return cast(column, field)


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows without columns, as many as the server has counted."""
    left = sum(batch.column(0)[0].as_py() for batch in batches if batch.num_rows)
    blank = pa.record_batch({"n": pa.nulls(min(left, _COUNTED))}).select([])
    while left > 0:
        yield blank.slice(0, min(left, _COUNTED))
        left -= _COUNTED


def question(
    table: TableDescription, info: TableInfo, row_ids: RowIds | None, request: Scan
) -> ScanQuery:
    """Judged before the first row is asked for."""
    spelled = {fold(each.name): each for each in table.columns}
    fields = {fold(field.name): field for field in info.schema}
    if row_ids is not None:
        fields[ROWID] = pa.field(ROWID, row_ids.type, nullable=False)
    names = request.columns
    if names is None:
        names = (*info.schema.names, *([ROWID] if row_ids is not None else []))
    targets = tuple(_found(fields, name, table) for name in names)
    asked = {fold(each.name): each for each in targets if each.name != ROWID}
    if len(asked) < len(targets) and row_ids is not None:
        asked |= {fold(each.name): fields[fold(each.name)] for each in row_ids.columns}
    items = [_item(spelled[name]) for name in asked]
    where, parameters = _where(table, request)
    sql = statements.select(table.schema, table.name, items, where)
    return ScanQuery(sql, parameters, table.title(), tuple(asked.values()), targets, row_ids)


def _found(fields: dict[str, pa.Field], name: str, table: TableDescription) -> pa.Field:
    found = fields.get(fold(name))
    if found is None:
        raise BadRequest(f"table {table.name!r} has no column {name!r}")
    return found


def _item(column: ServerColumn) -> str:
    return (
        statements.as_text(column.name)
        if is_read_as_text(column)
        else statements.bracketed(column.name)
    )


def _where(table: TableDescription, request: Scan) -> tuple[str, tuple[Any, ...]]:
    found = None
    if request.filter is not None:
        found = condition(request.filter, {fold(each.name): each.type for each in table.columns})
    texts = [found.sql] if found else []
    values = found.parameters if found else ()
    if request.part not in (None, WHOLE):
        text, ends = _range(table, request.part or "")
        texts.append(text)
        values = (*values, *ends)
    return " AND ".join(texts), values


def _range(table: TableDescription, part: str) -> tuple[str, tuple[int, ...]]:
    """`from-to` of the first column of the key; empty: without that end."""
    column = _split_column(table)
    ends = part.split(":")
    if column is None or len(ends) != 2 or not all(_is_number(end) for end in ends):  # noqa: PLR2004
        raise BadRequest(f"table {table.name!r} has no part {part!r}")
    low, high = ends
    return statements.between(column.name, bool(low), bool(high)), tuple(int(e) for e in ends if e)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() or not text


def _split_column(table: TableDescription) -> ServerColumn | None:
    key = table.primary_key()
    return key[0] if key and key[0].type in _WHOLE_NUMBERS else None


def parts(server: ConnectionPool, table: TableDescription) -> Sequence[str]:
    """Ranges of the key that together hold all rows; one for tables that are not large."""
    column = _split_column(table)
    number = min(_MOST_PARTS, count(server, table) // _PART_ROWS) if column else 0
    if column is None or number < 2:  # noqa: PLR2004 - nothing to split
        return [WHOLE]
    ((low, high),) = server.ask(statements.least_and_most(table.schema, table.name, column.name))
    if low is None or high - low < number:
        return [WHOLE]
    cuts = [str(low + (high - low) * each // number) for each in range(1, number)]
    return [f"{a}:{b}" for a, b in zip(["", *cuts], [*cuts, ""], strict=True)]


def count(server: ConnectionPool, table: TableDescription) -> int:
    """What the server keeps of it, without reading the rows; Babelfish keeps a guess, or 0."""
    if server.is_babelfish():
        ((found,),) = server.ask(statements.select(table.schema, table.name, []))
        return int(found)
    ((found,),) = server.ask(statements.ROW_COUNT, table.object_id)
    return int(found or 0)


def stream(server: ConnectionPool, asked: ScanQuery) -> Iterator[pa.RecordBatch]:
    with server.asking() as connection:
        yield from connection.stream(asked.sql, asked.parameters)
