"""Publishes changes of tables: locks, retries, lost answers, and files of failed statements."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from posixpath import basename
from typing import Protocol, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

import pyarrow as pa

from jetbridge.backends.lake.errors import MESSAGE_CHARACTERS, CommitRefused, StaleMetadata
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.warehouse.commit_turns import pauses
from jetbridge.backends.lake.warehouse.dropped_tables import DroppedTable, new_folder
from jetbridge.backends.lake.write.commit import TableCommit
from jetbridge.errors import Cancelled, Conflict, LimitExceeded, ServerError, Unavailable
from jetbridge.runtime.cancellation import current, shield
from jetbridge.spark.engine import SparkConnection

log = logging.getLogger(__name__)

T = TypeVar("T")

# A commit that loses to other servers is attempted for so long, and at least so often: it may have
# waited for other writers of this server before the first attempt.
COMMIT_SECONDS = 30.0
_FEWEST_ATTEMPTS = 5
# Between two attempts.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# A statement whose outcome is not known began at most so long ago.
_DOUBT_SECONDS = 24 * 3600.0


class CommitContention(Conflict):
    """Report that other writers committed during every attempt."""

    def __init__(self, state: TableState, attempts: int) -> None:
        super().__init__(
            f"could not commit to table {state.title()!r}: other writers changed it during each of "
            f"{attempts} attempts; run the statement again, or write more rows in one statement, "
            "or write through one server"
        )


class Committer(Protocol):
    """Make one commit; see `commit.IcebergCommitter`."""

    def commit(self, state: TableState, change: TableCommit) -> None:
        """Commit a change; raises StaleMetadata if the table is no longer what `state` says."""


class Publisher:
    """Own the commits of one lake by this server."""

    def __init__(
        self,
        read: ReadContext,
        committer: Committer,
        options: LakeOptions,
        *,
        chooses_folders: bool = True,
    ) -> None:
        """Use `committer`; without `chooses_folders`, let the catalog choose folders."""
        self.read, self.committer, self.options = read, committer, options
        self.warehouse, self.tables, self.files = read.warehouse, read.tables, read.files
        self._chooses_folders = chooses_folders
        self._lock = threading.Lock()
        # Only tables that are written at this moment have one.
        self._table_locks: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()

    @contextmanager
    def hold(self, state: TableState) -> Iterator[None]:
        """Let other writers of this server wait, instead of losing with their commits."""
        with self._lock:
            lock = self._table_locks.setdefault(state.identity, threading.RLock())
        with current().holding(lock):
            yield

    def publish(
        self, state: TableState, describe: Callable[[TableState], TableCommit | None]
    ) -> TableState:
        """Commit the change that `describe` returns for the table as it is then.

        If another engine is faster, `describe` is called again. Returns the table afterwards.
        """

        def attempt(latest: TableState) -> TableState:
            change = describe(latest)
            if change is None:
                return latest
            self._commit(latest, change)
            return self._read_published(latest)

        return self.retry(state, attempt)

    def retry(
        self, state: TableState, attempt: Callable[[TableState], T], job_attempts: int = 0
    ) -> T:
        """Call `attempt` with the table as it is then, again if it raises StaleMetadata.

        Attempts go on for `COMMIT_SECONDS`, while other servers wait. A long job has `job_attempts`
        attempts, and other servers wait from the second one on. Raises CommitContention.
        """
        end = time.monotonic() + COMMIT_SECONDS
        with self.hold(state):
            for attempts, pause in enumerate(pauses(_FIRST_PAUSE, _LONGEST_PAUSE), start=1):
                beside_others = job_attempts and attempts == 1
                turns = self.warehouse.turns
                turn = nullcontext() if beside_others else turns.turn(state.identity)
                with turn, suppress(StaleMetadata):
                    return attempt(self.tables.current(state))
                if attempts == job_attempts or (
                    not job_attempts and attempts >= _FEWEST_ATTEMPTS and time.monotonic() > end
                ):
                    raise CommitContention(state, attempts)
                current().wait(pause)
        raise AssertionError  # the pauses never end

    def _commit(self, latest: TableState, change: TableCommit) -> None:
        began = time.time()
        try:
            self.committer.commit(latest, change)
        except (CommitRefused, LimitExceeded):
            # Java leaves the metadata of such a commit behind.
            self.warehouse.lock.doubt(latest.identity, latest.title(), began)
            raise
        except Unavailable:
            if not self._has(latest, change):
                raise

    def _has(self, state: TableState, change: TableCommit) -> bool:
        """Return whether a commit was made whose answer was lost."""
        with suppress(ServerError):
            return change.is_in(self.tables.current(state))
        return False

    def _read_published(self, state: TableState) -> TableState:
        """Return the table after a commit; an error must not remove the files, which it has now."""
        try:
            with shield():
                return self.tables.current(state)
        except ServerError as error:
            raise Unavailable(
                f"the change of table {state.title()!r} was published, do not run it again; "
                f"but the table could not be read afterwards: {error}"[:MESSAGE_CHARACTERS]
            ) from error

    @contextmanager
    def run_job(self, state: TableState) -> Iterator[SparkConnection]:
        """Yield Spark for work that writes files; if it is cut off, they are swept."""
        try:
            with (
                self.warehouse.lock.job(state.identity, state.title()) as leaves_files,
                self.warehouse.session(state.title()) as session,
            ):
                before = executor_failures(session)
                try:
                    yield session
                finally:
                    if executor_failures(session) - before:
                        leaves_files()
        except (Unavailable, Cancelled, LimitExceeded):
            self.warehouse.on_trouble()
            raise

    def new_writer(self, folder: str, schema: pa.Schema) -> DataWriter:
        """Return a writer of data files with the prefix of this server."""
        return DataWriter(self.files, folder, self.warehouse.file_prefix(), schema)

    @contextmanager
    def new_table_folder(self, namespace: str, name: str) -> Iterator[str | None]:
        """Yield the folder for a table that the block creates; None where the catalog chooses."""
        if not self._chooses_folders:
            yield None
            return
        warehouse = self.warehouse
        warehouse.lock.hold()
        folder = new_folder(warehouse.folder, namespace, name)
        with warehouse.dropped.creating(folder, f"{namespace}.{name}", warehouse.server):
            yield folder

    def drop(self, state: TableState) -> None:
        """Remove the table from the catalog; its files are swept later."""
        note = DroppedTable(
            state.folder, state.title(), time.time(), state.identity, state.location
        )
        with self.hold(state):
            self.warehouse.dropped.add(note)
            self.warehouse.java.drop(state.pointer.namespace, state.pointer.name)

    def discard(self, state: TableState, locations: Sequence[str], error: BaseException) -> None:
        """Remove the files of a failed statement, unless they may be part of the table.

        If the answer to a commit was lost, the sweeper finds out later.
        """
        is_refused = isinstance(error, ServerError) and not isinstance(error, Unavailable)
        if is_refused or isinstance(error, CommitRefused):
            self.files.delete(locations)
        elif locations:
            names = [basename(location) for location in locations]
            began = time.time() - _DOUBT_SECONDS
            self.warehouse.lock.doubt(state.identity, state.title(), began, names)


def executor_failures(session: SparkConnection) -> frozenset[str]:
    """Return the failures of Spark's executors; a new one if Spark does not answer."""
    try:
        return session.executor_failures()
    except Exception as error:
        log.debug("Spark does not report the failures of its executors", exc_info=error)
        return frozenset({uuid4().hex})
