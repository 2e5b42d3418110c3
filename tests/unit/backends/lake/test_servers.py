"""Which servers live: locks on real files, also those of other processes."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

from jetbridge.backends.lake.write.server_locks import ServerLock, dead, live_servers


def leave(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"left behind")


def test_a_lock_is_held_until_it_is_given_back(tmp_path):
    one = ServerLock(str(tmp_path), "aaaa")
    one.hold()
    one.hold()
    place = tmp_path / ".jetbridge/servers"
    assert live_servers(place) == {"aaaa"}
    with dead(place, "aaaa") as found:
        assert found is None
    one.close()
    assert live_servers(place) == set()
    assert not (place / "aaaa").exists()


def test_a_server_whose_spark_still_lives_is_not_dead(tmp_path):
    place = tmp_path / ".jetbridge/servers"
    leave(place / "aaaa")
    leave(place / "aaaa.jvm")
    # As Java locks: by fcntl, in another process.
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(place / "aaaa.jvm")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        assert live_servers(place) == {"aaaa"}
        process.communicate("")
    assert live_servers(place) == set()


def test_a_server_that_starts_while_its_file_is_swept_gets_a_new_one(tmp_path):
    place = tmp_path / ".jetbridge/servers"
    leave(place / "aaaa")
    one = ServerLock(str(tmp_path), "aaaa")
    with dead(place, "aaaa") as found:
        assert found is not None
        starting = threading.Thread(target=one.hold)
        starting.start()
        starting.join(0.1)
        (place / "aaaa").unlink()
    starting.join()
    assert live_servers(place) == {"aaaa"}
    one.close()


def test_where_there_are_no_locks_nothing_is_taken_for_dead(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    ServerLock(str(tmp_path), "aaaa").hold()
    assert list((tmp_path / ".jetbridge/servers").iterdir()) == []


def test_an_object_store_is_left_to_optimize():
    presence = ServerLock("s3://bucket/lake", "aaaa")
    presence.hold()
    with presence.job("x", "s.t"):
        pass
    assert presence.folder is None
