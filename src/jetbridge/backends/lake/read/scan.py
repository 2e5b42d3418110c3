"""Scans a snapshot as Arrow batches, with filters pushed down into DuckDB."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.parquet_columns import are_fixed, is_direct, open_columns
from jetbridge.backends.lake.read.relation import is_read_by_duckdb, open_snapshot
from jetbridge.backends.lake.read.splits import ScanSplit, find_split
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


def scan(context: ReadContext, state: TableState, request: Scan) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a request asks for."""
    names = _column_names(state, request.columns)
    schema = projected(state, names)
    split = find_split(context, state, request.part)
    if state.snapshot is None:
        return
    plain = request.filter is None and not _is_small(state) and is_direct(state, names)
    if plain and is_read_by_duckdb(context, state):
        yield from _by_files(context, state, schema, split)
        return
    yield from _by_query(context, state, _Query(names, request.filter, split), schema)


def _by_files(
    context: ReadContext, state: TableState, schema: pa.Schema, split: ScanSplit | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows: Arrow reads the files that it can read, DuckDB the others."""
    whole = split or ScanSplit(context.snapshot_files(state).files)
    for entry in whole.files:
        piece = ScanSplit((entry,), whole.start, whole.end)
        file = open_columns(context, state, entry, schema.names)
        if file is not None:
            yield from file.rows(schema, piece.start, piece.end)
        else:
            yield from _by_query(context, state, _Query(schema.names, None, piece), schema)


@dataclass(frozen=True)
class _Query:
    names: Sequence[str]
    filter: Expr | None
    split: ScanSplit | None


def _by_query(
    context: ReadContext, state: TableState, query: _Query, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in _filtered(context, state, query):
        yield state.codec.from_result(batch, schema) if len(schema) else batch.select([])


def _filtered(context: ReadContext, state: TableState, query: _Query) -> Iterator[pa.RecordBatch]:
    condition = safe_condition(state, query.filter)
    batches = _batches(context, state, query, condition)
    if condition:
        try:
            first = next(batches, None)
        except Unavailable:
            # DuckDB may not have a function of the client; the client filters again anyway.
            log.debug("scan of %s without its filter", state.title(), exc_info=True)
            return _batches(context, state, query, "")
        return chain([] if first is None else [first], batches)
    return batches


def _batches(
    context: ReadContext, state: TableState, query: _Query, condition: str
) -> Iterator[pa.RecordBatch]:
    with open_snapshot(context, state, _read_columns(state, query, condition)) as relation:
        ordered = relation.row_ids and _is_small(state)
        sql = scan_sql(relation.sql, state, query, condition, ordered=ordered)
        rows = _rows_per_batch(state, query.names)
        yield from context.reader.stream(sql, rows, **relation.tables)


def _rows_per_batch(state: TableState, names: Sequence[str]) -> int:
    """Return the size of a batch: small where the length of a value is not known."""
    return _FIXED_ROWS if are_fixed(projected(state, names).types) else _TEXT_ROWS


def _read_columns(state: TableState, query: _Query, condition: str) -> ReadColumns:
    filtered = columns_of(query.filter) if condition and query.filter else ()
    columns = [*query.names, *(_spelled(state, name) for name in filtered)]
    return ReadColumns(columns, ROWID in columns or query.split is not None)


def _is_small(state: TableState) -> bool:
    """Return whether rows come in the order in which they were inserted, as people expect."""
    count = state.count()
    return state.has_row_ids() and count is not None and count <= ORDERED_ROWS


def _column_names(state: TableState, columns: tuple[str, ...] | None) -> list[str]:
    """Return the columns as the table spells them, `rowid` among them."""
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
    """Return the schema of these columns; `rowid` may be among them."""
    rowid = pa.field(ROWID, pa.int64(), nullable=False)
    schema = state.definition.schema
    return pa.schema([rowid if name == ROWID else schema.field(name) for name in names])


def expression(state: TableState, name: str) -> str:
    """Return a column as SQL over `iceberg_scan`."""
    return queries.ROW_ID if name == ROWID else state.codec.select(name)


def scan_sql(
    source: str, state: TableState, query: _Query, condition: str = "", *, ordered: bool = False
) -> str:
    """Return the query of a scan; its condition has columns as the client has them."""
    columns = [(name, expression(state, name)) for name in query.names]
    used = sorted(columns_of(query.filter)) if condition and query.filter else []
    return queries.scan(
        source,
        columns,
        within=_within(query.split),
        condition=condition,
        filtered=[
            (name, _filtered_column(state, name)) for name in (_spelled(state, n) for n in used)
        ],
        ordered=ordered,
    )


def _within(split: ScanSplit | None) -> str:
    return "" if split is None else queries.in_files(split.locations, split.start, split.end)


def _filtered_column(state: TableState, name: str) -> str:
    """Return a column as SQL for filters."""
    return queries.UNSKIPPED_ROW_ID if name == ROWID else state.codec.condition(name)


def safe_condition(state: TableState, condition: Expr | None) -> str:
    """Return the part of a filter that can be pushed down, as SQL that fails for no row.

    A function or cast that fails for a value keeps the row.
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


def count_rows(context: ReadContext, state: TableState) -> int:
    """Return the number of rows; a scan counts them if no summary has it."""
    count = state.count()
    if count is not None:
        return count
    with open_snapshot(context, state, ReadColumns((), row_ids=False)) as relation:
        rows = context.reader.query(queries.count_rows(relation.sql), **relation.tables)
        return int(rows.column(0)[0].as_py())
