"""CREATE TABLE AS while Spark, its workers, its disk or its sources fail.

Afterwards the target is as before or as after, and nothing is left behind.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import cluster
from tests.faults.lake_process import ROOT
from tests.faults.leftovers import leftovers, table_folder
from tests.faults.moments import Moment, Watch
from tests.faults.peers import wait_until
from tests.faults.small_disk import Disk, may_mount, mounted
from tests.jvms import jvms

pytestmark = pytest.mark.lake

ROWS = 2_000_000
SOURCE = (
    f"CREATE TABLE lake.s.source AS SELECT i AS id, hash(i)::VARCHAR AS h FROM range({ROWS}) r(i)"
)
REPLACE = "CREATE OR REPLACE TABLE lake.s.t AS SELECT id, h, id % 10 AS d FROM lake.s.source"
OLD, NEW = [{"n": 1, "s": 1}], [{"n": ROWS, "s": ROWS * (ROWS - 1) // 2}]
LOOK = "SELECT count(*) AS n, sum(id)::BIGINT AS s FROM lake.s.t"


class Child:
    """`warehouse` is that of its one lake."""

    def __init__(self, warehouse: Path, process: psutil.Popen) -> None:
        self.warehouse, self._process = warehouse, process

    def sql(self, text: str) -> dict[str, Any]:
        self._process.stdin.write(f"{json.dumps(text)}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def rows(self, text: str) -> Any:
        return self.sql(text)["rows"]

    def kill_spark(self) -> None:
        for jvm in jvms(self._process, recursive=True):
            jvm.kill()

    def close(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(120) == 0


@contextmanager
def child(folder: Path, warehouse: Path, settings: dict[str, str]) -> Iterator[Child]:
    file = folder / "jetbridge.toml"
    spark = "\n".join(
        f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()
    )
    file.write_text(
        f'[spark]\n{spark}\n[catalogs.lake]\ntype = "lake"\nwarehouse = "{warehouse}"\n'
    )
    command = [sys.executable, "-m", "tests.faults.pipeline_child", str(file)]
    process = psutil.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    made = Child(warehouse, process)
    try:
        yield made
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        process.wait(30)
        process.stdout.close()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    folder = tmp_path_factory.mktemp("pipeline")
    with child(folder, folder / "lake", {}) as made:
        assert "error" not in made.sql("CREATE SCHEMA lake.s")
        assert "error" not in made.sql(SOURCE)
        yield made


def with_old_table(there: Child, engine: str) -> Path:
    there.rows("CREATE OR REPLACE TABLE lake.s.t AS SELECT 1 AS id")
    there.rows(f"SET engine = '{engine}'")
    return table_folder(there.warehouse, "s", "t").relative_to(there.warehouse)


@pytest.mark.parametrize(
    ("engine", "moment"),
    [
        ("spark", Moment("TABLE/data", "*.parquet")),
        pytest.param(
            "spark", Moment("TABLE/metadata", "snap-*.avro"), marks=pytest.mark.soak, id="commit"
        ),
        ("duckdb", Moment("TABLE/data", "*.parquet")),
    ],
    ids=str,
)
def test_spark_killed_leaves_the_old_table_or_the_new_one(local, engine, moment):
    table = with_old_table(local, engine)
    watch = Watch(local.warehouse, table, moment)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(local.sql, REPLACE)
        assert watch.wait(running)
        local.kill_spark()
        answer = running.result(240)
    assert answer.get("error") in ("Unavailable", None), answer
    assert local.rows(LOOK) == (OLD if "error" in answer else NEW)
    assert local.rows(f"{REPLACE}; RESET engine; {LOOK}") == NEW


def test_a_source_that_vanishes_leaves_the_target(local):
    with_old_table(local, "duckdb")
    local.rows("CREATE OR REPLACE TABLE lake.s.fragile AS SELECT i AS id FROM range(10) r(i)")
    folder = local.warehouse / table_folder(local.warehouse, "s", "fragile")
    for file in (folder / "data").rglob("*.parquet"):
        file.unlink()
    for engine in ("duckdb", "spark"):
        local.rows(f"SET engine = '{engine}'")
        answer = local.sql("CREATE OR REPLACE TABLE lake.s.t AS SELECT id FROM lake.s.fragile")
        assert "error" in answer
        assert len(answer["message"]) < 500
        assert local.rows(LOOK) == OLD
    local.rows("RESET engine; DROP TABLE lake.s.fragile")


def test_nothing_is_left_behind(local, tmp_path):
    """After all that: whoever uses Spark next clears up."""
    local.close()
    with child(tmp_path, local.warehouse, {}) as there:
        assert there.rows(LOOK) == OLD
        there.rows("CREATE TABLE lake.s.another AS SELECT 1 AS id")
        there.close()
    assert rows_left(local.warehouse) == []


def rows_left(warehouse: Path) -> list[str]:
    """Files of rows that nobody has; those of a dropped table go some minutes later."""
    left = [name for name in leftovers(warehouse) if "/fragile-" not in name]
    return [name for name in left if name.endswith(".parquet")]


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    if not may_mount():
        pytest.skip("needs the right to mount a tmpfs")
    with mounted(tmp_path_factory.mktemp("disk") / "small", "100m") as there:
        yield there


def test_a_full_disk_leaves_the_target_and_no_spool(disk, tmp_path):
    with child(tmp_path, disk.folder / "lake", {}) as there:
        there.rows("CREATE SCHEMA lake.s")
        there.rows(SOURCE)
        for engine in ("duckdb", "spark"):
            with_old_table(there, engine)
            disk.leave(1000)
            answer = there.sql(REPLACE)
            assert answer.get("error") == "LimitExceeded", answer
            assert "free some space" in answer["message"]
            disk.release()
            assert there.rows(f"RESET engine; {LOOK}") == OLD
        there.close()
        assert rows_left(there.warehouse) == []


def test_a_lost_worker_costs_no_row_and_doubles_none(tmp_path):
    with (
        cluster.running(tmp_path) as running,
        child(tmp_path, tmp_path / "lake", cluster.settings(running.url)) as there,
    ):
        there.rows("CREATE SCHEMA lake.s")
        there.rows(SOURCE)
        table = with_old_table(there, "spark")
        wait_until(lambda: running.executors() == cluster.WORKERS, cluster.SECONDS)
        watch = Watch(there.warehouse, table, Moment("TABLE/data", "*.parquet"))
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(there.sql, REPLACE)
            assert watch.wait(done)
            running.kill_worker(there.warehouse / table)
            answer = done.result(300)
        assert "error" not in answer, answer
        there.rows("RESET engine")
        assert there.rows(LOOK) == NEW
        assert there.rows("SELECT count(DISTINCT id) AS n FROM lake.s.t") == [{"n": ROWS}]
        there.close()
