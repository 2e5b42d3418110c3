"""Which servers work on a warehouse, and at what: so that files of dead ones are told from others.

    .jetbridge/servers/<server>             locked for as long as the process lives
    .jetbridge/servers/<server>.jvm         locked by its Spark, which may live a moment longer
    .jetbridge/servers/<server>.jobs/*.json what it does, or did when it ended
    .jetbridge/servers/turns.lock           whose turn it is to commit; see `turns`

Only on a local disk: an object store has no locks, and there `jetbridge optimize` is what removes
files that nobody refers to.
"""

import fcntl
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.parquet_writer import disk
from jetbridge.backends.lake.write.commit import StaleMetadata
from jetbridge.errors import AlreadyExists, BadRequest, Conflict, FailedPrecondition, NotFound
from jetbridge.spark.engine import SparkConnection

log = logging.getLogger(__name__)

FOLDER = ".jetbridge/servers"
_JVM, _JOBS = ".jvm", ".jobs"
# Statements that were refused so have cleared up behind them.
_ORDERLY = (AlreadyExists, BadRequest, Conflict, FailedPrecondition, NotFound, StaleMetadata)


@dataclass(frozen=True)
class WriteJob:
    """Something that writes files of names that do not tell who wrote them.

    `identity` is the table's; times are seconds of the epoch, `ended` is None while it runs.
    `files` are names of files that do tell, and that a statement that is over may have left.
    """

    identity: str
    title: str
    started: float
    ended: float | None = None
    files: Sequence[str] = ()


class ServerLock:
    """The lock of this server on one warehouse; it is taken with the first file it writes."""

    def __init__(self, warehouse: str, server: str) -> None:
        root = local_path(warehouse)
        self._folder = None if root is None else Path(root) / FOLDER
        self._server = server
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._tried = False
        self._held_in: tuple[SparkConnection, Any] | None = None
        self._unwritten: list[WriteJob] = []

    @property
    def folder(self) -> Path | None:
        """None if the warehouse is not on a local disk."""
        return self._folder

    def hold(self) -> None:
        """From here on the files of this server are not swept."""
        with self._lock:
            if self._folder is None:
                return
            if self._tried:
                self._seen()
                return
            with disk(str(self._folder)):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._descriptor = _locked(self._folder / self._server)
            self._tried = True

    def _seen(self) -> None:
        """Leaves word that the server lives at this moment."""
        if self._descriptor is not None:
            os.utime(self._descriptor)

    def hold_in(self, session: SparkConnection) -> None:
        """The same for what Spark's JVM still does after this process has died."""
        if self._folder is None or (self._held_in and self._held_in[0] is session):
            return
        self.hold()
        with self._lock:
            if self._held_in and self._held_in[0] is session:
                return
            lock = None
            try:
                lock = _locked_in_java(session, self._folder / f"{self._server}{_JVM}")
            except BlockingIOError:
                return  # a Spark that is about to end has it yet
            except Exception as error:
                log.warning("Spark cannot lock a file in %s: %s", self._folder, str(error)[:200])
            self._held_in = (session, lock)

    @contextmanager
    def job(self, identity: str, title: str) -> Iterator[Callable[[], None]]:
        """Notes what is done for as long as it is; if it fails badly, the note stays.

        So it does if what is yielded is called: the job is done, but may have left files behind.
        """
        untidy = threading.Event()
        if self._folder is None:
            yield untidy.set
            return
        self.hold()
        job = WriteJob(identity, title, time.time())
        with disk(str(self._folder)):
            note = self._new_note(self._folder)
            _write(note, job)
        try:
            yield untidy.set
        except BaseException as error:
            if not isinstance(error, _ORDERLY):
                untidy.set()
            raise
        finally:
            self._end(note, job, untidy=untidy.is_set())

    def _end(self, note: Path, job: WriteJob, *, untidy: bool) -> None:
        ended = replace(job, ended=time.time())
        try:
            if untidy:
                _write(note, ended)
                return
        except OSError:  # a full disk may be what went wrong
            with self._lock:
                self._unwritten.append(ended)
        note.unlink(missing_ok=True)

    def doubt(self, identity: str, title: str, started: float, files: Sequence[str] = ()) -> None:
        """Notes that a statement may have left files behind, so that the sweeper looks."""
        if self._folder is None:
            return
        self._note(self._folder, WriteJob(identity, title, started, time.time(), files))

    def _note(self, folder: Path, job: WriteJob) -> None:
        try:
            _write(self._new_note(folder), job)
        except OSError:  # a full disk may be what went wrong
            with self._lock:
                self._unwritten.append(job)

    def _new_note(self, folder: Path) -> Path:
        note = folder / f"{self._server}{_JOBS}" / f"{uuid4().hex}.json"
        note.parent.mkdir(parents=True, exist_ok=True)
        return note

    def failed(self) -> dict[Path, WriteJob]:
        """What has gone wrong in this server, by the notes of it."""
        if self._folder is None:
            return {}
        with self._lock:
            unwritten, self._unwritten = self._unwritten, []
        for job in unwritten:
            self._note(self._folder, job)
        return failed_jobs(self._folder, self._server)

    def close(self) -> None:
        """Gives the lock back; the file goes if there is nothing left to sweep."""
        with self._lock:
            self._held_in = None  # Java's lock goes with its last reference
            descriptor, self._descriptor = self._descriptor, None
            self._tried = False
        if descriptor is None or self._folder is None:
            return
        if not _jobs(self._folder, self._server):
            forget(self._folder, self._server)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """The descriptor that holds the lock; None where the file system knows no locks."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                started = json.dumps({"started": time.time(), "pid": os.getpid()})
                with suppress(OSError):  # a full disk holds locks all the same
                    os.pwrite(descriptor, started.encode(), 0)
                return descriptor
        except FileNotFoundError:
            pass  # a sweeper took it for a dead one's, between the two calls
        except OSError as error:
            log.warning("no locks in %s (%s): files of a crash stay there", path.parent, error)
            path.unlink(missing_ok=True)  # nobody may take it for a dead server's
            os.close(descriptor)
            return None
        os.close(descriptor)


def _locked_in_java(session: SparkConnection, path: Path) -> Any:
    """Java's own lock (of fcntl), which ends with its process and not with ours."""
    jvm = session.jvm
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    lock = file.getChannel().tryLock()
    if lock is None:
        raise BlockingIOError(f"{path} is locked by another process")
    return lock


@dataclass(frozen=True)
class DeadServer:
    """One whose process has ended; `seen` is when it last was alive for certain."""

    name: str
    started: float
    seen: float
    jobs: dict[Path, WriteJob]


def live_servers(folder: Path) -> set[str]:
    """Those whose lock, or whose Spark's lock, somebody holds."""
    names = _names(folder)
    return {name for name in names if _is_held(folder, name)}


def live_jobs(folder: Path, dead_one: str = "") -> list[WriteJob]:
    """What living servers do at this moment; `dead_one` is held by the caller, and is none."""
    names = live_servers(folder) - {dead_one}
    found = [job for name in names for job in _jobs(folder, name).values()]
    return [job for job in found if job.ended is None]


def failed_jobs(folder: Path, server: str) -> dict[Path, WriteJob]:
    """What has gone wrong in a server that lives."""
    return {note: job for note, job in _jobs(folder, server).items() if job.ended is not None}


@contextmanager
def dead(folder: Path, name: str) -> Iterator[DeadServer | None]:
    """A server that is dead, for this caller alone; None if it lives or someone else has it."""
    try:
        descriptor = os.open(folder / name, os.O_RDWR)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if os.stat(folder / name).st_ino != status.st_ino or _java_holds(folder, name):
            raise BlockingIOError
    except OSError:
        yield None
    else:
        started = _started(os.pread(descriptor, 1000, 0), status.st_mtime)
        yield DeadServer(name, started, status.st_mtime, _jobs(folder, name))
    finally:
        os.close(descriptor)


def _started(text: bytes, otherwise: float) -> float:
    try:
        return float(json.loads(text)["started"])
    except (ValueError, TypeError, KeyError):
        return otherwise


def _write(note: Path, job: WriteJob) -> None:
    """All of it or nothing."""
    made = note.with_suffix(".new")
    made.write_text(json.dumps(asdict(job)))
    os.replace(made, note)


def names_of_others(folder: Path, server: str) -> list[str]:
    return [name for name in _names(folder) if name != server]


def forget(folder: Path, name: str) -> None:
    """For the holder of its lock: nothing of it is left."""
    (folder / f"{name}{_JVM}").unlink(missing_ok=True)
    shutil.rmtree(folder / f"{name}{_JOBS}", ignore_errors=True)
    (folder / name).unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.suffix and path.is_file())


def _is_held(folder: Path, name: str) -> bool:
    with dead(folder, name) as found:
        return found is None and (folder / name).exists()


def _java_holds(folder: Path, name: str) -> bool:
    try:
        descriptor = os.open(folder / f"{name}{_JVM}", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _jobs(folder: Path, name: str) -> dict[Path, WriteJob]:
    found = {}
    for path in sorted((folder / f"{name}{_JOBS}").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            found[path] = WriteJob(**json.loads(path.read_text()))
    return found
