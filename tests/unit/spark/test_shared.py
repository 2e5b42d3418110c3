"""How executors are asked for their folder, with a cluster that does not answer."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from cachetools import LRUCache

from jetbridge.errors import Cancelled
from jetbridge.runtime import cancellation
from jetbridge.spark import shared_folders
from jetbridge.spark.shared_folders import CheckedFolders, Executor, check_shared


def session(application: str) -> Any:
    context = SimpleNamespace(master="spark://127.0.0.1:1", applicationId=application)
    return SimpleNamespace(spark=SimpleNamespace(sparkContext=context))


SESSION = session("test-shared")


@pytest.fixture
def asked(monkeypatch):
    """Two executors; the second one never gets its task. Who was asked, each time."""
    monkeypatch.setattr(
        shared_folders, "_applications", LRUCache(shared_folders._MOST_APPLICATIONS)
    )
    found: list[list[str]] = []

    def ask(_session, _folder, executors):
        found.append([each.number for each in executors])
        return {"1"}

    executors = [Executor("1", "a"), Executor("2", "b")]
    monkeypatch.setattr(shared_folders, "_executors", lambda *_: executors)
    monkeypatch.setattr(shared_folders, "_check", ask)
    return found


def test_an_executor_that_does_not_answer_is_logged_and_asked_again(asked, tmp_path, caplog):
    check_shared(SESSION, tmp_path)
    assert asked == [["1", "2"], ["2"], ["2"]]
    assert [each.getMessage() for each in caplog.records] == [
        f"executors 2 of Spark were too busy to check whether they share {tmp_path}: "
        "the next statement checks it again"
    ]
    check_shared(SESSION, tmp_path)
    assert asked[3:] == [["2"], ["2"], ["2"]]


def test_whoever_waits_for_another_probe_can_be_cancelled(asked, tmp_path):
    held = shared_folders._application("test-shared").lock
    with held, cancellation.scope() as statement:
        threading.Timer(0.1, statement.cancel).start()
        # Without this the test would hang where the wait cannot be cancelled.
        late = threading.Timer(5, held.release)
        late.start()
        with pytest.raises(Cancelled):
            check_shared(SESSION, tmp_path)
        late.cancel()
    assert asked == []


def test_whoever_waits_for_the_first_executor_can_be_cancelled(monkeypatch):
    nobody = SimpleNamespace(size=lambda: 0)
    core = SimpleNamespace(
        statusStore=lambda: SimpleNamespace(executorList=lambda _: nobody),
    )
    monkeypatch.setattr(shared_folders, "_core", lambda _: core)
    monkeypatch.setattr(shared_folders, "_comes_on_demand", lambda _: False)
    application = CheckedFolders()
    with cancellation.scope() as statement:
        threading.Timer(0.1, statement.cancel).start()
        with pytest.raises(Cancelled):
            shared_folders._executors(SESSION, application)
    assert not application.has_executors  # the next statement waits for it, too


def test_only_the_last_applications_are_remembered(asked):
    first = shared_folders._application("first")
    for number in range(shared_folders._MOST_APPLICATIONS - 1):
        shared_folders._application(str(number))
        assert shared_folders._application("first") is first
    shared_folders._application("one more")
    assert shared_folders._application("first") is first
    assert len(shared_folders._applications) == shared_folders._MOST_APPLICATIONS
