"""Temporary folders: whose they are, and what a sweep takes away."""

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from jetbridge.runtime import temporary_folders
from jetbridge.runtime.temporary_folders import TemporaryFolder, sweep

# More than a process can have as its number.
NOBODY = 2**30

OWNER = """
import subprocess, sys, time
from jetbridge.runtime.temporary_folders import TemporaryFolder
made = TemporaryFolder("test", sys.argv[1])
(made.path / "below").mkdir()
(made.path / "below" / "rows").write_bytes(b"x" * 1000)
if sys.argv[2:]:
    child = subprocess.Popen(["sleep", "60"], pass_fds=[made.lock])
    print(child.pid)
print(made.path, flush=True)
time.sleep(60)  # until it is killed
"""


@contextmanager
def owner(folder: Path, *options: str) -> Iterator[tuple[list[str], Callable[[], None]]]:
    """What it printed, and how it is killed."""
    command = [sys.executable, "-c", OWNER, str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(1 + len(options))]

        def kill() -> None:
            process.kill()
            process.wait()

        try:
            yield lines, kill
        finally:
            kill()


def test_what_a_killed_process_has_left_is_removed_and_not_before(tmp_path):
    with owner(tmp_path) as ((left,), kill):
        assert not sweep(tmp_path)
        assert (Path(left) / "below" / "rows").stat().st_size == 1000
        kill()
        assert not sweep(tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_a_child_that_still_works_in_it_keeps_it(tmp_path):
    with owner(tmp_path, "with child") as ((child, left), kill):
        kill()
        assert sweep(tmp_path), "another look is worth while"
        assert Path(left).exists()
        os.kill(int(child), signal.SIGKILL)
        while sweep(tmp_path):
            pass
        assert list(tmp_path.iterdir()) == []


def test_the_folder_is_for_its_owner_alone_and_goes_with_him(tmp_path):
    made, other = (TemporaryFolder("test", tmp_path) for _ in range(2))
    (made.path / "file").write_text("rows")
    assert made.path.stat().st_mode & 0o777 == 0o700
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == [other.path]
    del other
    assert list(tmp_path.iterdir()) == []


def test_all_go_at_once(tmp_path):
    """In a process of its own: here the folder of the Spark that tests share would go, too."""
    text = f"""
from jetbridge.runtime.temporary_folders import TemporaryFolder, remove_all
kept = [TemporaryFolder("test", {str(tmp_path)!r}) for _ in range(3)]
remove_all()
print(len(kept), [each.path.exists() for each in kept], flush=True)
"""
    answer = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "3 [False, False, False]"


def test_a_fork_leaves_the_folders_of_its_parent_alone(tmp_path):
    text = f"""
import os
from jetbridge.runtime.temporary_folders import TemporaryFolder
made = TemporaryFolder("test", {str(tmp_path)!r})
if os.fork() == 0:
    raise SystemExit(0)
os.wait()
print(made.path.exists())
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["jetbridge-spark-1-0123456789a", "jetbridge-x", "other-1-0123456789ab"]
)
def test_folders_with_other_names_stay(tmp_path, name):
    (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_links_are_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("rows")
    (tmp_path / f"jetbridge-x-{NOBODY}-0123456789ab").symlink_to(tmp_path / "precious")
    within = tmp_path / f"jetbridge-x-{NOBODY}-0123456789ac"
    within.mkdir()
    (within / "link").symlink_to(tmp_path / "precious")
    locked = tmp_path / f"jetbridge-x-{NOBODY}-0123456789ad"
    locked.mkdir()
    (locked / "owner.lock").symlink_to(tmp_path / "precious" / "file")
    sweep(tmp_path)
    assert (tmp_path / "precious" / "file").read_text() == "rows"
    assert not within.exists()


def test_folders_of_other_users_stay(tmp_path, monkeypatch):
    folder = tmp_path / f"jetbridge-x-{NOBODY}-0123456789ab"
    folder.mkdir()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    sweep(tmp_path)
    assert folder.exists()


def test_a_sweep_never_takes_a_folder_that_is_just_being_made(tmp_path):
    done = threading.Event()

    def sweep_on() -> None:
        while not done.is_set():
            sweep(tmp_path)

    with ThreadPoolExecutor(2) as pool:
        sweepers = [pool.submit(sweep_on) for _ in range(2)]
        try:
            for _ in range(100):
                made = TemporaryFolder("test", tmp_path)
                (made.path / "file").write_text("rows")
                assert (made.path / "file").read_text() == "rows"
                made.remove()
        finally:
            done.set()
        for each in sweepers:
            each.result()
    assert list(tmp_path.iterdir()) == []


def test_a_living_owner_whose_lock_was_cleaned_away_keeps_its_folder(tmp_path):
    """As cleaners of /tmp do with files that nobody has touched for days."""
    made = TemporaryFolder("test", tmp_path)
    (made.path / "owner.lock").unlink()
    for _ in range(2):
        assert not sweep(tmp_path)
        assert list(made.path.iterdir()) == []
    (made.path / "owner.lock").touch()
    assert not sweep(tmp_path)
    assert made.path.exists()
    made.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("process", [NOBODY, 10**30])
@pytest.mark.parametrize("lock", [None, b""])
def test_a_folder_without_a_lock_goes_when_its_owner_has_gone(tmp_path, process, lock):
    left = tmp_path / f"jetbridge-x-{process}-0123456789ab"
    left.mkdir()
    if lock is not None:
        (left / "owner.lock").write_bytes(lock)
    assert not sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["write", "open"])
def test_a_full_disk_leaves_neither_a_folder_nor_an_open_file(tmp_path, monkeypatch, call):
    sweep(tmp_path)
    temporary_folders.start_sweep(tmp_path)
    opened, closed, call_as_ever = [], [], getattr(os, call)
    open_as_ever, close_as_ever = os.open, os.close

    def fail(name, *rest, **named):
        if call == "open" and not str(name).endswith("owner.lock"):
            return call_as_ever(name, *rest, **named)
        raise OSError(errno.ENOSPC, "No space left on device")

    def note(name, *rest, **named):
        opened.append(open_as_ever(name, *rest, **named))
        return opened[-1]

    def note_closed(descriptor):
        closed.append(descriptor)
        close_as_ever(descriptor)

    with monkeypatch.context() as full:
        full.setattr(os, "open", note)
        full.setattr(os, "close", note_closed)
        full.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space"):
            TemporaryFolder("test", tmp_path)
    assert list(tmp_path.iterdir()) == []
    # Other threads of the process may have the numbers again by now.
    assert set(opened) <= set(closed)
