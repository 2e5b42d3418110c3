"""Which servers live: locks on real files, also those of other processes."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

from jetbridge.backends.lake.warehouse.server_locks import (
    ServerLock,
    live_servers,
    lock_dead_server,
)


def leave(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left behind")


def test_a_lock_is_held_until_it_is_given_back(tmp_path):
    one = ServerLock(str(tmp_path), "aaaa")
    one.hold()
    one.hold()
    folder = tmp_path / ".jetbridge/servers"
    assert live_servers(folder) == {"aaaa"}
    with lock_dead_server(folder, "aaaa") as server:
        assert server is None
    one.close()
    assert live_servers(folder) == set()
    assert not (folder / "aaaa").exists()


def test_a_server_whose_spark_still_lives_is_not_dead(tmp_path):
    folder = tmp_path / ".jetbridge/servers"
    leave(folder / "aaaa")
    leave(folder / "aaaa.jvm")
    # As Java locks: by fcntl, in another process.
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(folder / "aaaa.jvm")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        assert live_servers(folder) == {"aaaa"}
        process.communicate("")
    assert live_servers(folder) == set()


def test_a_server_that_starts_while_its_file_is_swept_gets_a_new_one(tmp_path):
    folder = tmp_path / ".jetbridge/servers"
    leave(folder / "aaaa")
    one = ServerLock(str(tmp_path), "aaaa")
    with lock_dead_server(folder, "aaaa") as server:
        assert server is not None
        starting = threading.Thread(target=one.hold)
        starting.start()
        starting.join(0.1)
        (folder / "aaaa").unlink()
    starting.join()
    assert live_servers(folder) == {"aaaa"}
    one.close()


def test_where_there_are_no_locks_nothing_is_taken_for_dead(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    ServerLock(str(tmp_path), "aaaa").hold()
    assert list((tmp_path / ".jetbridge/servers").iterdir()) == []


def test_an_object_store_is_left_to_optimize():
    lock = ServerLock("s3://bucket/lake", "aaaa")
    lock.hold()
    with lock.job("x", "s.t"):
        pass
    assert lock.folder is None
