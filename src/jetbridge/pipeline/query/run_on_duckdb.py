"""Runs queries in the embedded DuckDB, with their rows as a stream of batches.

DuckDB needs no memory for all rows: it spills to its temporary files.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

import pyarrow as pa

from jetbridge.catalog import ROWID, CanRelate, Scan, Table, supports
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine import duckdb_type
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.pipeline.name_resolution import Path
from jetbridge.pipeline.query.plan import TARGET, Plan
from jetbridge.pipeline.query.table_scans import TableScan, table_scans
from jetbridge.runtime.cancellation import current, within


@contextmanager
def register_tables(
    connection: StatementConnection, sources: Mapping[Path, Table], query: str
) -> Iterator[None]:
    """Let the query find the rows of its tables, each under its name.

    The table at `TARGET` also has a column `rowid`. Of a table that DuckDB cannot read itself, the
    rows and columns that the query needs are copied.
    """
    has_copies = any(not supports(table, CanRelate) for table in sources.values())
    scans = table_scans(connection, query) if has_copies else {}
    with ExitStack() as stack:
        for number, (path, table) in enumerate(sources.items()):
            row_ids = path == TARGET
            relation = None
            if supports(table, CanRelate) and connection.reads_table_files:
                relation = stack.enter_context(table.relation(row_ids=row_ids))
            if relation is not None:
                connection.create_view(path, relation)
            else:
                name = f"jetbridge_rows_{number}"
                _copy(connection, path, table, name, scans.get(path), row_ids=row_ids)
        yield


def _copy(
    connection: StatementConnection,
    path: Path,
    table: Table,
    name: str,
    needed: TableScan | None,
    *,
    row_ids: bool,
) -> None:
    """Copy a table into DuckDB's memory, or its temporary files if there is not enough of it.

    Columns that the query does not read are NULL. `needed` None: copy everything.
    """
    info = table.info()
    rowid = [pa.field(ROWID, info.row_id or pa.int64(), nullable=False)] if row_ids else []
    whole = pa.schema([*info.schema, *rowid])
    read = [f for f in whole if needed is None or f.name in needed.columns] or [whole.field(0)]
    schema = pa.schema(read)
    scan = Scan(tuple(schema.names), needed.filter if needed else None)
    # DuckDB reads the batches in threads of its own.
    batches = within(current(), table.scan(scan))
    connection.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    columns = [(f.name, duckdb_type(f), f in read) for f in whole]
    connection.create_table_as(path, queries.with_null_columns(name, columns))


def stream_rows(
    connection: StatementConnection, plan: Plan, *, read_first: bool = False
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a planned query, with exactly the columns of the plan.

    `read_first`: read all tables before the first row is returned.
    """
    direct = None if read_first else _read_directly(connection, plan)
    with closing(_run(connection, plan) if direct is None else direct) as batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=plan.schema)


def _run(connection: StatementConnection, plan: Plan) -> Generator[pa.RecordBatch]:
    with register_tables(connection, plan.sources, plan.query):
        yield from connection.stream(plan.query)


def _read_directly(connection: StatementConnection, plan: Plan) -> Generator[pa.RecordBatch] | None:
    """Return the rows of a query that only reads one table, without DuckDB; else None."""
    if len(plan.sources) != 1 or any(supports(t, CanRelate) for t in plan.sources.values()):
        return None
    path, columns = connection.single_table_read(plan.query) or ((), ())
    table = next((table for key, table in plan.sources.items() if key == path), None)
    if table is None or len(set(columns)) < len(columns):
        return None
    schema = table.info().schema
    same_types = [schema.field(name).type for name in columns] == plan.schema.types
    return _scan(table, columns) if same_types else None


def _scan(table: Table, columns: tuple[str, ...]) -> Generator[pa.RecordBatch]:
    yield from within(current(), table.scan(Scan(columns)))
