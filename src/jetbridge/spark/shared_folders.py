"""Checks that all executors of Spark work in the same folder as the driver, once for each of them.

Driver and executors exchange files by path. On a cluster without a shared disk, each machine has a
folder of its own at that path, and a statement would find nothing, or only some of its rows.
"""

import logging
import threading
import time
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from cachetools import LRUCache

from jetbridge.errors import FailedPrecondition
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.temporary_folders import TemporaryFolder
from jetbridge.spark.application import LISTENER_MILLISECONDS, SparkConnection

log = logging.getLogger(__name__)

# How long to wait for the first executors of an application.
_FIRST_SECONDS = 10.0
_POLL_SECONDS = 0.1
# Spark gives the task of a busy executor to another one; then the check is repeated.
_ROUNDS = 3
# Java's messages about a file that does not exist, or that it may not read or write.
_PROBLEMS = ("FileNotFound", "NoSuchFile", "does not exist", "ermission", "AccessDenied", "Mkdirs")
_SILENT = (
    "executors %s of Spark were too busy to check whether they share %s: "
    "the next statement checks it again"
)
_DRIVER = "driver"
# Executors may run as another user.
_SHARED = 0o777
_MOST_TASKS = 10_000


@dataclass
class CheckedFolders:
    """Hold what is known of one Spark application; a check holds its lock, and no other one.

    `folders` maps each folder to the executors that share it.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    folders: dict[str, set[str]] = field(default_factory=dict)
    has_executors: bool = False


# A Spark that restarts is another application; only the latest ones are kept.
_MOST_APPLICATIONS = 100
_lock = threading.Lock()
_applications: MutableMapping[str, CheckedFolders] = LRUCache(_MOST_APPLICATIONS)


@dataclass(frozen=True)
class Executor:
    """Describe one executor; Spark numbers them."""

    number: str
    host: str

    @property
    def location(self) -> str:
        """Return the executor as Spark writes the preferred location of a task."""
        return f"executor_{self.host}_{self.number}"


@dataclass(frozen=True)
class Attempt:
    """Describe one attempt at the part of a job with this number."""

    part: int
    executor: Executor
    done: bool
    problem: str


def check_shared(session: SparkConnection, folder: str | Path) -> None:
    """Raise FailedPrecondition if an executor does not share a folder of this machine.

    The next statement checks executors that come later.
    """
    context = session.spark.sparkContext
    if str(context.master).startswith("local"):
        return
    application = _application(str(context.applicationId))
    with current().holding(application.lock):
        known = application.folders.setdefault(str(folder), set())
        for _ in range(_ROUNDS):
            executors = _executors(session, application)
            new = [executor for executor in executors if executor.number not in known]
            if not new:
                return
            known |= _check(session, Path(folder), new)
        silent = [executor.number for executor in new if executor.number not in known]
        if silent:
            log.warning(_SILENT, ", ".join(silent), folder)


def _application(identity: str) -> CheckedFolders:
    with _lock:
        return _applications.setdefault(identity, CheckedFolders())


def _executors(session: SparkConnection, application: CheckedFolders) -> list[Executor]:
    """Return the executors; the first statement of an application waits for the first of them."""
    seconds = 0.0 if application.has_executors else _FIRST_SECONDS
    deadline = time.monotonic() + seconds
    while True:
        listed = _core(session).statusStore().executorList(True)
        executors = [listed.apply(index) for index in range(listed.size())]
        workers = [executor for executor in executors if executor.id() != _DRIVER]
        if workers or _comes_on_demand(session) or time.monotonic() > deadline:
            application.has_executors = True
            hosts = [(str(worker.id()), str(worker.hostPort())) for worker in workers]
            return [Executor(number, host.rpartition(":")[0]) for number, host in hosts]
        current().wait(_POLL_SECONDS)


def _comes_on_demand(session: SparkConnection) -> bool:
    return bool(session.spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true")


def _check(session: SparkConnection, folder: Path, executors: Sequence[Executor]) -> set[str]:
    """Return the numbers of the executors that share the folder; raises FailedPrecondition."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = TemporaryFolder("probe", folder, mode=_SHARED)
    except OSError as error:
        raise FailedPrecondition(f"the folder {folder} cannot be used: {error.strerror}") from None
    try:
        attempts = _run_probe(session, probe.path, executors)
        for attempt in attempts:
            has_written = (probe.path / "out" / f"part-{attempt.part:05d}").exists()
            if attempt.problem or (attempt.done and not has_written):
                problem = attempt.problem or "lost"
                log.warning("probe of %s on %s: %s", folder, attempt.executor, problem)
                raise _not_shared_error(folder, attempt.executor)
        return {attempt.executor.number for attempt in attempts if attempt.done}
    finally:
        probe.remove()


def _not_shared_error(folder: Path, executor: Executor) -> FailedPrecondition:
    return FailedPrecondition(
        f"executor {executor.number} of Spark on {executor.host} does not share the folder "
        f"{folder} with the server: use a folder on a disk that all machines share, or for a lake "
        "a warehouse in an object store (s3://); for SQL Server set `spool`"
    )


def _run_probe(
    session: SparkConnection, folder: Path, executors: Sequence[Executor]
) -> list[Attempt]:
    """Let each executor read a file of the driver and write one. In Java: it may lack Python."""
    (folder / "token").write_text("jetbridge\n")
    context, tag = session.spark.sparkContext, f"jetbridge-probe-{uuid4().hex[:12]}"
    context.addJobTag(tag)
    try:
        token = context._jsc.textFile((folder / "token").as_uri(), 1)
        _pin(session, executors).cartesian(token).saveAsTextFile((folder / "out").as_uri())
    except Exception as error:
        attempts = _attempts(session, tag)
        if not any(attempt.problem for attempt in attempts):
            raise
        log.debug("the probe failed", exc_info=error)
        return attempts
    finally:
        with suppress(Exception):  # Spark itself may be gone
            context.removeJobTag(tag)
    return _attempts(session, tag)


def _pin(session: SparkConnection, executors: Sequence[Executor]) -> Any:
    """Return one element for each executor, whose task Spark runs there if it can."""
    jvm = session.jvm
    sequence = session.static("org.apache.spark.api.python.PythonUtils.toSeq")
    elements = jvm.java.util.ArrayList()
    for executor in executors:
        locations = jvm.java.util.ArrayList()
        locations.add(executor.location)
        elements.add(jvm.scala.Tuple2(executor.number, sequence(locations)))
    anything = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").AnyRef()
    return _core(session).makeRDD(sequence(elements), anything).toJavaRDD()


def _attempts(session: SparkConnection, tag: str) -> list[Attempt]:
    """Return all attempts at the tasks of a job."""
    core = _core(session)
    core.listenerBus().waitUntilEmpty(LISTENER_MILLISECONDS)
    tracker, attempts = core.statusTracker(), []
    for job in tracker.getJobIdsForTag(tag):
        for stage in tracker.getJobInfo(job).get().stageIds():
            tasks = core.statusStore().taskList(stage, 0, _MOST_TASKS)
            attempts += [_attempt(tasks.apply(index)) for index in range(tasks.size())]
    return attempts


def _attempt(task: Any) -> Attempt:
    error = task.errorMessage()
    text = str(error.get()) if error.isDefined() else ""
    problem = text.split("\n", 1)[0] if any(sign in text for sign in _PROBLEMS) else ""
    executor = Executor(str(task.executorId()), str(task.host()))
    return Attempt(int(task.index()), executor, str(task.status()) == "SUCCESS", problem)


def _core(session: SparkConnection) -> Any:
    return session.spark.sparkContext._jsc.sc()
