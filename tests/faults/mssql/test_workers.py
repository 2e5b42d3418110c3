"""Loads into SQL Server whose workers, Spark's Python processes, are killed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

import psutil
import pytest

from tests.faults.mssql.scene import (
    KINDS,
    LARGE,
    LARGE_ONES,
    MILLION,
    SMALL,
    Scene,
    Work,
    in_soak,
    opened,
)
from tests.helpers import lakes, mssql_server
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
SECONDS = 120.0


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools"), **SMALL) as there:
        yield there


def workers(scene: Scene) -> list[psutil.Process]:
    """Return the processes of Spark that are connected to the server."""
    return [each for each in psutil.Process().children(recursive=True) if talks(each, scene)]


def talks(process: psutil.Process, scene: Scene) -> bool:
    with suppress(psutil.Error):
        if process.pid != scene.server.process.pid:
            found = process.net_connections("tcp")
            peers = [each.raddr.port for each in found if each.status == psutil.CONN_ESTABLISHED]
            return scene.server.port in peers
    return False


def kill_workers(scene: Scene, work: Work, share: float) -> None:
    """Kill the workers when this part of the rows is loaded."""
    scene.prepare(work)
    scene.order(when="bulk row", at=max(int(work.rows * share), 1), delay=1.0)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(scene.attempt, work)
        wait_until(lambda: scene.fired() or running.done(), SECONDS)
        assert not running.done()
        found = workers(scene)
        assert found
        for each in found:
            each.kill()
        error = running.result(SECONDS)
    assert error is None
    scene.check(work, None)
    assert scene.left() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", in_soak(LARGE_ONES, but=LARGE_ONES[::2]))
def test_python_workers_killed_cost_no_row_and_double_none(scene, work):
    kill_workers(scene, work, 0.5)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_python_workers_killed_in_loads_of_a_million_rows(tmp_path, kind, share):
    with opened(lakes.engine(), tmp_path) as there:
        kill_workers(there, Work(kind, MILLION), share)


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_workers_that_are_always_killed_leave_the_table_as_it_was(scene, kind):
    work = Work(kind, LARGE)
    scene.prepare(work)
    scene.order(when="bulk row", delay=0.3, times=None)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(scene.attempt, work)
        while not running.done():
            if scene.fired():
                for each in workers(scene):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
            wait([running], 0.1)
        error = running.result()
    assert error is not None
    assert "Spark could not load the rows" in str(error)
    scene.check(work, error)
    scene.check_next(work)
