"""Loads into SQL Server whose spool fills the disk, or whose Spark does not start."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jetbridge.errors import LimitExceeded, ServerError, Unavailable
from jetbridge.spark.engine import SparkEngine
from tests.faults.mssql.scene import FEW, KINDS, LARGE, SMALL, Scene, Work, opened
from tests.faults.mssql.test_on_spark import OnSpark, attempted
from tests.faults.small_disk import Disk, may_mount, mounted
from tests.helpers import lakes, mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
# More than the spool of some of the rows takes, and less than that of all.
BLOCKS = 40
BALLAST = "ballast"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    if not may_mount():
        pytest.skip("needs the right to mount a tmpfs")
    with mounted(tmp_path_factory.mktemp("disk") / "small", "16m") as there:
        yield there


@pytest.fixture(scope="module")
def scene(disk: Disk) -> Iterator[Scene]:
    with opened(lakes.engine(), disk.folder, **SMALL) as there:
        yield there


def check_unchanged(scene: Scene, work: Work, error: ServerError | None, folder: Path) -> None:
    assert scene.is_as_before(work), scene.told(work, error)
    assert scene.left() == []
    assert [each.name for each in folder.iterdir() if each.name != BALLAST] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_spool_leaves_the_table_as_it_was(scene, disk, kind):
    work = Work(kind, LARGE)
    scene.prepare(work)
    disk.leave(BLOCKS)
    error = scene.attempt(work)
    assert isinstance(error, LimitExceeded)
    assert str(disk.folder) in str(error)
    assert "free some space" in str(error)
    check_unchanged(scene, work, error, disk.folder)
    disk.release()
    scene.check_next(work)


def test_a_spool_that_spark_fills_leaves_the_table_as_it_was(scene, disk):
    work = OnSpark("replace", LARGE)
    scene.prepare(work)
    disk.leave(BLOCKS)
    error = attempted(scene, work)
    assert isinstance(error, LimitExceeded)
    assert "free some space" in str(error)
    check_unchanged(scene, work, error, disk.folder)
    disk.release()
    assert attempted(scene, work) is None
    scene.check(work, None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_spark_that_does_not_start_leaves_the_table_as_it_was(tmp_path, kind):
    """Too little memory; or a second Spark, of which a process can have only one."""
    broken = SparkEngine(
        {"spark.driver.memory": "none"}, log_file=tmp_path / "spark.log", scratch=tmp_path
    )
    spools = tmp_path / "spools"
    spools.mkdir()
    work = Work(kind, LARGE)
    with opened(broken, spools, **SMALL) as scene:
        scene.prepare(work)
        error = scene.attempt(work)
        assert isinstance(error, Unavailable)
        assert "Spark" in str(error)
        check_unchanged(scene, work, error, spools)
        few = Work(kind, FEW)
        scene.prepare(few)
        assert scene.attempt(few) is None, "few rows need no Spark"
        scene.check(few, None)
    broken.stop()
