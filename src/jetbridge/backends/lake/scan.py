"""Scans: the embedded DuckDB reads the pinned snapshot, filters pushed down, as Arrow."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from jetbridge.backends.lake.elsewhere import Need
from jetbridge.backends.lake.inventory import Inventory, inventory
from jetbridge.backends.lake.metadata import TableState
from jetbridge.backends.lake.reading import is_read_by_duckdb, reading
from jetbridge.backends.lake.store import Lake
from jetbridge.catalog import ROWID, Scan
from jetbridge.embedded import SLOW
from jetbridge.errors import BadRequest, Unavailable
from jetbridge.expr import And, Cast, Expr, Function, columns_of, walk
from jetbridge.names import fold
from jetbridge.sql import lake as queries
from jetbridge.sql.dialects import duckdb as dialect

log = logging.getLogger(__name__)

ROWS_PER_PART = 1_000_000
MOST_PARTS = 16
# A sort of so many rows costs little time and memory.
ORDERED_ROWS = 20_000


def scan(lake: Lake, state: TableState, request: Scan) -> Iterator[pa.RecordBatch]:
    names = _wanted(state, request.columns)
    schema = projected(state, names)
    files = _files_of_part(lake, state, request.part)
    if state.snapshot is None or files == ():
        return
    for batch in _filtered(lake, state, _Query(names, request.filter, files)):
        yield state.codec.from_result(batch, schema) if len(schema) else batch.select([])


@dataclass(frozen=True)
class _Query:
    names: Sequence[str]
    filter: Expr | None
    files: Sequence[str] | None


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
    with reading(lake, state, _need(state, query, condition)) as there:
        ordered = there.row_ids and _is_small(state)
        sql = scan_sql(there.sql, state, query, condition, ordered=ordered)
        yield from lake.reader.stream(sql, **there.tables)


def _need(state: TableState, query: _Query, condition: str) -> Need:
    filtered = columns_of(query.filter) if condition and query.filter else ()
    columns = [*query.names, *(_spelled(state, name) for name in filtered)]
    return Need(columns, ROWID in columns or query.files is not None)


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
        files=query.files,
        condition=condition,
        filtered=[(name, _judged(state, name)) for name in (_spelled(state, n) for n in used)],
        ordered=ordered,
    )


def _judged(state: TableState, name: str) -> str:
    """What a filter sees of a column."""
    return queries.ROW_ID if name == ROWID else state.codec.condition(name)


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
        if any(isinstance(n, Function) and fold(n.name) in SLOW for n in walk(part)):
            return ""
        if not all(_pushable(state, name) for name in columns_of(part)):
            return ""
        text = dialect.render(part)
    except BadRequest:
        return ""
    if any(isinstance(node, Function | Cast) for node in walk(part)):
        return queries.kept_if_it_fails(text)
    return f"({text})"


def _pushable(state: TableState, name: str) -> bool:
    spelled = _spelled(state, name)
    return spelled == ROWID or state.codec.pushable(spelled)


def counted(lake: Lake, state: TableState) -> int:
    """The number of rows where no summary tells it."""
    with reading(lake, state, Need((), row_ids=False)) as there:
        found = lake.reader.query(queries.count(there.sql), **there.tables)
        return int(found.column(0)[0].as_py())


def split(lake: Lake, state: TableState) -> list[str]:
    """Parts of about as many rows each; a table that is small or has one file is one part."""
    count = state.count()
    if count is None or count < 2 * ROWS_PER_PART or state.hides_places():
        return ["0-0"]
    if not is_read_by_duckdb(lake, state):
        return ["0-0"]  # each part would read the whole table
    return _ranges(inventory(lake.reader, state))


def _ranges(listed: Inventory) -> list[str]:
    total = sum(file.rows for file in listed.files)
    goal = max(ROWS_PER_PART, -(-total // MOST_PARTS))
    parts, start, rows = [], 0, 0
    for index, file in enumerate(listed.files, 1):
        rows += file.rows
        if rows >= goal or index == len(listed.files):
            parts.append(f"{start}-{index}")
            start, rows = index, 0
    return parts or ["0-0"]


def _files_of_part(lake: Lake, state: TableState, part: str | None) -> tuple[str, ...] | None:
    """None: all of them."""
    if part in (None, "0-0"):
        return None
    start, _, end = (part or "").partition("-")
    if not (start.isdecimal() and end.isdecimal()):
        raise BadRequest(f"table {state.title()!r} has no part {part!r}")
    files = inventory(lake.reader, state).files
    if not int(start) < int(end) <= len(files):
        raise BadRequest(f"table {state.title()!r} has no part {part!r}")
    if int(start) == 0 and int(end) == len(files):
        return None
    return tuple(file.location for file in files[int(start) : int(end)])
