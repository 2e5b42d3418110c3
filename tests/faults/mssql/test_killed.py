"""kill -9 of the process that loads SQL Server, in every phase of a statement."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.mssql.driver import Driver, driver
from tests.faults.mssql.scene import (
    FEW,
    KINDS,
    LARGE,
    MILLION,
    PUBLISHES,
    SMALL,
    Scene,
    Work,
    new_session,
    opened,
)
from tests.helpers import mssql_server
from tests.helpers.waiting import wait_until

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
PAUSE = 2.0
# Starts of Spark are slow where the machine is busy.
SECONDS = 240.0


@dataclass(frozen=True)
class Phase:
    """It lasts long enough to be met. `ends` and `leaves` tell whether the rows and tables of the
    load are there after it, if that is sure: what the server was told to do, it does."""

    fault: dict[str, Any] = field(default_factory=dict)
    ends: bool | None = None
    leaves: bool | None = True


def statement(pattern: str) -> dict[str, Any]:
    return {"when": "statement", "pattern": pattern, "delay": PAUSE}


SPOOLING = Phase(ends=False, leaves=False)
STAGED = Phase(statement("COALESCE.*_ledger"), ends=False)
CLEANING = Phase(statement("DROP TABLE .*_ledger"), ends=True, leaves=None)
COMMITTED = Phase({"when": "committed", "delay": PAUSE})


def loading(work: Work) -> Phase:
    fault = {"when": "bulk row", "at": work.rows // 2, "delay": PAUSE}
    return Phase(fault, ends=False)


def publishing(work: Work) -> Phase:
    return Phase(statement(PUBLISHES[work.kind]), ends=False)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(None, tmp_path_factory.mktemp("spools")) as there:
        yield there


def meet(scene: Scene, phase: Phase, running: Driver, folder: Path) -> None:
    """Waits until the statement is there."""

    def is_there() -> bool:
        assert running.process.is_running()
        if phase.fault:
            return scene.fired() > 0
        return len(list(folder.glob("*/*.arrow"))) > 1

    wait_until(is_there, SECONDS)


def check(scene: Scene, work: Work, phase: Phase, folder: Path, **settings: str) -> None:
    scene.prepare(work)
    with driver(scene.server, folder, settings, {}) as running:
        if phase.fault:
            scene.order(**phase.fault)
        running.begin(work.statement)
        meet(scene, phase, running, folder)
        running.kill()
    scene.clear()
    done = scene.holds_after(work)
    assert done or scene.is_as_before(work), scene.told(work, None)
    assert phase.ends in (done, None)
    assert phase.leaves in (bool(scene.left()), None)
    check_next(scene, work, folder)


def check_next(scene: Scene, work: Work, folder: Path) -> None:
    """The next process that writes clears up."""
    bench = new_session(scene.server, None, folder)
    try:
        replace(scene, bench=bench).check_next(work)
        assert list(folder.glob("jetbridge-mssql-*")) == []
    finally:
        bench.session.close()
        bench.catalog.close()


@pytest.mark.full
def test_the_driver_killed_while_it_spools(scene, tmp_path):
    check(scene, Work("new", 300_000), SPOOLING, tmp_path, **SMALL)


@pytest.mark.full
def test_the_driver_killed_while_spark_loads(scene, tmp_path):
    work = Work("insert", LARGE)
    check(scene, work, loading(work), tmp_path, **SMALL)


def test_the_driver_killed_while_it_publishes(scene, tmp_path):
    work = Work("replace", FEW)
    check(scene, work, publishing(work), tmp_path)


def test_the_driver_killed_before_it_hears_of_its_commit(scene, tmp_path):
    """Of few rows, which go into the table at once."""
    work = Work("insert", FEW)
    check(scene, work, Phase(COMMITTED.fault, ends=True, leaves=False), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(
    "phase",
    [SPOOLING, loading, STAGED, publishing, COMMITTED, CLEANING],
    ids=["spooling", "loading", "staged", "publishing", "committed", "cleaning"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_driver_killed_in_any_phase_of_a_million_rows(scene, tmp_path, kind, phase):
    work = Work(kind, MILLION)
    check(scene, work, phase if isinstance(phase, Phase) else phase(work), tmp_path)
