"""Queries run by the embedded DuckDB: out of core, their rows as a stream of batches."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pyarrow as pa

from jetbridge.catalog import ROWID, CanRelate, Scan, Table, supports
from jetbridge.embedded.workbench import Desk
from jetbridge.pipeline.places import Path
from jetbridge.pipeline.plan import TARGET, Plan


@contextmanager
def laid_out(desk: Desk, sources: Mapping[Path, Table]) -> Iterator[None]:
    """The tables of a query, each behind its name; that at `TARGET` has a column `rowid`, too."""
    with ExitStack() as stack:
        for number, (path, table) in enumerate(sources.items()):
            wanted = path == TARGET
            relation = None
            if supports(table, CanRelate) and desk.reads_tables:
                relation = stack.enter_context(table.relation(row_ids=wanted))
            if relation is not None:
                desk.define(path, relation)
            else:
                _copy(desk, path, table, f"jetbridge_rows_{number}", row_ids=wanted)
        yield


def _copy(desk: Desk, path: Path, table: Table, name: str, *, row_ids: bool) -> None:
    """In DuckDB's memory or, if there is not enough of it, in its temporary files."""
    info = table.info()
    rowid = [pa.field(ROWID, info.row_id or pa.int64(), nullable=False)] if row_ids else []
    schema = pa.schema([*info.schema, *rowid])
    batches = table.scan(Scan(tuple(schema.names)))
    desk.register(name, pa.RecordBatchReader.from_batches(schema, batches))
    desk.keep(path, f"FROM {name}")


def rows(desk: Desk, plan: Plan) -> Iterator[pa.RecordBatch]:
    """Those of a planned query, with exactly the columns of the plan."""
    with laid_out(desk, plan.sources):
        for batch in desk.stream(plan.query):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=plan.schema)
