"""Temporary folders of other hosts on a shared volume: dead ones go, living ones stay.

Seen: a container that restarts has another host name, and its lock kept the old folder for ever.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jetbridge.runtime import temporary_folders
from jetbridge.runtime.temporary_folders import TemporaryFolder, sweep
from tests.helpers.waiting import wait_until

HOUR = 3600
# An owner on another host.
OWNER = """
import sys, time
from jetbridge.runtime import temporary_folders
temporary_folders._HOST = b"another-host"
temporary_folders._ROUND_SECONDS = float(sys.argv[2])
folder = temporary_folders.TemporaryFolder("test", sys.argv[1])
(folder.path / "rows").write_text("rows")
print(folder.path, flush=True)
time.sleep(60)  # until it is killed
"""


@contextmanager
def owner(parent: Path, round_seconds: float = 60) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    command = [sys.executable, "-c", OWNER, str(parent), str(round_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def age(folder: Path, hours: float) -> None:
    """Set the last sign of life of the owner back by this time."""
    then = time.time() - hours * HOUR
    os.utime(folder / "owner.lock", (then, then))


def left_behind(parent: Path) -> Path:
    with owner(parent) as (process, folder):
        process.kill()
        process.wait()
    return folder


@pytest.fixture
def unshared_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make locks hold on one host only, as on many shared volumes."""
    monkeypatch.setattr(temporary_folders, "_take", lambda _: None)


@pytest.mark.parametrize(("hours", "stays"), [(0, True), (23.9, True), (24.1, False), (900, False)])
def test_a_folder_goes_a_day_after_the_last_sign_of_life(tmp_path, hours, stays):
    folder = left_behind(tmp_path)
    age(folder, hours)
    sweep(tmp_path)
    assert folder.exists() is stays


@pytest.mark.usefixtures("unshared_locks")
def test_a_living_owner_gives_signs_of_life(tmp_path):
    with owner(tmp_path, round_seconds=0.05) as (process, folder):
        age(folder, 900)
        wait_until(lambda: (folder / "owner.lock").stat().st_mtime > time.time() - HOUR)
        sweep(tmp_path)
        assert (folder / "rows").read_text() == "rows"
        process.kill()
        process.wait()
        age(folder, 900)
        sweep(tmp_path)
        assert not folder.exists()


def test_a_living_owner_without_a_sign_of_life_keeps_its_folder_where_locks_are_shared(tmp_path):
    """It may have been stopped for days."""
    with owner(tmp_path) as (_, folder):
        age(folder, 900)
        sweep(tmp_path)
        assert (folder / "rows").exists()


def test_a_clock_of_this_machine_that_is_wrong_takes_no_folder(tmp_path, monkeypatch):
    """The clock of the volume sets the times of the marks."""
    folder = left_behind(tmp_path)
    in_the_future = time.time() + 900 * HOUR
    monkeypatch.setattr(time, "time", lambda: in_the_future)
    sweep(tmp_path)
    assert folder.exists()


def test_a_server_that_runs_on_takes_what_dies_later(tmp_path):
    with owner(tmp_path, round_seconds=0.05) as (_, server):
        folder = left_behind(tmp_path)
        age(folder, 25)
        wait_until(lambda: not folder.exists())
        assert (server / "rows").exists()


def test_a_fork_gives_no_signs_of_life_for_its_parent(tmp_path, monkeypatch):
    folder = TemporaryFolder("test", tmp_path)
    age(folder.path, 25)
    mine = os.getpid()
    with monkeypatch.context() as fork:
        fork.setattr(os, "getpid", lambda: mine + 1)
        temporary_folders.renew_marks()
        assert (folder.path / "owner.lock").stat().st_mtime < time.time() - 24 * HOUR
    temporary_folders.renew_marks()
    assert (folder.path / "owner.lock").stat().st_mtime > time.time() - HOUR
