"""Notes which servers work on a warehouse, and at what, so that files of dead ones can be removed.

    .jetbridge/servers/<server>             locked for as long as the process lives
    .jetbridge/servers/<server>.jvm         locked by its Spark, which may live a moment longer
    .jetbridge/servers/<server>.jobs/*.json what it writes, or wrote when it ended
    .jetbridge/servers/turns.lock           whose turn it is to commit; see `commit_turns`

All this needs a local disk: an object store has no locks. There `jetbridge optimize` removes files
that no table refers to.
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

from jetbridge.backends.lake.errors import StaleMetadata
from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.parquet_writer import disk
from jetbridge.errors import AlreadyExists, BadRequest, Conflict, FailedPrecondition, NotFound
from jetbridge.spark.engine import SparkConnection

log = logging.getLogger(__name__)

FOLDER = ".jetbridge/servers"
_JVM, _JOBS = ".jvm", ".jobs"
# A statement that fails with one of these removes its own files.
_ORDERLY = (AlreadyExists, BadRequest, Conflict, FailedPrecondition, NotFound, StaleMetadata)


@dataclass(frozen=True)
class WriteJob:
    """Describe work that writes files whose names do not have the server's name.

    `identity` is the table's. Times are seconds of the epoch; `ended` is None while the job runs.
    `files` are names with the server's name, which a statement that ended may have left behind.
    """

    identity: str
    title: str
    started: float
    ended: float | None = None
    files: Sequence[str] = ()


class ServerLock:
    """Hold the lock of this server on one warehouse, from the first file that it writes."""

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
        """Return the folder of the locks; None if the warehouse is not on a local disk."""
        return self._folder

    def hold(self) -> None:
        """Take the lock; from here on the files of this server are not swept."""
        with self._lock:
            if self._folder is None:
                return
            if self._tried:
                self._touch()
                return
            with disk(str(self._folder)):
                self._folder.mkdir(parents=True, exist_ok=True)
                self._descriptor = _locked(self._folder / self._server)
            self._tried = True

    def _touch(self) -> None:
        """Note that the server lives at this moment."""
        if self._descriptor is not None:
            os.utime(self._descriptor)

    def hold_in(self, session: SparkConnection) -> None:
        """Take the lock of Spark's JVM, which may still write after this process has died."""
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
                return  # a Spark that is about to end still has it
            except Exception as error:
                log.warning("Spark could not lock a file in %s: %s", self._folder, str(error)[:200])
            self._held_in = (session, lock)

    @contextmanager
    def job(self, identity: str, title: str) -> Iterator[Callable[[], None]]:
        """Note a job while it runs; the note stays if the job may have left files behind.

        That is so if it fails, or if it calls the function that this yields.
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
        except OSError:  # the disk may be full
            with self._lock:
                self._unwritten.append(ended)
        note.unlink(missing_ok=True)

    def doubt(self, identity: str, title: str, started: float, files: Sequence[str] = ()) -> None:
        """Note that a statement may have left files behind, so that the sweeper looks for them."""
        if self._folder is None:
            return
        self._write_note(self._folder, WriteJob(identity, title, started, time.time(), files))

    def _write_note(self, folder: Path, job: WriteJob) -> None:
        try:
            _write(self._new_note(folder), job)
        except OSError:  # the disk may be full
            with self._lock:
                self._unwritten.append(job)

    def _new_note(self, folder: Path) -> Path:
        note = folder / f"{self._server}{_JOBS}" / f"{uuid4().hex}.json"
        note.parent.mkdir(parents=True, exist_ok=True)
        return note

    def failed(self) -> dict[Path, WriteJob]:
        """Return the jobs of this server that failed, by their notes."""
        if self._folder is None:
            return {}
        with self._lock:
            unwritten, self._unwritten = self._unwritten, []
        for job in unwritten:
            self._write_note(self._folder, job)
        return failed_jobs(self._folder, self._server)

    def close(self) -> None:
        """Release the lock, and remove its file if there is nothing left to sweep."""
        with self._lock:
            self._held_in = None  # Java releases its lock with the last reference
            descriptor, self._descriptor = self._descriptor, None
            self._tried = False
        if descriptor is None or self._folder is None:
            return
        if not _jobs(self._folder, self._server):
            forget(self._folder, self._server)
        os.close(descriptor)


def _locked(path: Path) -> int | None:
    """Return the descriptor that holds the lock; None where the file system has no locks."""
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
            pass  # a sweeper removed the file of a dead server between the two calls
        except OSError as error:
            log.warning(
                "%s has no file locks (%s): files that a crash leaves behind stay there",
                path.parent,
                error,
            )
            path.unlink(missing_ok=True)  # an unlocked file would mean a dead server
            os.close(descriptor)
            return None
        os.close(descriptor)


def _locked_in_java(session: SparkConnection, path: Path) -> Any:
    """Take Java's own lock (of fcntl), which ends with its process and not with ours."""
    jvm = session.jvm
    file = jvm.java.io.RandomAccessFile(str(path), "rw")
    lock = file.getChannel().tryLock()
    if lock is None:
        raise BlockingIOError(f"{path} is locked by another process")
    return lock


@dataclass(frozen=True)
class DeadServer:
    """Describe a server whose process has ended; `last_alive` is when it certainly was."""

    name: str
    started: float
    last_alive: float
    jobs: dict[Path, WriteJob]


def live_servers(folder: Path) -> set[str]:
    """Return the servers whose lock, or whose Spark's lock, a process holds."""
    names = _names(folder)
    return {name for name in names if _is_held(folder, name)}


def live_jobs(folder: Path, except_server: str = "") -> list[WriteJob]:
    """Return the jobs that run now; the caller holds the lock of `except_server`, which is dead."""
    names = live_servers(folder) - {except_server}
    jobs = [job for name in names for job in _jobs(folder, name).values()]
    return [job for job in jobs if job.ended is None]


def failed_jobs(folder: Path, server: str) -> dict[Path, WriteJob]:
    """Return the jobs of a live server that failed, by their notes."""
    return {note: job for note, job in _jobs(folder, server).items() if job.ended is not None}


@contextmanager
def lock_dead_server(folder: Path, name: str) -> Iterator[DeadServer | None]:
    """Lock a dead server for this caller; yield None if it lives or another sweeper has it."""
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
    """Write a note, whole or not at all."""
    new = note.with_suffix(".new")
    new.write_text(json.dumps(asdict(job)))
    os.replace(new, note)


def names_of_others(folder: Path, server: str) -> list[str]:
    """Return the names of all other servers, dead or alive."""
    return [name for name in _names(folder) if name != server]


def forget(folder: Path, name: str) -> None:
    """Remove all files of a server; only the holder of its lock may do so."""
    (folder / f"{name}{_JVM}").unlink(missing_ok=True)
    shutil.rmtree(folder / f"{name}{_JOBS}", ignore_errors=True)
    (folder / name).unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.suffix and path.is_file())


def _is_held(folder: Path, name: str) -> bool:
    with lock_dead_server(folder, name) as server:
        return server is None and (folder / name).exists()


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
    jobs = {}
    for path in sorted((folder / f"{name}{_JOBS}").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            jobs[path] = WriteJob(**json.loads(path.read_text()))
    return jobs
