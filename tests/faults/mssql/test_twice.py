"""Two attempts at one part at the same time, as with Spark's speculation, load it once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.database import Database, SpoolOptions
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, LoadTask, load_part
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.backends.mssql.write.load_tables import LoadTables, run_load
from jetbridge.backends.mssql.write.spool import RowSpool, SpoolPart
from jetbridge.backends.mssql.write.staged_load import load_with_spark
from jetbridge.dialects.tsql import load
from jetbridge.errors import ServerError
from tests.faults.mssql.scene import Scene, opened
from tests.helpers import lakes, mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
COLUMNS = (BulkColumn("id", "bigint"),)
PART_ROWS = 3000
PARTS = 4


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools")) as there:
        yield there


@pytest.fixture
def parts(tmp_path) -> Iterator[list[SpoolPart]]:
    """Spool the parts; their files exist as long as the spool."""
    spool = RowSpool(SpoolOptions(spool=str(tmp_path)), PART_ROWS)
    for number in range(PARTS):
        ids = pa.array(range(number * PART_ROWS, (number + 1) * PART_ROWS), pa.int64())
        spool.add(pa.RecordBatch.from_arrays([ids], names=["id"]))
    spool.to_files()
    assert len(spool.parts) == PARTS
    yield spool.parts
    spool.delete()


@contextmanager
def load_of(scene: Scene) -> Iterator[tuple[Database, LoadTables, LoadTarget]]:
    """Create a staging table and a ledger, as a statement does."""
    scene.clear()
    database = scene.bench.catalog.database
    with run_load(database, "dbo") as run:
        with database.server.borrow_core() as connection:
            connection.run(
                load.create_staging(run.staging, [(c.name, c.sql_type) for c in COLUMNS])
            )
            connection.run(load.create_ledger("dbo", run.ledger_name))
        yield database, run, LoadTarget(run.staging, COLUMNS, lock=True)


def at_once(*works: Callable[[], object]) -> list[object]:
    with ThreadPoolExecutor(len(works)) as pool:
        return [each.result(120) for each in [pool.submit(work) for work in works]]


def totals(scene: Scene, run: LoadTables) -> list[tuple[int, ...]]:
    return scene.witness.query(
        f"SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT id), SUM(id) FROM {run.staging}"
    )


def expected(parts: int) -> list[tuple[int, ...]]:
    rows = parts * PART_ROWS
    return [(rows, rows, rows * (rows - 1) // 2)]


def test_two_attempts_at_one_part_load_it_once(scene, parts):
    with load_of(scene) as (database, run, goal):
        order = LoadTask(database.server.address, goal, run.ledger, database.settings)

        def attempt() -> int:
            return load_part(database.server, order, parts[2])

        scene.order(when="bulk row", at=PART_ROWS // 2, delay=1.0)
        assert at_once(attempt, attempt, attempt) == [2, 2, 2]
        assert scene.fired() == 1
        ((rows, distinct, _),) = totals(scene, run)
        assert (rows, distinct) == (PART_ROWS, PART_ROWS)


def test_the_second_attempt_loads_the_part_that_the_first_one_could_not(scene, parts):
    """It waits for the first attempt, and does not take its failure for success."""
    with load_of(scene) as (database, run, goal):
        order = LoadTask(database.server.address, goal, run.ledger, database.settings)

        def attempt() -> object:
            try:
                return load_part(database.server, order, parts[0])
            except ServerError as error:
                return error

        scene.order(when="bulk row", at=PART_ROWS // 2, delay=1.0, number=1105)
        first, second = at_once(attempt, attempt)
        assert {type(first), type(second)} > {int}
        assert totals(scene, run) == expected(1)


@pytest.mark.full
@pytest.mark.parametrize(
    "fault",
    [{"delay": 0.5, "drop": "reset"}, pytest.param({"delay": 0.5}, marks=pytest.mark.soak)],
    ids=str,
)
def test_two_jobs_over_the_same_parts_load_them_once(scene, parts, fault):
    with load_of(scene) as (database, run, goal):

        def job() -> None:
            load_with_spark(database, run, goal, parts)

        scene.order(when="bulk row", at=PART_ROWS, times=3, **fault)
        at_once(job, job)
        assert scene.fired() == 3
        assert totals(scene, run) == expected(PARTS)
    assert scene.left() == []
