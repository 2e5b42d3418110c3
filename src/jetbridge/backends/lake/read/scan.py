"""Scans: the embedded DuckDB reads the pinned snapshot, filters pushed down, as Arrow."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.snapshot_files import inventory
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.parquet_columns import are_fixed, is_direct, opened
from jetbridge.backends.lake.read.relation import is_read_by_duckdb, open_snapshot
from jetbridge.backends.lake.read.splits import ScanSplit, part_of
from jetbridge.catalog import ROWID, Scan
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.dialects.duckdb import predicates as dialect
from jetbridge.duckdb_engine import check_filter
from jetbridge.errors import BadRequest, Unavailable
from jetbridge.expr import And, Cast, Expr, Function, columns_of, walk

log = logging.getLogger(__name__)

_FIXED_ROWS, _TEXT_ROWS = 122_880, 16_384
# A sort of so many rows costs little time and memory.
ORDERED_ROWS = 20_000


def scan(lake: Lake, state: TableState, request: Scan) -> Iterator[pa.RecordBatch]:
    names = _wanted(state, request.columns)
    schema = projected(state, names)
    part = part_of(lake, state, request.part)
    if state.snapshot is None:
        return
    plain = request.filter is None and not _is_small(state) and is_direct(state, names)
    if plain and is_read_by_duckdb(lake, state):
        yield from _by_files(lake, state, schema, part)
        return
    yield from _by_query(lake, state, _Query(names, request.filter, part), schema)


def _by_files(
    lake: Lake, state: TableState, schema: pa.Schema, part: ScanSplit | None
) -> Iterator[pa.RecordBatch]:
    """Arrow reads what it can, DuckDB the other files."""
    whole = part or ScanSplit(inventory(lake.reader, state).files)
    for entry in whole.files:
        piece = ScanSplit((entry,), whole.start, whole.end)
        file = opened(lake, state, entry, schema.names)
        if file is not None:
            yield from file.rows(schema, piece.start, piece.end)
        else:
            yield from _by_query(lake, state, _Query(schema.names, None, piece), schema)


@dataclass(frozen=True)
class _Query:
    names: Sequence[str]
    filter: Expr | None
    part: ScanSplit | None


def _by_query(
    lake: Lake, state: TableState, query: _Query, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in _filtered(lake, state, query):
        yield state.codec.from_result(batch, schema) if len(schema) else batch.select([])


def _filtered(lake: Lake, state: TableState, query: _Query) -> Iterator[pa.RecordBatch]:
    condition = safe_condition(state, query.filter)
    batches = _batches(lake, state, query, condition)
    if condition:
        try:
            first = next(batches, None)
        except Unavailable:
            # DuckDB may not know a function of the client's; the client filters again anyway.
            log.debug("scan of %s without its filter", state.title(), exc_info=True)
            return _batches(lake, state, query, "")
        return chain([] if first is None else [first], batches)
    return batches


def _batches(
    lake: Lake, state: TableState, query: _Query, condition: str
) -> Iterator[pa.RecordBatch]:
    with open_snapshot(lake, state, _need(state, query, condition)) as there:
        ordered = there.row_ids and _is_small(state)
        sql = scan_sql(there.sql, state, query, condition, ordered=ordered)
        yield from lake.reader.stream(sql, _rows_per_batch(state, query.names), **there.tables)


def _rows_per_batch(state: TableState, names: Sequence[str]) -> int:
    """Fewer where nobody knows how long a value is."""
    return _FIXED_ROWS if are_fixed(projected(state, names).types) else _TEXT_ROWS


def _need(state: TableState, query: _Query, condition: str) -> ReadColumns:
    filtered = columns_of(query.filter) if condition and query.filter else ()
    columns = [*query.names, *(_spelled(state, name) for name in filtered)]
    return ReadColumns(columns, ROWID in columns or query.part is not None)


def _is_small(state: TableState) -> bool:
    """Rows of a small table come in the order they were inserted, as people expect."""
    count = state.count()
    return state.has_row_ids() and count is not None and count <= ORDERED_ROWS


def _wanted(state: TableState, columns: tuple[str, ...] | None) -> list[str]:
    """The columns as the table spells them, `rowid` among them."""
    if columns is None:
        rowid = [ROWID] if state.has_row_ids() else []
        return [*state.definition.schema.names, *rowid]
    return [_spelled(state, name) for name in columns]


def _spelled(state: TableState, name: str) -> str:
    if fold(name) == ROWID and state.has_row_ids():
        return ROWID
    position = state.definition.position(name)
    if position is None:
        raise BadRequest(f"table {state.title()!r} has no column {name!r}")
    return str(state.definition.schema.field(position).name)


def projected(state: TableState, names: Sequence[str]) -> pa.Schema:
    rowid = pa.field(ROWID, pa.int64(), nullable=False)
    schema = state.definition.schema
    return pa.schema([rowid if name == ROWID else schema.field(name) for name in names])


def expression(state: TableState, name: str) -> str:
    """What a column is in terms of `iceberg_scan`."""
    return queries.ROW_ID if name == ROWID else state.codec.select(name)


def scan_sql(
    source: str, state: TableState, query: _Query, condition: str = "", *, ordered: bool = False
) -> str:
    """The condition sees the columns of the filter by the names and types that the user knows."""
    columns = [(name, expression(state, name)) for name in query.names]
    used = sorted(columns_of(query.filter)) if condition and query.filter else []
    return queries.scan(
        source,
        columns,
        within=_within(query.part),
        condition=condition,
        filtered=[(name, _judged(state, name)) for name in (_spelled(state, n) for n in used)],
        ordered=ordered,
    )


def _within(part: ScanSplit | None) -> str:
    return "" if part is None else queries.in_files(part.locations, part.start, part.end)


def _judged(state: TableState, name: str) -> str:
    """What a filter sees of a column."""
    return queries.UNSKIPPED_ROW_ID if name == ROWID else state.codec.condition(name)


def safe_condition(state: TableState, condition: Expr | None) -> str:
    """The filter as SQL that fails for no row; nothing where there is none to push down.

    What can fail for a value (a function, a cast) keeps the rows for which it does.
    """
    if condition is None:
        return ""
    parts = condition.children if isinstance(condition, And) else (condition,)
    return " AND ".join(filter(None, (_safe(state, part) for part in parts)))


def _safe(state: TableState, part: Expr) -> str:
    try:
        if not all(_pushable(state, name) for name in columns_of(part)):
            return ""
        text = dialect.render(part)
        if any(isinstance(node, Function) for node in walk(part)):
            check_filter(text)
    except BadRequest:
        return ""
    if any(isinstance(node, Function | Cast) for node in walk(part)):
        return queries.keep_on_error(text)
    return f"({text})"


def _pushable(state: TableState, name: str) -> bool:
    spelled = _spelled(state, name)
    return spelled == ROWID or state.codec.pushable(spelled)


def counted(lake: Lake, state: TableState) -> int:
    """The number of rows where no summary tells it."""
    with open_snapshot(lake, state, ReadColumns((), row_ids=False)) as there:
        found = lake.reader.query(queries.count_rows(there.sql), **there.tables)
        return int(found.column(0)[0].as_py())
