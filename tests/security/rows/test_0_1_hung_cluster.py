"""The probe of shared folders: a cluster that hangs stops no statements on another cluster."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from jetbridge.spark import shared_folders
from jetbridge.spark.shared_folders import Executor, check_shared


class Cluster:
    """Fake a Spark session whose only executor answers as soon as `answers` is set."""

    def __init__(self, application: str) -> None:
        self.answers, self.asked = threading.Event(), threading.Event()
        context: Any = SimpleNamespace(master="spark://127.0.0.1:1", applicationId=application)
        context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=self._store))
        self.spark = SimpleNamespace(sparkContext=context, conf={})

    def _store(self) -> Any:
        self.asked.set()
        self.answers.wait(60)
        return SimpleNamespace(executorList=lambda _: _Executors())


class _Executors:
    def size(self) -> int:
        return 1

    def apply(self, _: int) -> Any:
        return SimpleNamespace(id=lambda: "1", hostPort=lambda: "127.0.0.1:1")


@contextmanager
def statement(cluster: Any, folder: Any) -> Iterator[threading.Event]:
    """Run a first statement in a thread; yield the event that is set after its probe."""
    done = threading.Event()

    def run() -> None:
        check_shared(cluster, folder)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield done
    finally:
        cluster.answers.set()
        thread.join()


def all_share(_session: Any, _folder: Any, executors: list[Executor]) -> set[str]:
    return {executor.number for executor in executors}


def test_a_cluster_that_hangs_does_not_stop_statements_on_another(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_folders, "_check", all_share)
    hung, other = Cluster("hung"), Cluster("other")
    other.answers.set()
    with statement(hung, tmp_path) as hung_done:
        assert hung.asked.wait(10)
        with statement(other, tmp_path) as other_done:
            assert other_done.wait(10), "the other cluster waits for the one that hangs"
        assert not hung_done.is_set()
    assert hung_done.is_set()
