"""Whether all executors of Spark work in the same folder as the driver: they are asked, once each.

Files go between driver and executors by path. On a cluster without a shared disk each machine has a
folder of that name of its own, and a statement would find nothing, or a part of its rows.
"""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from jetbridge.errors import FailedPrecondition
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.temporary_folders import TemporaryFolder
from jetbridge.spark.application import LISTENER_MILLISECONDS, SparkConnection

log = logging.getLogger(__name__)

# The first executors of an application may take so long to report.
_FIRST_SECONDS = 10.0
_POLL_SECONDS = 0.1
# A task goes elsewhere where its executor is busy; then that one is asked once more.
_ROUNDS = 3
# What Java says of a file that is not there or that it may not read or write.
_PROBLEMS = ("FileNotFound", "NoSuchFile", "does not exist", "ermission", "AccessDenied", "Mkdirs")
_SILENT = (
    "executors %s of Spark were too busy to say whether they share %s: "
    "asked again by the next statement"
)
_DRIVER = "driver"
# Executors may be another user's.
_SHARED = 0o777
_MOST_TASKS = 10_000


@dataclass
class Application:
    """What is known of one application of Spark; a probe holds its lock, and no other's.

    `folders` has for each folder the executors that share it.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    folders: dict[str, set[str]] = field(default_factory=dict)
    has_executors: bool = False


# The last ones: a Spark that restarts is another application.
_MOST_APPLICATIONS = 100
_lock = threading.Lock()
_applications: dict[str, Application] = {}


@dataclass(frozen=True)
class Executor:
    number: str
    host: str

    @property
    def place(self) -> str:
        """As Spark writes the preferred place of a task."""
        return f"executor_{self.host}_{self.number}"


@dataclass(frozen=True)
class Attempt:
    """At the part of a job with this number."""

    part: int
    executor: Executor
    done: bool
    problem: str


def refuse_unshared(session: SparkConnection, folder: str | Path) -> None:
    """Raises FailedPrecondition if an executor has another folder of this name, or none.

    The folder is one of this machine. Executors that come later are asked by the next statement.
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
            known |= _asked(session, Path(folder), new)
        silent = [each for each in new if each.number not in known]
        if silent:
            log.warning(_SILENT, ", ".join(each.number for each in silent), folder)


def _application(identity: str) -> Application:
    with _lock:
        application = _applications.pop(identity, None) or Application()
        _applications[identity] = application  # the last one
        while len(_applications) > _MOST_APPLICATIONS:
            del _applications[next(iter(_applications))]
        return application


def _executors(session: SparkConnection, application: Application) -> list[Executor]:
    """Those that are there; at the first statement of an application also the first to come."""
    seconds = 0.0 if application.has_executors else _FIRST_SECONDS
    deadline = time.monotonic() + seconds
    while True:
        listed = _core(session).statusStore().executorList(True)
        found = [listed.apply(index) for index in range(listed.size())]
        workers = [each for each in found if each.id() != _DRIVER]
        if workers or _comes_on_demand(session) or time.monotonic() > deadline:
            application.has_executors = True
            hosts = [(str(each.id()), str(each.hostPort())) for each in workers]
            return [Executor(number, host.rpartition(":")[0]) for number, host in hosts]
        current().wait(_POLL_SECONDS)


def _comes_on_demand(session: SparkConnection) -> bool:
    return bool(session.spark.conf.get("spark.dynamicAllocation.enabled", "false") == "true")


def _asked(session: SparkConnection, folder: Path, executors: Sequence[Executor]) -> set[str]:
    """The numbers of those that share the folder, if all that answer do."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place = TemporaryFolder("probe", folder, mode=_SHARED)
    except OSError as error:
        raise FailedPrecondition(f"the folder {folder} cannot be used: {error.strerror}") from None
    try:
        attempts = _tried(session, place.path, executors)
        for each in attempts:
            written = (place.path / "out" / f"part-{each.part:05d}").exists()
            if each.problem or (each.done and not written):
                log.warning("probe of %s on %s: %s", folder, each.executor, each.problem or "lost")
                raise _unshared(folder, each.executor)
        return {each.executor.number for each in attempts if each.done}
    finally:
        place.remove()


def _unshared(folder: Path, executor: Executor) -> FailedPrecondition:
    return FailedPrecondition(
        f"executor {executor.number} of Spark on {executor.host} does not share the folder "
        f"{folder} with the server: use a folder on a disk that all machines share, or for a lake "
        "a warehouse in an object store (s3://); for SQL Server set `spool`"
    )


def _tried(session: SparkConnection, place: Path, executors: Sequence[Executor]) -> list[Attempt]:
    """Each executor reads a file of the driver and writes one; in Java, as it may lack Python."""
    (place / "token").write_text("jetbridge\n")
    context, tag = session.spark.sparkContext, f"jetbridge-probe-{uuid4().hex[:12]}"
    context.addJobTag(tag)
    try:
        token = context._jsc.textFile((place / "token").as_uri(), 1)
        _pinned(session, executors).cartesian(token).saveAsTextFile((place / "out").as_uri())
    except Exception as error:
        attempts = _attempts(session, tag)
        if not any(each.problem for each in attempts):
            raise
        log.debug("the probe failed", exc_info=error)
        return attempts
    finally:
        with suppress(Exception):  # Spark itself may be gone
            context.removeJobTag(tag)
    return _attempts(session, tag)


def _pinned(session: SparkConnection, executors: Sequence[Executor]) -> Any:
    """One element for each executor, whose task Spark gives to it if it can."""
    jvm = session.jvm
    sequence = session.static("org.apache.spark.api.python.PythonUtils.toSeq")
    elements = jvm.java.util.ArrayList()
    for each in executors:
        places = jvm.java.util.ArrayList()
        places.add(each.place)
        elements.add(jvm.scala.Tuple2(each.number, sequence(places)))
    anything = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").AnyRef()
    return _core(session).makeRDD(sequence(elements), anything).toJavaRDD()


def _attempts(session: SparkConnection, tag: str) -> list[Attempt]:
    """All attempts at the tasks of a job."""
    core = _core(session)
    core.listenerBus().waitUntilEmpty(LISTENER_MILLISECONDS)
    tracker, found = core.statusTracker(), []
    for job in tracker.getJobIdsForTag(tag):
        for stage in tracker.getJobInfo(job).get().stageIds():
            tasks = core.statusStore().taskList(stage, 0, _MOST_TASKS)
            found += [_attempt(tasks.apply(index)) for index in range(tasks.size())]
    return found


def _attempt(task: Any) -> Attempt:
    error = task.errorMessage()
    text = str(error.get()) if error.isDefined() else ""
    problem = text.split("\n", 1)[0] if any(each in text for each in _PROBLEMS) else ""
    executor = Executor(str(task.executorId()), str(task.host()))
    return Attempt(int(task.index()), executor, str(task.status()) == "SUCCESS", problem)


def _core(session: SparkConnection) -> Any:
    return session.spark.sparkContext._jsc.sc()
