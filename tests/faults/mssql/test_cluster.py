"""Loads into SQL Server by a cluster: executors are killed, and tasks have two attempts.

The Python processes of an executor that is killed with kill -9 may go on for a moment, while Spark
begins their parts elsewhere.
"""

from collections.abc import Iterator

import psutil
import pytest

from tests.faults.mssql.driver import Driver, driver
from tests.faults.mssql.scene import KINDS, MILLION, Scene, Work, opened
from tests.helpers import cluster, mssql_server
from tests.helpers.cluster import Cluster
from tests.helpers.jvms import jvms
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.soak,
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
# One task that has ended is enough to try the other one a second time.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}
# The parts, a part again, and that all is published.
NOTES = cluster.WORKERS + 2


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(None, tmp_path_factory.mktemp("spools")) as there:
        yield there


@pytest.fixture(scope="module")
def remote(
    spark: Cluster, scene: Scene, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("driver")
    settings = {**cluster.settings(spark.url), **SPECULATION}
    with driver(scene.server, folder, {}, settings) as running:
        work = Work("new", MILLION)
        scene.prepare(work)
        assert "error" not in running.sql(work.statement)
        yield running


def executors(spark: Cluster) -> list[psutil.Process]:
    return [jvm for worker in spark.workers for jvm in jvms(worker)]


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_an_executor_killed_costs_no_row_and_doubles_none(spark, scene, remote, kind, share):
    wait_until(lambda: len(executors(spark)) == cluster.WORKERS, cluster.SECONDS)
    work = Work(kind, MILLION)
    scene.prepare(work)
    scene.order(when="bulk row", at=int(MILLION * share), delay=1.0)
    remote.begin(work.statement)
    wait_until(scene.fired, cluster.SECONDS)
    executors(spark)[0].kill()
    answer = remote.answer()
    scene.clear()
    assert "error" not in answer, answer
    scene.check(work, None)
    assert scene.left() == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_speculative_attempt_loads_nothing_twice(spark, scene, remote, kind):
    """One writer hangs; Spark's second attempt waits for the key of the ledger."""
    wait_until(lambda: len(executors(spark)) == cluster.WORKERS, cluster.SECONDS)
    work = Work(kind, MILLION)
    scene.prepare(work)
    scene.order(when="bulk row", at=MILLION // 4, delay=20.0)
    scene.order(when="statement", pattern=r"INSERT INTO \S+_ledger\]", at=NOTES)
    remote.begin(work.statement)
    answer = remote.answer()
    both = scene.fired()
    scene.clear()
    assert "error" not in answer, answer
    assert both == 2, "there was no second attempt"
    scene.check(work, None)
    assert scene.left() == []
