"""Opens one Spark application, a JVM with a context and a session, and closes it."""

import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from jetbridge.dialects.spark import rows_of
from jetbridge.errors import Unavailable
from jetbridge.runtime.cancellation import current
from jetbridge.spark.jvm import END_SECONDS, Jvm
from jetbridge.spark.settings import worker_python

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# Loggers that print JSON with a stack trace on standard error for each statement that fails.
PRINTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# How long to wait for Spark's listeners to catch up.
LISTENER_MILLISECONDS = 2_000

# The tasks of a cancelled job end soon. Until then they may still write files.
_TASKS_SECONDS, _PAUSE_SECONDS = 10.0, 0.05

_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class SparkConnection:
    """Use Spark within one block of `SparkEngine.session`; several threads may use it at once.

    Attributes:
        spark: The session of PySpark.
        jvm: The view of py4j on the JVM.

    Examples:
        >>> def count_rows(connection: SparkConnection, table: str) -> int:
        ...     return connection.sql(f"SELECT * FROM {table}").count()
    """

    spark: "SparkSession"
    jvm: Any

    def check_query(self, text: str) -> None:
        """Raise the error of Spark's parser for a text that is not exactly one query.

        Only a query may stand in parentheses after FROM, and only one whole statement by itself.
        """
        parser = self.spark._jsparkSession.sessionState().sqlParser()
        for statement in (text, rows_of(text)):
            parser.parsePlan(statement)

    def sql(self, text: str) -> "DataFrame":
        """Return the result of a statement in Spark SQL, which Spark computes when it is read."""
        return self.spark.sql(text)

    def catalog(self, name: str) -> Any:
        """Return Iceberg's catalog object, in Java."""
        session = self.spark._jsparkSession
        # Java reads the settings of a catalog from the active session of its thread.
        self.static("org.apache.spark.sql.classic.SparkSession.setActiveSession")(session)
        return self.static("org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog")(session, name)

    def static(self, name: str) -> Callable[..., Any]:
        """Return a static method of Java, by its full name.

        With `jvm.org.apache...`, py4j asks Java at every dot whether that is a class, and Java then
        searches all its jars.
        """
        from py4j.java_gateway import JavaMember  # noqa: PLC0415 - the extra `lake` brings it
        from py4j.protocol import STATIC_PREFIX  # noqa: PLC0415

        owner, _, method = name.rpartition(".")
        member: Callable[..., Any] = JavaMember(
            method, None, STATIC_PREFIX + owner, self.jvm._gateway_client
        )
        return member

    def executor_failures(self) -> frozenset[str]:
        """Return a mark for each executor that was lost or has failed tasks so far.

        Spark runs such tasks again, so their job succeeds. But nothing removes the files of a task
        whose executor is gone.
        """
        core = _core(self.spark.sparkContext)
        # A listener keeps the list; if it does not catch up in time, that is an error.
        core.listenerBus().waitUntilEmpty(LISTENER_MILLISECONDS)
        executors = core.statusStore().executorList(False)
        marks = set()
        for index in range(executors.size()):
            executor = executors.apply(index)
            failed, lost = executor.failedTasks(), not executor.isActive()
            if failed or lost:
                marks.add(f"{executor.id()} {failed} {lost}")
        return frozenset(marks)


def _runs(tracker: "StatusTracker", stage: int) -> bool:
    info = tracker.getStageInfo(stage)
    return info is not None and info.numActiveTasks > 0


class SparkApplication:
    """Run Spark on a JVM that has just been launched. PySpark allows one in a process."""

    def __init__(self, jvm: Jvm, settings: Mapping[str, str], seconds: float) -> None:
        """Wait for the JVM and connect; `settings` are added to those of its launch."""
        # PySpark takes half a second to import; until the JVM is up, scans have the processor.
        jvm.await_gateway(seconds)
        _silence()
        self._process = jvm
        with _one_at_a_time:
            refuse_a_second()
            self._gateway = jvm.connect(seconds)
            try:
                self._context = _open_context(self._gateway, settings)
                self._core = _core(self._context)
                self.session = _open_session(self._context)
            except BaseException:
                _forget(self._gateway)
                raise

    def usable(self) -> bool:
        """Return whether the JVM runs and Spark is not stopped inside it; calls the JVM."""
        if not self._process.runs():
            return False
        try:
            return not self._core.isStopped()
        except Exception as error:
            log.debug("Spark does not answer", exc_info=error)
            return False

    @contextmanager
    def own_jobs(self) -> Iterator[None]:
        """Cancel the jobs of the block, and no others, if it fails or is cancelled."""
        context, tag = self._context, f"jetbridge-{uuid4().hex[:12]}"
        context.addJobTag(tag)
        context.setInterruptOnCancel(True)
        try:
            with current().on_cancel(lambda: context.cancelJobsWithTag(tag)):
                yield
        except BaseException:
            with suppress(Exception):  # Spark itself may be gone
                self._end_jobs(tag)
            raise
        finally:
            with suppress(Exception):
                context.removeJobTag(tag)

    def _end_jobs(self, tag: str) -> None:
        """Cancel jobs, and wait for a while until none of their tasks runs."""
        context = self._context
        context.cancelJobsWithTag(tag)
        end = time.monotonic() + _TASKS_SECONDS
        tracker = context.statusTracker()
        jobs = map(tracker.getJobInfo, self._core.statusTracker().getJobIdsForTag(tag))
        stages = [stage for job in jobs if job is not None for stage in job.stageIds]
        while time.monotonic() < end and any(_runs(tracker, stage) for stage in stages):
            time.sleep(_PAUSE_SECONDS)

    def set(self, settings: Mapping[str, str]) -> None:
        """Set settings of the session."""
        for name, value in settings.items():
            self.session.spark.conf.set(name, value)

    def close(self) -> None:
        """Stop Spark; return when the JVM is gone and PySpark is ready for another one."""
        if self._process.runs():
            # A JVM that hangs does not answer, and py4j would wait for it forever.
            stopping = threading.Thread(target=self._stop, name="spark-stop", daemon=True)
            stopping.start()
            stopping.join(END_SECONDS)
        self._process.end()
        with _one_at_a_time:
            _close_context(self._context)
            _forget(self._gateway)

    def _stop(self) -> None:
        with suppress(Exception):
            self._core.stop()


def refuse_a_second() -> None:
    """Raise Unavailable if the process runs Spark already: PySpark would return that one."""
    from pyspark import SparkContext  # noqa: PLC0415 - the extra `lake` brings it

    if SparkContext._gateway is not None:
        raise Unavailable("this process runs another Spark application already: stop it first")


def _open_context(gateway: Any, settings: Mapping[str, str]) -> "SparkContext":
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - the extra `lake` brings them

    conf = SparkConf(_jvm=gateway.jvm)
    for name, value in settings.items():
        conf.set(name, value)
    paths = set(sys.path)
    context = SparkContext(conf=conf, gateway=gateway)
    # It adds a folder of this JVM, and never removes it.
    for added in set(sys.path) - paths:
        sys.path.remove(added)
    context.pythonExec = worker_python(dict(context.getConf().getAll()), os.environ)
    # It prints a traceback when the JVM dies while it is connected.
    context._accumulatorServer.handle_error = _ignore  # type: ignore[assignment,method-assign]
    return context


def _open_session(context: "SparkContext") -> SparkConnection:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the extra `lake` brings it

    return SparkConnection(SparkSession(context), context._jvm)


def _core(context: "SparkContext") -> Any:
    """Return Scala's SparkContext, which those of Java and Python wrap."""
    return context._jsc.sc()


def _close_context(context: "SparkContext") -> None:
    """Do what SparkContext.stop() does, without its call to a JVM that is gone."""
    context._jsc = None
    if context._accumulatorServer is not None:
        context._accumulatorServer.shutdown()
        context._accumulatorServer = None  # type: ignore[assignment]


def _forget(gateway: Any) -> None:
    """Clear the class attributes with PySpark's JVM; else it never starts another one."""
    from pyspark import SparkContext  # noqa: PLC0415 - the extra `lake` brings them
    from pyspark.sql import SparkSession, SQLContext  # noqa: PLC0415

    with suppress(Exception):
        gateway.shutdown()
    with suppress(Exception):
        gateway.close()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
    SQLContext._instantiatedContext = None


def _ignore(*_: object) -> None:
    """Print nothing."""


def _silence() -> None:
    """Turn off what PySpark and py4j print; the caller gets the same errors."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - the extra `lake` brings it

    for name in PRINTING_LOGGERS:
        # PySpark's own function creates it: a plain logger of that name would break its calls.
        PySparkLogger.getLogger(name).disabled = True
    # A second call replaces the first: filters are kept once.
    logging.getLogger().addFilter(_not_from_py4j)
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM", RuntimeWarning)


def _not_from_py4j(record: logging.LogRecord) -> bool:
    """Drop records of py4j: it logs a broken connection with a traceback, to the root logger."""
    return record.module != "java_gateway"
