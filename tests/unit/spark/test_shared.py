"""How executors are asked for their folder, with a cluster that does not answer."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from jetbridge import cancellation
from jetbridge.errors import Cancelled
from jetbridge.spark import shared
from jetbridge.spark.shared import Executor, refuse_unshared

SESSION: Any = SimpleNamespace(
    spark=SimpleNamespace(
        sparkContext=SimpleNamespace(master="spark://127.0.0.1:1", applicationId="test-shared")
    )
)


@pytest.fixture
def asked(monkeypatch):
    """Two executors; the second one never gets its task. Who was asked, each time."""
    monkeypatch.setattr(shared, "_seen", {})
    found: list[list[str]] = []

    def ask(_session, _folder, executors):
        found.append([each.number for each in executors])
        return {"1"}

    monkeypatch.setattr(shared, "_executors", lambda _: [Executor("1", "a"), Executor("2", "b")])
    monkeypatch.setattr(shared, "_asked", ask)
    return found


def test_an_executor_that_does_not_answer_is_logged_and_asked_again(asked, tmp_path, caplog):
    refuse_unshared(SESSION, tmp_path)
    assert asked == [["1", "2"], ["2"], ["2"]]
    assert [each.getMessage() for each in caplog.records] == [
        f"executors 2 of Spark were too busy to say whether they share {tmp_path}: "
        "asked again by the next statement"
    ]
    refuse_unshared(SESSION, tmp_path)
    assert asked[3:] == [["2"], ["2"], ["2"]]


def test_whoever_waits_for_another_probe_can_be_cancelled(asked, tmp_path):
    held = threading.Lock()
    with held, pytest.MonkeyPatch.context() as patch, cancellation.scope() as statement:
        patch.setattr(shared, "_lock", held)
        threading.Timer(0.1, statement.cancel).start()
        # Without this the test would hang where the wait cannot be cancelled.
        late = threading.Timer(5, held.release)
        late.start()
        with pytest.raises(Cancelled):
            refuse_unshared(SESSION, tmp_path)
        late.cancel()
    assert asked == []


def test_whoever_waits_for_the_first_executor_can_be_cancelled(monkeypatch):
    nobody = SimpleNamespace(size=lambda: 0)
    core = SimpleNamespace(
        statusStore=lambda: SimpleNamespace(executorList=lambda _: nobody),
    )
    monkeypatch.setattr(shared, "_core", lambda _: core)
    monkeypatch.setattr(shared, "_comes_on_demand", lambda _: False)
    monkeypatch.setattr(shared, "_awaited", set())
    with cancellation.scope() as statement:
        threading.Timer(0.1, statement.cancel).start()
        with pytest.raises(Cancelled):
            shared._executors(SESSION)
    assert shared._awaited == set()  # the next statement waits for it, too
