"""CREATE TABLE AS while Spark, its disk or its sources fail; for workers: test_cluster.

Afterwards the target is as before or as after, and nothing is left behind.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.leftovers import leftovers, table_folder
from tests.faults.moments import Moment, Watch
from tests.faults.pipeline_process import NEW, OLD, PipelineProcess, Target, running
from tests.faults.small_disk import Disk, may_mount, mounted

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk | None]:
    if not may_mount():
        yield None
        return
    with mounted(tmp_path_factory.mktemp("disk") / "small", "100m") as there:
        yield there


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory, disk: Disk | None) -> dict[str, Path]:
    """Create lakes, one of them on a small disk."""
    folder = tmp_path_factory.mktemp("lakes")
    return {"lake": folder / "lake", "small": disk.folder / "lake" if disk else folder / "small"}


@pytest.fixture(scope="module")
def there(
    tmp_path_factory: pytest.TempPathFactory, lakes: dict[str, Path]
) -> Iterator[PipelineProcess]:
    with running(tmp_path_factory.mktemp("pipeline"), lakes) as made:
        yield made


@pytest.fixture(scope="module")
def target(there: PipelineProcess, lakes: dict[str, Path]) -> Target:
    return Target(there, "lake", lakes["lake"])


@pytest.mark.parametrize(
    ("engine", "moment"),
    [
        pytest.param("spark", Moment("TABLE/data", "*.parquet"), marks=pytest.mark.full),
        pytest.param(
            "spark", Moment("TABLE/metadata", "snap-*.avro"), marks=pytest.mark.soak, id="commit"
        ),
        ("duckdb", Moment("TABLE/data", "*.parquet")),
    ],
    ids=str,
)
def test_spark_killed_leaves_the_old_table_or_the_new_one(there, target, engine, moment):
    watch = Watch(target.warehouse, target.renew(engine), moment)
    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(there.sql, target.replace)
        assert watch.wait(replacing)
        there.kill_spark()
        answer = replacing.result(240)
    assert answer.get("error") in ("Unavailable", None), answer
    assert target.look() == (OLD if "error" in answer else NEW)
    there.rows(f"{target.replace}; RESET engine")
    assert target.look() == NEW


def test_a_source_that_vanishes_leaves_the_target(there, target):
    there.rows("CREATE OR REPLACE TABLE lake.s.fragile AS SELECT i AS id FROM range(10) r(i)")
    folder = target.warehouse / table_folder(target.warehouse, "s", "fragile")
    for file in (folder / "data").rglob("*.parquet"):
        file.unlink()
    for engine in ("duckdb", "spark"):
        target.renew(engine)
        answer = there.sql("CREATE OR REPLACE TABLE lake.s.t AS SELECT id FROM lake.s.fragile")
        assert "error" in answer
        assert len(answer["message"]) < 500
        assert target.look() == OLD
    there.rows("RESET engine; DROP TABLE lake.s.fragile")


def test_a_full_disk_leaves_the_target_and_no_spool(there, disk, lakes):
    if disk is None:
        pytest.skip("needs the right to mount a tmpfs")
    target = Target(there, "small", lakes["small"])
    for engine in ("duckdb", "spark"):
        target.renew(engine)
        disk.leave(1000)
        answer = there.sql(target.replace)
        disk.release()
        there.rows("RESET engine")
        assert answer.get("error") == "LimitExceeded", answer
        assert "free some space" in answer["message"]
        assert target.look() == OLD


def test_nothing_is_left_behind(there, target, lakes):
    """After all other tests: the next user of Spark, or at the end the owner, removes the files."""
    there.rows("CREATE TABLE lake.s.another AS SELECT 1 AS id")
    there.rows("CREATE SCHEMA IF NOT EXISTS small.s")
    assert target.look() == OLD
    there.close()
    assert [left for warehouse in lakes.values() for left in rows_left(warehouse)] == []


def rows_left(warehouse: Path) -> list[str]:
    """Return files of rows that no table has; those of a dropped table stay some minutes."""
    left = [name for name in leftovers(warehouse) if "/fragile-" not in name]
    return [name for name in left if name.endswith(".parquet")]
