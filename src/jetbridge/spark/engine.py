"""Runs the Spark of a process: it starts in the background and restarts when it dies.

    engine = SparkEngine(settings, log_file=Path("spark.log"))
    engine.add_catalog("lake", {"type": "jdbc", ...})
    engine.start()
    with engine.session() as session:
        session.sql("SELECT 1").toArrow()

The engine holds the latest attempt to start Spark. A call that finds that it failed, or that its
application is lost, replaces it by the next attempt; all other calls wait for that one.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jetbridge.errors import FailedPrecondition, ServerError, Unavailable
from jetbridge.runtime.cancellation import current
from jetbridge.spark.application import SparkApplication, SparkConnection
from jetbridge.spark.errors import is_from_spark
from jetbridge.spark.jars import needed_jars
from jetbridge.spark.settings import catalog_settings, is_local
from jetbridge.spark.startup import STOPPING, StartAttempt, StartRequest

__all__ = ["SparkConnection", "SparkEngine"]

log = logging.getLogger(__name__)

# How often the log reports that calls wait.
REPORT_SECONDS = 5.0
# Between a start that failed and the next one.
RETRY_SECONDS = 5.0
# The connection breaks a moment before the process has ended.
DEATH_SECONDS = 2.0
STOP_SECONDS = 30.0


class SparkEngine:
    """Own the one Spark of a process. Nothing is started before a statement needs it, or `start`.

    Args:
        settings: Spark's own settings, by name.
        log_file: The file of Spark's log.
        scratch: An existing folder for Spark's files while it runs; None: the system's usual one.
        verbose: Whether Spark logs more than warnings.

    Examples:
        >>> from pathlib import Path
        >>> engine = SparkEngine({"spark.master": "local[2]"}, log_file=Path("spark.log"))
        >>> engine.is_local, engine.status()
        (True, 'not started')
        >>> engine.stop()
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        log_file: Path,
        scratch: Path | None = None,
        verbose: bool = False,
    ) -> None:
        """`settings` are Spark's own; `scratch` is where Spark keeps files while it runs."""
        self._settings = dict(settings or {})
        self._log_file = log_file.absolute()
        self._scratch = scratch.absolute() if scratch else None
        self._verbose = verbose
        self._catalogs: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()
        self._attempt: StartAttempt | None = None
        self._reported = 0.0
        self._closing = threading.Event()

    @property
    def is_local(self) -> bool:
        """Return whether driver and executors run on this machine."""
        return is_local(self._settings)

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """Add an Iceberg catalog, also while Spark runs.

        Raises FailedPrecondition if Spark runs and does not have a jar that the catalog needs.
        """
        with self._lock:
            catalogs = {**self._catalogs, name: dict(properties)}
            known = needed_jars(self._catalogs.values())
            if self._attempt and needed_jars(catalogs.values()) != known:
                problem = f"catalog {name!r} needs another jar"
                raise FailedPrecondition(f"{problem}: add it before Spark starts")
            self._catalogs = catalogs
            application = self._application()
        if application:
            application.set(catalog_settings(name, properties))

    def start(self) -> None:
        """Start Spark in the background; does nothing if that is under way."""
        self._current()

    @contextmanager
    def session(self) -> Iterator[SparkConnection]:
        """Give Spark as soon as it runs; the jobs of the block end with its statement.

        Raises Unavailable if Spark cannot start, or if it is lost meanwhile, whatever error of the
        block that has caused. Other exceptions of Java pass.
        """
        attempt, application = self._ready()
        try:
            with application.own_jobs():
                yield application.session
        except Exception as error:
            if not is_from_spark(error) or application.usable():
                raise
            raise Unavailable(self._replace(attempt)) from error

    def running_tasks(self) -> tuple[int, int] | None:
        """Return how many tasks of the stages that run now are done, and how many there are.

        None: no stage runs. Never waits for Spark to start.
        """
        application = self._application()
        if application is None:
            return None
        tracker = application.session.spark.sparkContext.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        stages = [info for info in infos if info is not None]
        if not stages:
            return None
        done = sum(stage.numCompletedTasks for stage in stages)
        return done, sum(stage.numTasks for stage in stages)

    def alive(self) -> bool:
        """Return whether a session would begin at once. Looks at the process, not at Spark."""
        attempt = self._attempt
        return bool(attempt and attempt.runs())

    def status(self) -> str:
        """Return a phrase for people."""
        attempt = self._attempt
        if self._closing.is_set():
            return "stopped"
        if attempt is None:
            return "not started"
        if attempt.has_failed():
            return f"failed: {attempt.result.exception()}"
        if not attempt.result.done():
            return f"starting ({time.monotonic() - attempt.began:.0f} s)"
        return "running" if attempt.runs() else "lost"

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop Spark and return when it has ended; the engine does not start again.

        After `seconds` the process is killed.
        """
        self._closing.set()
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        attempt.cancel()
        patience = threading.Timer(seconds, attempt.kill)
        patience.daemon = True
        patience.start()
        with suppress(TimeoutError):
            attempt.result.exception(seconds)
        attempt.close()
        patience.cancel()

    def _application(self) -> SparkApplication | None:
        """Return the application that runs, or None; never waits for it."""
        attempt = self._attempt
        return attempt.application() if attempt else None

    def _ready(self) -> tuple[StartAttempt, SparkApplication]:
        while True:
            attempt = self._current()
            application = self._await(attempt)
            if application.usable():
                return attempt, application
            self._replace(attempt)

    def _current(self) -> StartAttempt:
        """Return the latest attempt, or begin the next one if that failed."""
        with self._lock:
            if self._attempt is None or self._attempt.has_failed():
                return self._begin(self._attempt)
            return self._attempt

    def _await(self, attempt: StartAttempt) -> SparkApplication:
        woken = threading.Event()
        attempt.result.add_done_callback(lambda _: woken.set())
        with current().on_cancel(woken.set):
            while not woken.wait(REPORT_SECONDS):
                self._report(attempt)
            current().check()
        try:
            return attempt.result.result()
        except ServerError as error:
            # One object raised in many threads would collect the tracebacks of all.
            raise Unavailable(str(error)) from error

    def _report(self, attempt: StartAttempt) -> None:
        """Log that calls wait, once for all of them."""
        current_time = time.monotonic()
        with self._lock:
            if current_time - self._reported < REPORT_SECONDS / 2:
                return
            self._reported = current_time
        log.info("waiting for Spark (%.0f s)", current_time - attempt.began)

    def _replace(self, lost: StartAttempt) -> str:
        """Begin the next attempt unless that has happened; return the message for the caller."""
        death = lost.death(DEATH_SECONDS)
        with self._lock:
            if self._closing.is_set():
                return STOPPING
            what = (
                f"Spark stopped unexpectedly ({death})"
                if death
                else "Spark was stopped from outside"
            )
            if self._attempt is lost:
                log.warning("%s; it is being restarted", what)
                self._begin(lost)
        return f"{what}; it is being restarted, run the statement again"

    def _begin(self, previous: StartAttempt | None) -> StartAttempt:
        """Begin an attempt; the caller holds the lock."""
        if self._closing.is_set():
            raise Unavailable(STOPPING)
        order = StartRequest(
            self._settings, self._catalogs, self._log_file, self._scratch, self._verbose
        )
        attempt = self._attempt = StartAttempt(order)
        work = (attempt, previous)
        threading.Thread(target=self._run, args=work, name="spark-start", daemon=True).start()
        return attempt

    def _run(self, attempt: StartAttempt, previous: StartAttempt | None) -> None:
        """Start Spark, then wait for its end."""
        try:
            if previous:
                self._clear(previous)
            self._publish(attempt, attempt.open())
        except Exception as error:
            attempt.fail(error)
            return
        log.info("Spark is up (%.1f s)", time.monotonic() - attempt.began)
        attempt.death()
        self._replace(attempt)

    def _clear(self, previous: StartAttempt) -> None:
        previous.close()
        if previous.has_failed():
            self._closing.wait(max(0.0, previous.ended + RETRY_SECONDS - time.monotonic()))

    def _publish(self, attempt: StartAttempt, application: SparkApplication) -> None:
        """Set the result, with the catalogs that were added while Spark started."""
        with self._lock:
            for name, properties in self._catalogs.items():
                if attempt.order.catalogs.get(name) is not properties:
                    application.set(catalog_settings(name, properties))
            attempt.result.set_result(application)
