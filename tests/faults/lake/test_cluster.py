"""A lake on a standalone cluster of two workers, one of which tests kill.

Applications come one after the other: each takes all workers for as long as it runs.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jetbridge.errors import ServerError
from tests.faults import pipeline_process
from tests.faults.lake.process import ROOT
from tests.faults.lake.scene import WORKS, Scene, opened
from tests.faults.moments import Moment, Watch
from tests.faults.pipeline_process import NEW, ROWS, PipelineProcess, Target
from tests.helpers import cluster, lakes
from tests.helpers.cluster import Cluster
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]

# Some of each kind: DDL, constraints, DML, conflicts, the past.
SOME = "returning or failed or renamed or every_version or meanwhile or added_key or deleted_row"
FILES = [f"tests/conformance/test_{name}.py" for name in ("alter", "insert", "scan")]
FILES.append("tests/conformance/test_update_delete.py")
DATA, METADATA, STAGING = "TABLE/data", "TABLE/metadata", ".jetbridge/staging"
FEW = [
    pytest.param("laid insert", Moment(DATA, "*.parquet"), marks=pytest.mark.full),
    ("merge", Moment(DATA, "*.parquet")),
]
MANY = [
    ("merge", Moment(STAGING, "*.parquet")),
    ("merge", Moment(METADATA, "*.metadata.json")),
    ("merge", Moment(METADATA, "*.metadata.json", delay=1.0)),
    ("merge", Moment(DATA, "*.parquet", 4)),
    ("merge", Moment(METADATA, "*-m0.avro")),
    ("plain compaction", Moment(DATA, "*.parquet")),
    ("compaction", Moment(DATA, "*.parquet", 1)),
    ("compaction", Moment(DATA, "*.parquet", 2)),
    ("compaction", Moment(DATA, "*.parquet", 3)),
    ("compaction", Moment(METADATA, "*-m0.avro")),
    ("insert", Moment(DATA, "*.parquet")),
    ("insert", Moment(METADATA, "*-m0.avro")),
    ("laid insert", Moment(DATA, "*.parquet", 3)),
    ("laid insert", Moment(METADATA, "*-m0.avro")),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def run_conformance(spark: Cluster, *options: str) -> int:
    """Run the conformance suite; return how many tests passed."""
    before = spark.applications()
    command = [sys.executable, "-m", "pytest", "-m", "lake", "-q", *options]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, lakes.MASTER: spark.url, "SPARK_LOCAL_IP": cluster.LOOPBACK},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert spark.applications() == before + 1
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    return int(passed[1])


@pytest.mark.full
def test_some_of_the_conformance_suite_runs_on_a_cluster(spark):
    assert run_conformance(spark, *FILES, "-k", SOME) >= 15


@pytest.mark.soak
def test_whole_conformance_suite_runs_on_a_cluster(spark):
    assert run_conformance(spark, "tests/conformance") >= 300


def with_both_workers(spark: Cluster) -> None:
    """Wait until both workers run an executor of the application."""
    spark.add_workers(cluster.WORKERS - len(spark.workers))
    wait_until(lambda: spark.executors() == cluster.WORKERS, cluster.SECONDS)


@pytest.fixture
def pipeline(spark: Cluster, tmp_path: Path) -> Iterator[PipelineProcess]:
    lake, settings = {"lake": tmp_path / "lake"}, cluster.settings(spark.url)
    with pipeline_process.running(tmp_path, lake, settings) as there:
        yield there


@pytest.mark.full
def test_a_lost_worker_costs_no_row_of_create_table_as_and_doubles_none(spark, pipeline, tmp_path):
    target = Target(pipeline, "lake", tmp_path / "lake")
    table = target.renew("spark")
    with_both_workers(spark)
    watch = Watch(target.warehouse, table, Moment(DATA, "*.parquet"))
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(pipeline.sql, target.replace)
        assert watch.wait(done)
        spark.kill_worker(target.warehouse / table)
        answer = done.result(300)
    assert "error" not in answer, answer
    pipeline.rows("RESET engine")
    assert target.look() == NEW
    assert pipeline.rows("SELECT count(DISTINCT id) AS n FROM lake.s.t") == [{"n": ROWS}]
    pipeline.close()


@pytest.fixture(scope="module")
def scene(spark: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(tmp_path_factory.mktemp("lake"), cluster.settings(spark.url)) as there:
        yield there


@pytest.fixture
def both(spark: Cluster, scene: Scene) -> Cluster:
    with_both_workers(spark)
    return spark


def check(scene: Scene, spark: Cluster, kind: str, moment: Moment) -> None:
    with scene.server.client() as client:
        work = WORKS[kind](scene, client)
        data = scene.server.warehouse / work.table[0]
        ended = scene.break_off(client, work, moment, lambda _: spark.kill_worker(data))
        assert isinstance(ended.error, ServerError | ConnectionError | None), ended.error
        assert ended.in_the_middle
        scene.settle(client, work, done=ended.error is None)
        scene.check_next_statements(client, work.table)
        scene.check_swept(client, work.table)


@pytest.mark.parametrize(("kind", "moment"), FEW, ids=str)
def test_worker_killed_in_the_middle_leaves_the_table_as_before_or_after(scene, both, kind, moment):
    check(scene, both, kind, moment)


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "moment"), MANY, ids=str)
def test_worker_killed_at_any_moment_leaves_the_table_as_before_or_after(scene, both, kind, moment):
    check(scene, both, kind, moment)
