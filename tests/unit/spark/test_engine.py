"""The states of the engine, with attempts that start no JVM."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from jetbridge.errors import Cancelled, FailedPrecondition, NotFound, Unavailable
from jetbridge.runtime import cancellation
from jetbridge.spark import SparkEngine, engine
from jetbridge.spark.startup import StartAttempt
from tests.helpers.waiting import PATIENCE, wait_until


class FakeJvm:
    def __init__(self):
        self.ended = threading.Event()

    def runs(self):
        return not self.ended.is_set()

    def wait(self, seconds=None):
        return self.ended.wait(seconds)

    def exit_reason(self):
        return "killed by signal 9"

    def end(self):
        self.ended.set()

    kill = end


class FakeApplication:
    def __init__(self, jvm, number):
        self.jvm, self.session, self.conf = jvm, f"session {number}", {}
        self.stopped = self.closed = False

    def usable(self):
        return self.jvm.runs() and not self.stopped

    def own_jobs(self):
        return nullcontext()

    def set(self, settings):
        self.conf.update(settings)

    def close(self):
        self.jvm.end()
        self.closed = True


class FakeAttempt(StartAttempt):
    """Fails as long as there is something in `problems`; waits for `gate`."""

    problems: list[Exception] = []
    opened: list[FakeApplication] = []
    gate = threading.Event()
    _jvm: Any = None

    def open(self):
        self._jvm = FakeJvm()
        while not self.gate.wait(0.01):
            if self._cancelled.is_set():
                raise Unavailable("Spark is stopping")
        if self.problems:
            raise self.problems.pop(0)
        self.opened.append(FakeApplication(self._jvm, len(self.opened) + 1))
        return self.opened[-1]


@pytest.fixture
def spark(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "StartAttempt", FakeAttempt)
    monkeypatch.setattr(engine, "RETRY_SECONDS", 0.3)
    monkeypatch.setattr(engine, "DEATH_SECONDS", 0.1)
    monkeypatch.setattr(FakeAttempt, "problems", [])
    monkeypatch.setattr(FakeAttempt, "opened", [])
    monkeypatch.setattr(FakeAttempt, "gate", threading.Event())
    FakeAttempt.gate.set()
    made = SparkEngine(log_file=tmp_path / "spark.log")
    yield made
    made.stop()


def used(spark: SparkEngine) -> object:
    with spark.session() as session:
        return session


def test_session_starts_spark_once(spark):
    assert (spark.status(), spark.alive()) == ("not started", False)
    assert [used(spark), used(spark)] == ["session 1", "session 1"]
    assert (spark.status(), spark.alive()) == ("running", True)


def test_calls_wait_for_one_start_and_the_log_says_so(spark, monkeypatch, caplog):
    def reports() -> list[str]:
        return [each for each in caplog.messages if each.startswith("waiting for Spark (")]

    monkeypatch.setattr(engine, "REPORT_SECONDS", 0.1)
    caplog.set_level("INFO", "jetbridge")
    began = time.monotonic()
    FakeAttempt.gate.clear()
    spark.start()
    spark.start()
    assert spark.status() == "starting (0 s)"
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(used, spark) for _ in range(4)]
        wait_until(lambda: len(reports()) >= 3)
        assert len(reports()) <= (time.monotonic() - began) / (engine.REPORT_SECONDS / 2) + 1
        FakeAttempt.gate.set()
        assert {each.result() for each in waiting} == {"session 1"}


def test_failed_start_is_told_to_every_waiting_call_and_the_next_one_tries_again(spark):
    FakeAttempt.problems.append(Unavailable("no Java"))
    FakeAttempt.gate.clear()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(used, spark) for _ in range(3)]
        wait_until(lambda: spark.status().startswith("starting"))
        time.sleep(0.05)  # nothing shows that the others wait, too
        FakeAttempt.gate.set()
        errors = [each.exception() for each in waiting]
    assert [(type(each), str(each)) for each in errors] == [(Unavailable, "no Java")] * 3
    assert len(set(map(id, errors))) == 3
    assert spark.status() == "failed: no Java"
    began = time.monotonic()
    assert used(spark) == "session 1"
    assert time.monotonic() - began > 0.15


def test_surprise_at_the_start_is_told_in_one_sentence(spark, tmp_path):
    FakeAttempt.problems.append(RuntimeError("first\nsecond"))
    with pytest.raises(Unavailable) as told:
        used(spark)
    assert str(told.value) == f"Spark did not start: first; see {tmp_path / 'spark.log'}"


def test_call_that_meets_the_death_of_spark_is_unavailable_and_the_next_one_works(spark):
    with (
        pytest.raises(
            Unavailable, match=r"Spark stopped unexpectedly \(killed by signal 9\); it is being"
        ),
        spark.session(),
    ):
        FakeAttempt.opened[0].jvm.kill()
        raise Py4JNetworkError("Answer from Java side is empty")
    assert used(spark) == "session 2"
    assert FakeAttempt.opened[0].closed


def test_dead_spark_is_restarted_before_anyone_asks(spark):
    used(spark)
    FakeAttempt.opened[0].jvm.kill()
    wait_until(lambda: len(FakeAttempt.opened) == 2)
    assert used(spark) == "session 2"


def test_spark_stopped_from_outside_is_restarted(spark):
    with (
        pytest.raises(Unavailable, match="Spark was stopped from outside; it is being restarted"),
        spark.session(),
    ):
        FakeAttempt.opened[0].stopped = True
        raise Py4JError("Cannot call methods on a stopped SparkContext")
    assert used(spark) == "session 2"
    FakeAttempt.opened[1].stopped = True
    assert used(spark) == "session 3"
    assert len(FakeAttempt.opened) == 3


@pytest.mark.parametrize("error", [Py4JError("wrong call"), NotFound("table", "t")])
def test_error_of_a_healthy_spark_passes(spark, error):
    with pytest.raises(type(error)) as caught, spark.session():
        raise error
    assert caught.value is error
    assert used(spark) == "session 1"


def test_error_that_is_not_of_spark_passes_even_when_spark_is_dead(spark):
    with pytest.raises(NotFound), spark.session():
        FakeAttempt.opened[0].jvm.kill()
        raise NotFound("table", "t")


def test_catalogs_are_known_whenever_they_were_added(spark):
    spark.add_catalog("before", {"type": "jdbc"})
    FakeAttempt.gate.clear()
    spark.start()
    spark.add_catalog("meanwhile", {"type": "jdbc"})
    FakeAttempt.gate.set()
    used(spark)
    spark.add_catalog("after", {"type": "rest"})
    conf = FakeAttempt.opened[0].conf
    assert conf["spark.sql.catalog.meanwhile.type"] == "jdbc"
    assert conf["spark.sql.catalog.after.type"] == "rest"
    attempt = spark._attempt
    assert attempt is not None
    assert set(attempt.order.catalogs) == {"before"}


def test_catalog_that_needs_another_jar_comes_before_the_start(spark):
    used(spark)
    with pytest.raises(FailedPrecondition, match="catalog 'pg' needs another jar"):
        spark.add_catalog("pg", {"uri": "jdbc:postgresql://host/db"})


def test_stopped_engine_stays_stopped(spark):
    used(spark)
    spark.stop()
    spark.stop()
    assert (spark.status(), spark.alive()) == ("stopped", False)
    assert FakeAttempt.opened[0].closed
    with pytest.raises(Unavailable, match="Spark is stopping"):
        used(spark)


def test_stop_ends_a_start_under_way(spark):
    FakeAttempt.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(used, spark)
        wait_until(lambda: spark.status().startswith("starting"))
        spark.stop()
        assert isinstance(waiting.exception(PATIENCE), Unavailable)
    assert FakeAttempt.opened == []


def test_spark_that_does_not_end_in_time_is_killed(spark, monkeypatch):
    used(spark)
    stuck = FakeAttempt.opened[0]
    monkeypatch.setattr(stuck, "close", lambda: stuck.jvm.wait(10))
    began = time.monotonic()
    spark.stop(0.2)
    assert 0.2 <= time.monotonic() - began < 9


def test_call_cut_by_the_stop_is_unavailable(spark):
    with pytest.raises(Unavailable, match="Spark is stopping"), spark.session():
        spark.stop()
        raise Py4JNetworkError("gone")


def test_whoever_waits_for_the_start_and_is_cancelled_waits_no_longer(spark):
    FakeAttempt.gate.clear()
    with cancellation.scope() as statement:
        timer = threading.Timer(0.1, statement.cancel)
        timer.start()
        began = time.monotonic()
        with pytest.raises(Cancelled), spark.session():
            raise AssertionError
        assert time.monotonic() - began < PATIENCE
    FakeAttempt.gate.set()
    assert used(spark) == "session 1"
