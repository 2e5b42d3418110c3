"""Commits: attempts, turns, lost answers, and what becomes of the files of a statement.

The committer is a small real one: it writes another metadata file, and names it in the catalog.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jetbridge.backends.lake.errors import CommitRefused, StaleMetadata
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse import server_locks
from jetbridge.backends.lake.write import publisher as publisher_module
from jetbridge.backends.lake.write.commit import COMMIT_ID, TableCommit
from jetbridge.backends.lake.write.publisher import CommitContention, Publisher
from jetbridge.errors import BadRequest, Cancelled, Conflict, LimitExceeded, Unavailable
from jetbridge.runtime import cancellation
from tests.unit.backends.lake.recorded_lake import RecordedLake

Fault = Callable[[], object]


class FileCommitter:
    """Commits by a new metadata file with one more snapshot; faults come before or after that."""

    def __init__(self, recorded: RecordedLake) -> None:
        self.recorded = recorded
        self.before: list[Fault] = []
        self.after: list[Fault] = []
        self.attempts = 0

    def commit(self, state: TableState, change: TableCommit) -> None:
        self.attempts += 1
        if self.before:
            self.before.pop(0)()
        if self.recorded.lake.tables.current(state).location != state.location:
            raise StaleMetadata
        add_snapshot(self.recorded, state, {COMMIT_ID: change.commit_id})
        if self.after:
            self.after.pop(0)()


def add_snapshot(recorded: RecordedLake, state: TableState, summary: dict[str, str]) -> None:
    document = json.loads(Path(state.location).read_text())
    number = document["last-sequence-number"] + 1
    document["snapshots"].append(
        {
            "snapshot-id": number,
            "sequence-number": number,
            "parent-snapshot-id": state.snapshot_id,
            "timestamp-ms": document["last-updated-ms"] + 1,
            "summary": {"operation": "append", **summary},
        }
    )
    document |= {"last-sequence-number": number, "current-snapshot-id": number}
    document["last-updated-ms"] += 1
    location = f"recorded/plain/metadata/{number:05}.metadata.json"
    Path(location).write_text(json.dumps(document))
    recorded.move(state.pointer.name, location)


def failing(error: Exception) -> Fault:
    def fail() -> None:
        raise error

    return fail


class Bench:
    def __init__(self, recorded: RecordedLake) -> None:
        self.recorded = recorded
        self.committer = FileCommitter(recorded)
        lake = recorded.lake
        self.publisher = Publisher(lake.read, self.committer, lake.publisher.options)
        self.state = recorded.state("plain")
        self.described: list[int] = []

    def describe(self, latest: TableState) -> TableCommit:
        self.described.append(latest.version)
        return TableCommit()

    def publish(self) -> TableState:
        return self.publisher.publish(self.state, self.describe)

    def interfere(self) -> None:
        """Commit as another engine."""
        add_snapshot(self.recorded, self.recorded.lake.tables.load("s", "plain"), {})

    def doubts(self) -> list[server_locks.WriteJob]:
        return list(self.recorded.lake.warehouse.lock.failed().values())


@pytest.fixture
def bench(recorded: RecordedLake) -> Bench:
    return Bench(recorded)


def test_a_change_is_published(bench: Bench):
    after = bench.publish()
    assert (after.version, bench.described) == (5, [4])
    assert bench.recorded.lake.tables.load("s", "plain").version == 5
    assert bench.doubts() == []


def test_nothing_is_committed_without_a_change(bench: Bench):
    assert bench.publisher.publish(bench.state, lambda _: None).version == 4
    assert bench.committer.attempts == 0


def test_a_change_is_described_again_when_another_one_is_faster(bench: Bench):
    bench.committer.before = [bench.interfere, bench.interfere]
    assert bench.publish().version == 7
    assert bench.described == [4, 5, 6]


def test_the_attempts_end(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher_module, "COMMIT_SECONDS", 0.0)
    bench.committer.before = [bench.interfere] * 100
    with pytest.raises(CommitContention) as caught:
        bench.publish()
    assert bench.committer.attempts == 5
    assert str(caught.value).startswith(
        "could not commit to table 's.plain': other writers changed it during each of 5 attempts; "
        "run the statement again"
    )
    assert isinstance(caught.value, Conflict)


def test_a_job_has_a_number_of_attempts(bench: Bench):
    attempts: list[int] = []

    def attempt(latest: TableState) -> None:
        attempts.append(latest.version)
        raise StaleMetadata

    with pytest.raises(CommitContention, match="each of 3 attempts"):
        bench.publisher.retry(bench.state, attempt, 3)
    assert attempts == [4, 4, 4]


def test_whoever_waits_for_another_attempt_can_be_cancelled(bench: Bench):
    bench.committer.before = [bench.interfere] * 100
    with cancellation.scope() as statement:

        def interfere_and_cancel() -> None:
            bench.interfere()
            statement.cancel()

        bench.committer.before[2] = interfere_and_cancel
        with pytest.raises(Cancelled):
            bench.publish()


def test_a_lost_answer_is_no_error_if_the_table_has_the_commit(bench: Bench):
    bench.committer.after = [failing(Unavailable("no answer"))]
    assert bench.publish().version == 5
    assert bench.committer.attempts == 1


def test_a_lost_answer_is_an_error_if_the_table_has_it_not(bench: Bench):
    bench.committer.before = [failing(Unavailable("no answer"))]
    with pytest.raises(Unavailable, match="no answer"):
        bench.publish()
    assert bench.committer.attempts == 1


@pytest.mark.parametrize("error", [CommitRefused("locked"), LimitExceeded("disk is full")])
def test_metadata_of_a_refused_commit_is_swept_later(bench: Bench, error: Exception):
    bench.committer.before = [failing(error)]
    with pytest.raises(type(error)):
        bench.publish()
    [job] = bench.doubts()
    assert (job.identity, job.title) == (bench.state.identity, "s.plain")


def test_an_error_after_the_commit_says_that_it_was_published(bench: Bench):
    bench.committer.after = [lambda: bench.recorded.remove("plain")]
    with pytest.raises(Unavailable, match=r"'s\.plain' was published, do not run it again"):
        bench.publish()


def left(bench: Bench) -> str:
    location = "recorded/plain/data/jetbridge-11111111-x.parquet"
    Path(location).write_bytes(b"rows")
    return location


@pytest.mark.parametrize("error", [BadRequest("wrong"), Conflict("late"), CommitRefused("locked")])
def test_files_of_a_refused_statement_are_removed(bench: Bench, error: Exception):
    location = left(bench)
    bench.publisher.discard(bench.state, [location], error)
    assert not Path(location).exists()
    assert bench.doubts() == []


@pytest.mark.parametrize(
    "error", [Unavailable("no answer"), OSError("broken"), KeyboardInterrupt()]
)
def test_files_of_a_statement_in_doubt_stay_for_the_sweeper(bench: Bench, error: BaseException):
    location = left(bench)
    bench.publisher.discard(bench.state, [location], error)
    assert Path(location).exists()
    [job] = bench.doubts()
    assert list(job.files) == ["jetbridge-11111111-x.parquet"]


def test_writers_of_one_server_wait_for_each_other(bench: Bench):
    begun, entered = threading.Event(), threading.Event()

    def write() -> None:
        begun.set()
        with bench.publisher.hold(bench.recorded.lake.tables.load("s", "plain")):
            entered.set()

    thread = threading.Thread(target=write)
    with bench.publisher.hold(bench.state), bench.publisher.hold(bench.state):
        thread.start()
        begun.wait(10)
        assert not entered.wait(0.1)
        with bench.publisher.hold(bench.recorded.state("laid_out")):
            pass
    assert entered.wait(10)
    thread.join(10)


def test_a_new_table_has_a_folder_that_is_noted_until_it_is_there(bench: Bench):
    dropped = bench.recorded.lake.warehouse.dropped
    with bench.publisher.new_table_folder("a.b", "../x y") as folder:
        assert folder is not None
        assert folder.startswith(f"{bench.recorded.lake.warehouse.folder}/a/b/_x_y-")
        [note] = dropped.all().values()
        assert (note.folder, note.maker) == (folder, "11111111")
    assert dropped.all() == {}


def test_the_folder_of_a_table_that_could_not_be_created_is_swept(bench: Bench):
    with pytest.raises(BadRequest), bench.publisher.new_table_folder("s", "t"):
        raise BadRequest("no")
    [note] = bench.recorded.lake.warehouse.dropped.all().values()
    assert (note.title, note.maker) == ("s.t", "")


def test_some_catalogs_choose_folders_themselves(bench: Bench):
    lake = bench.recorded.lake
    options = lake.publisher.options
    publisher = Publisher(lake.read, bench.committer, options, chooses_folders=False)
    with publisher.new_table_folder("s", "t") as folder:
        assert folder is None
    assert lake.warehouse.dropped.all() == {}
