"""Queries run by the embedded DuckDB: out of core, their rows as a stream of batches."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

import pyarrow as pa

from jetbridge.catalog import ROWID, CanRelate, Scan, Table, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.planner import StatementConnection
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.query.plan import TARGET, Plan
from jetbridge.pipeline.query.table_scans import TableScan, table_scans
from jetbridge.runtime.cancellation import current, within


@contextmanager
def register_tables(
    desk: StatementConnection, sources: Mapping[Path, Table], query: str
) -> Iterator[None]:
    """The tables of a query, each behind its name; that at `TARGET` has a column `rowid`, too.

    Those that DuckDB cannot read by itself are copied, as far as the query needs them.
    """
    copied = [each for each in sources.values() if not supports(each, CanRelate)]
    wanted_of = table_scans(desk, query) if copied else {}
    with ExitStack() as stack:
        for number, (path, table) in enumerate(sources.items()):
            wanted = path == TARGET
            relation = None
            if supports(table, CanRelate) and desk.reads_table_files:
                relation = stack.enter_context(table.relation(row_ids=wanted))
            if relation is not None:
                desk.create_view(path, relation)
            else:
                name = f"jetbridge_rows_{number}"
                _copy(desk, path, table, name, wanted_of.get(path), row_ids=wanted)
        yield


def _copy(
    desk: StatementConnection,
    path: Path,
    table: Table,
    name: str,
    need: TableScan | None,
    *,
    row_ids: bool,
) -> None:
    """In DuckDB's memory or, if there is not enough of it, in its temporary files.

    Columns that the query does not read are NULL.
    """
    info = table.info()
    rowid = [pa.field(ROWID, info.row_id or pa.int64(), nullable=False)] if row_ids else []
    whole = pa.schema([*info.schema, *rowid])
    read = [f for f in whole if need is None or f.name in need.columns] or [whole.field(0)]
    schema = pa.schema(read)
    scan = Scan(tuple(schema.names), need.filter if need else None)
    batches = within(current(), table.scan(scan))  # DuckDB takes them by threads of its own
    desk.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    columns = [(f.name, duckdb_type(f), f in read) for f in whole]
    desk.create_table_as(path, queries.with_null_columns(name, columns))


def stream_rows(
    desk: StatementConnection, plan: Plan, *, streams: bool = True
) -> Iterator[pa.RecordBatch]:
    """Those of a planned query, with exactly the columns of the plan.

    `streams` False: all tables are read before the first row comes.
    """
    copied = _copied(desk, plan) if streams else None
    with closing(_queried(desk, plan) if copied is None else copied) as batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=plan.schema)


def _queried(desk: StatementConnection, plan: Plan) -> Generator[pa.RecordBatch]:
    with register_tables(desk, plan.sources, plan.query):
        yield from desk.stream(plan.query)


def _copied(desk: StatementConnection, plan: Plan) -> Generator[pa.RecordBatch] | None:
    """The rows as the table has them, for a query that does nothing but read one."""
    if len(plan.sources) != 1 or any(supports(each, CanRelate) for each in plan.sources.values()):
        return None
    path, columns = desk.single_table_read(plan.query) or ((), ())
    table = next((each for name, each in plan.sources.items() if name == path), None)
    if table is None or len(set(columns)) < len(columns):
        return None
    schema = table.info().schema
    same = [schema.field(name).type for name in columns] == plan.schema.types
    return _scanned(table, columns) if same else None


def _scanned(table: Table, columns: tuple[str, ...]) -> Generator[pa.RecordBatch]:
    yield from within(current(), table.scan(Scan(columns)))
