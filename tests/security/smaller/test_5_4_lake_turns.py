"""Servers on one warehouse commit in turn, and none waits for long.

Attacked: writers on two servers, one table. The one server committed 341 times in a minute, the
other one 3 times, with waits of 88 s.
"""

import errno
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.warehouse import commit_turns
from jetbridge.backends.lake.warehouse.commit_turns import CommitTurns, pauses
from jetbridge.backends.lake.write import publisher
from jetbridge.backends.lake.write.commit import TableCommit
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.client import connect
from jetbridge.errors import Cancelled, Conflict
from jetbridge.runtime import cancellation
from tests.conformance.harness import insert, rows
from tests.helpers.lakes import engine, folder, new_lake, reader
from tests.helpers.peers import ServerProcess

COLUMNS = pa.schema({"id": pa.int64()})
# Takes turns without a pause; prints a line for each when it has it.
RIVAL = """
import sys, time
from jetbridge.backends.lake.warehouse.commit_turns import CommitTurns
turns = CommitTurns(sys.argv[1])
print("begun", flush=True)
while True:
    with turns.turn("table"):
        print("mine", flush=True)
        time.sleep(float(sys.argv[2]))  # a turn takes so long
"""


@contextmanager
def rival(warehouse: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Another server, which has had its first turn."""
    command = [sys.executable, "-c", RIVAL, str(warehouse), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            assert process.stdout.readline() == "mine\n"
            yield process
        finally:
            process.kill()


def waited(turns: CommitTurns, table: str = "table") -> float:
    began = time.monotonic()
    with turns.turn(table):
        return time.monotonic() - began


def test_two_servers_alternate(tmp_path: Path) -> None:
    ours = CommitTurns(str(tmp_path))
    with rival(tmp_path, 0.02) as process:
        times = []
        for _ in range(40):
            began = time.monotonic()
            with ours.turn("table"):
                times.append(time.monotonic() - began)
                time.sleep(0.02)  # a turn takes so long
        process.kill()
        assert process.stdout is not None
        theirs = len(process.stdout.readlines())
    assert 10 < theirs < 160
    assert max(times) < 10


def test_turns_of_other_tables_are_not_waited_for(tmp_path: Path) -> None:
    with rival(tmp_path, 60):
        assert waited(CommitTurns(str(tmp_path)), "another table") < 20


def test_a_turn_within_a_turn_is_the_same(tmp_path: Path) -> None:
    ours = CommitTurns(str(tmp_path))
    with ours.turn("table"), rival_that_waits(tmp_path):
        assert waited(ours) < 20


def test_two_lakes_of_one_process_take_turns(tmp_path: Path) -> None:
    one, other = CommitTurns(str(tmp_path)), CommitTurns(str(tmp_path))
    order: list[str] = []

    def take_another_turn() -> None:
        with other.turn("table"):
            order.append("other")

    waiting = threading.Thread(target=take_another_turn)
    with one.turn("table"):
        waiting.start()
        waiting.join(0.3)
        order.append("one")
    waiting.join(20)
    assert order == ["one", "other"]


def test_a_lake_that_closes_ends_no_turn_of_another_in_its_process(tmp_path: Path) -> None:
    one, other, third = (CommitTurns(str(tmp_path)) for _ in range(3))
    with one.turn("table"):
        waited(other, "another table")
        other.close()
        with cancellation.scope() as statement:
            threading.Timer(0.3, statement.cancel).start()
            with pytest.raises(Cancelled), third.turn("table"):
                pass


@pytest.mark.lake
def test_an_insert_waits_for_the_turn_of_another_catalog_of_its_process() -> None:
    lake = new_lake()
    name = lake.lake.name
    other = LakeCatalog(name, folder() / name, engine(), reader=reader())
    lake.create_schema(SchemaInfo("s")).create_table(CreateTable("t", COLUMNS))
    table = other.load_schema("s").load_table("t")
    inserting = threading.Thread(target=insert, args=(table, {"id": [1]}))
    with lake.lake.warehouse.turns.turn(lake.lake.tables.load("s", "t").identity):
        inserting.start()
        inserting.join(1)
        assert inserting.is_alive()
    inserting.join(20)
    assert rows(lake.load_schema("s").load_table("t")) == [(1,)]


@contextmanager
def rival_that_waits(warehouse: Path) -> Iterator[None]:
    command = [sys.executable, "-c", RIVAL, str(warehouse), "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            time.sleep(0.5)  # nothing shows that it waits
            yield
        finally:
            process.kill()


def test_a_server_that_hangs_is_waited_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_turns, "_MOST_SECONDS", 0.3)
    with rival(tmp_path, 60) as process:
        process.send_signal(signal.SIGSTOP)
        assert 0.2 < waited(CommitTurns(str(tmp_path))) < 20


def test_a_server_that_was_killed_is_not_waited_for(tmp_path: Path) -> None:
    with rival(tmp_path, 60) as process:
        process.kill()
        process.wait()
        assert waited(CommitTurns(str(tmp_path))) < 20


def test_whoever_waits_for_a_turn_can_be_cancelled(tmp_path: Path) -> None:
    ours = CommitTurns(str(tmp_path))
    with rival(tmp_path, 60), cancellation.scope() as statement:
        threading.Timer(0.2, statement.cancel).start()
        began = time.monotonic()
        with pytest.raises(Cancelled), ours.turn("table"):
            pass
        assert time.monotonic() - began < 20
    assert waited(ours) < 20


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), TypeError()])
def test_a_turn_ends_without_an_error_where_its_lock_cannot_be_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The commit it was for is made: an error would say that it is not."""
    refused = []

    def refuse(descriptor: int, _: int) -> None:
        refused.append(descriptor)
        raise error

    monkeypatch.setattr(commit_turns, "_unlock_byte", refuse)
    with CommitTurns(str(tmp_path)).turn("table"):
        pass
    assert len(refused) == 2


def test_pauses_differ_and_are_bounded() -> None:
    found = [pause for pause, _ in zip(pauses(0.02, 0.5), range(1_000), strict=False)]
    assert max(found[:1]) <= 0.02
    assert 0.4 < max(found) <= 0.5
    assert len(set(found)) == 1_000


@pytest.mark.lake
def test_a_commit_that_others_outrun_is_aborted_after_a_stated_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher, "COMMIT_SECONDS", 0.5)
    monkeypatch.setattr(commit_turns, "_MOST_SECONDS", 0.0)  # other engines take no turns
    lake = new_lake()
    name = lake.lake.name
    other = LakeCatalog(name, folder() / name, engine(), reader=reader())
    lake.create_schema(SchemaInfo("s")).create_table(CreateTable("t", COLUMNS))
    tries: list[int] = []

    def outrun(*_: object) -> TableCommit:
        tries.append(len(tries))
        insert(other.load_schema("s").load_table("t"), {"id": [len(tries)]})
        return TableCommit()

    began = time.monotonic()
    with pytest.raises(
        Conflict, match=r"'s\.t': other writers changed it.*run the statement again"
    ) as caught:
        lake.lake.publisher.publish(lake.lake.tables.load("s", "t"), outrun)
    assert caught.value.status == "ABORTED"
    assert time.monotonic() - began < 30
    assert len(tries) >= 5
    found = rows(lake.load_schema("s").load_table("t"))
    assert found == sorted(((number + 1,) for number in tries), key=repr)


@pytest.mark.soak
@pytest.mark.lake
def test_writers_on_two_servers_wait_little_and_lose_nothing(tmp_path: Path) -> None:
    config = f"[catalogs.c]\ntype = 'lake'\nwarehouse = '{tmp_path / 'lake'}'\n"
    folders = [tmp_path / "one", tmp_path / "two"]
    for each in folders:
        each.mkdir()
    with ServerProcess(folders[0], config) as one, ServerProcess(folders[1], config) as two:
        with connect(one.location, "c") as client:
            client.create_schema("s")
            client.create_table("s", "t", COLUMNS)
        end = time.monotonic() + 60
        jobs = [(server.location, n, end) for n, server in enumerate([one, two] * 4)]
        with multiprocessing.get_context("spawn").Pool(len(jobs)) as pool:
            written = pool.starmap(write_until, jobs)
        with connect(two.location, "c") as client, client.scan("s", "t") as batches:
            found = sorted(value for batch in batches for value in batch.column("id").to_pylist())
    assert found == sorted(number for numbers, _ in written for number in numbers)
    counts = [sum(len(numbers) for numbers, _ in written[server::2]) for server in (0, 1)]
    assert max(counts) < 3 * min(counts)
    assert max(longest for _, longest in written) < 15


def write_until(location: str, writer: int, end: float) -> tuple[list[int], float]:
    """What was written, and the longest wait."""
    numbers: list[int] = []
    longest = 0.0
    with connect(location, "c") as client:
        while (began := time.monotonic()) < end:
            numbers.append(writer * 1_000_000 + len(numbers))
            client.insert("s", "t", pa.table({"id": numbers[-1:]}, schema=COLUMNS))
            longest = max(longest, time.monotonic() - began)
    return numbers, longest
