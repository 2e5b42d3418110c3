"""What all handles of one lake share: its catalog, its files, its readers and writers."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from posixpath import basename
from typing import Any, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog.sql import SqlCatalog

from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.metadata.manifest_check import ManifestChecker
from jetbridge.backends.lake.metadata.metadata_file import parsed
from jetbridge.backends.lake.metadata.pointers import (
    Key,
    LakeListing,
    MetadataPointer,
    Namespaces,
    pointers_of,
)
from jetbridge.backends.lake.metadata.state_cache import StateCache
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.read.column_cache import ColumnCache
from jetbridge.backends.lake.write.commit import (
    CommitRefused,
    IcebergCommitter,
    StaleMetadata,
    TableCommit,
    translating,
)
from jetbridge.backends.lake.write.commit_turns import CommitTurns, pauses
from jetbridge.backends.lake.write.dropped_tables import DroppedTable, DroppedTables, new_folder
from jetbridge.backends.lake.write.server_locks import ServerLock
from jetbridge.catalog.settings import SPILL_BYTES, STAGED_BYTES
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import Cancelled, Conflict, LimitExceeded, NotFound, ServerError, Unavailable
from jetbridge.runtime.cancellation import current, shield
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.shared_folders import check_shared

log = logging.getLogger(__name__)

_MOST_SAID = 10_000
T = TypeVar("T")

# How long a commit is tried that loses to other servers, and how often at least: it may have
# waited for other writers of this server before the first try.
COMMIT_SECONDS = 30.0
_FEWEST_TRIES = 5
# Between two tries.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# How often a table is looked for whose metadata file goes each time.
_MOST_LOOKS = 10
# A statement whose outcome nobody knows began at most so long ago.
_DOUBT_SECONDS = 24 * 3600.0


class CommitContention(Conflict):
    """Others committed in the middle of every try."""

    def __init__(self, state: TableState, tries: int) -> None:
        super().__init__(
            f"table {state.title()!r} was changed by others during each of {tries} tries; nothing "
            "of this statement is kept: run it again, or write more rows at once, or write "
            "through one server"
        )


class Superseded(Conflict):
    """The metadata file of this version is gone, and the table has another one."""


@dataclass(frozen=True)
class LakeOptions:
    """`enforce_keys_rows`: keys of larger tables are not checked, unless the table says so."""

    warehouse: str
    enforce_keys_rows: int = 10_000_000
    staged_bytes: int = STAGED_BYTES
    spill_bytes: int = SPILL_BYTES
    hot_bytes: int = 96 * 1024**2
    state_bytes: int = 32 * 1024**2
    server: str = field(default_factory=lambda: uuid4().hex[:8])


class Lake:
    def __init__(
        self,
        catalog: IcebergCatalog,
        engine: SparkEngine,
        reader: LakeReader,
        files: Files,
        options: LakeOptions,
    ) -> None:
        self.name = catalog.name
        self.iceberg, self.engine, self.reader = catalog, engine, reader
        self.files, self.options = files, options
        self.pointers = pointers_of(catalog)
        self.namespaces = Namespaces(catalog)
        self.presence = ServerLock(options.warehouse, options.server)
        self.turns = CommitTurns(options.warehouse)
        weakref.finalize(self, self.presence.close)
        weakref.finalize(self, self.turns.close)
        self.dropped = DroppedTables(files, options.warehouse)
        self.commits = IcebergCommitter(engine, catalog.name, self.presence.hold_in)
        # Called when a job went wrong and may have left files behind.
        self.on_trouble: Callable[[], None] = _nothing
        # One sweep at a time: a second one would take what the first has locked for alive.
        self.sweeping = threading.Lock()
        self.versions = CatalogVersionCounter(self)
        # How snapshots with deletion vectors are read; see `source`.
        self.manifests = ManifestChecker(reader, files)
        # What the log was told about a table, so that it is told once.
        self.said: set[tuple[str, str]] = set()
        # Tables of `spooling` that are in use.
        self.spools: set[str] = set()
        self.sources: dict[tuple[str, int | None, int], Any] = {}
        self.hot = ColumnCache(options.hot_bytes)
        self.states = StateCache(options.state_bytes)
        self._lock = threading.Lock()
        # Of tables that are written at this moment.
        self._table_locks: WeakValueDictionary[str, threading.RLock] = WeakValueDictionary()

    def find(self, namespace: str, name: str) -> TableState | None:
        """The metadata file may go between the two steps: others commit, and it gets too old."""
        for _ in range(_MOST_LOOKS):
            pointer = self.pointers.find(namespace, name)
            try:
                return None if pointer is None else self.state(pointer)
            except Superseded as error:
                gone = error
        raise gone

    def load(self, namespace: str, name: str) -> TableState:
        """The table as it is now; raises NotFound."""
        found = self.find(namespace, name)
        if found is None:
            raise NotFound("table", f"{namespace}.{name}")
        return found

    def state(self, pointer: MetadataPointer) -> TableState:
        """What the metadata file says; it never changes, so it is kept."""
        known = self.states.get(pointer)
        if known is not None:
            return known
        try:
            state = parsed(pointer, self.files.read(pointer.location))
        except OSError as error:
            raise self._without_metadata(pointer, error) from error
        self.states.put(state)
        return state

    def _without_metadata(self, pointer: MetadataPointer, error: OSError) -> ServerError:
        """Metadata from before may be gone; what the catalog names must be there."""
        title = f"{pointer.namespace}.{pointer.name}"
        gone = isinstance(error, FileNotFoundError)
        if gone and self.pointers.find(pointer.namespace, pointer.name) != pointer:
            return Superseded(
                f"the metadata of table {title!r} is gone: {pointer.location}; "
                "start a new transaction"
            )
        problem = f"its metadata file {pointer.location}: {error.strerror or error}"
        return Unavailable(f"table {title!r} cannot be read: {problem}"[:450])

    def current(self, state: TableState) -> TableState:
        """The same table as it is now; raises NotFound if it was dropped, even if made anew."""
        found = self.find(state.pointer.namespace, state.pointer.name)
        if found is not None and found.identity == state.identity:
            return found
        for pointer in self.pointers.listing().tables.values():  # renamed meanwhile
            with suppress(ServerError, OSError):  # that of another table is damaged
                other = self.state(pointer)
                if other.identity == state.identity:
                    return other
        raise NotFound("table", state.title())

    def is_news(self, said: tuple[str, str]) -> bool:
        """Whether the log was not told this before, or so long ago that nobody remembers."""
        if said in self.said:
            return False
        if len(self.said) >= _MOST_SAID:
            self.said.clear()
        self.said.add(said)
        return True

    @contextmanager
    def writing(self, state: TableState) -> Iterator[None]:
        """Writers of this server wait for each other here, not for a commit that fails."""
        with self._lock:
            lock = self._table_locks.setdefault(state.identity, threading.RLock())
        with current().holding(lock):
            yield

    def commit(
        self, state: TableState, make: Callable[[TableState], TableCommit | None]
    ) -> TableState:
        """Publishes the change that `make` finds for the table as it is at that moment.

        If another engine is faster, the change is made anew. Answers the table afterwards.
        """

        def attempt(now: TableState) -> TableState:
            change = make(now)
            if change is None:
                return now
            self._publish(now, change)
            return self._published(now)

        return self.retried(state, attempt)

    def retried(
        self, state: TableState, attempt: Callable[[TableState], T], job_tries: int = 0
    ) -> T:
        """What is done with the table as it is then, and done again if someone else was faster.

        Such an attempt raises Stale. It is done again for `COMMIT_SECONDS`, while other servers
        wait; a long job `job_tries` times, the first time beside others. Raises Outrun.
        """
        end = time.monotonic() + COMMIT_SECONDS
        with self.writing(state):
            for tries, pause in enumerate(pauses(_FIRST_PAUSE, _LONGEST_PAUSE), start=1):
                beside_others = job_tries and tries == 1
                turn = nullcontext() if beside_others else self.turns.turn(state.identity)
                with turn, suppress(StaleMetadata):
                    return attempt(self.current(state))
                if tries == job_tries or (
                    not job_tries and tries >= _FEWEST_TRIES and time.monotonic() > end
                ):
                    raise CommitContention(state, tries)
                current().wait(pause)
        raise AssertionError  # the pauses never end

    def _publish(self, now: TableState, change: TableCommit) -> None:
        """Raises Stale if someone else was faster."""
        began = time.time()
        try:
            self.commits.change(now, change)
        except (CommitRefused, LimitExceeded):
            # Java leaves the metadata of such a commit behind.
            self.presence.doubt(now.identity, now.title(), began)
            raise
        except Unavailable:
            if not self._has(now, change):
                raise

    def _published(self, state: TableState) -> TableState:
        """The table after a change was made. Whatever goes wrong now, the table has its files."""
        try:
            with shield():
                return self.current(state)
        except ServerError as error:
            raise Unavailable(
                f"the change of table {state.title()!r} was published, do not run it again; "
                f"but the table could not be read afterwards: {error}"[:450]
            ) from error

    def _has(self, state: TableState, change: TableCommit) -> bool:
        """Whether a change was made whose answer was lost with Spark, or with the catalog."""
        with suppress(ServerError):
            return change.is_in(self.current(state))
        return False

    @contextmanager
    def session(self, what: str) -> Iterator[SparkConnection]:
        """Spark, whose errors about `what` become ours."""
        with self.engine.session() as session, translating(what):
            if not self.is_elsewhere():
                check_shared(session, local_path(self.staging_folder()) or "")
            self.presence.hold_in(session)
            yield session

    @contextmanager
    def job(self, state: TableState) -> Iterator[SparkConnection]:
        """The same for work in which Spark writes files; if it is cut off, they are swept."""
        try:
            with (
                self.presence.job(state.identity, state.title()) as untidy,
                self.session(state.title()) as session,
            ):
                before = executor_failures(session)
                try:
                    yield session
                finally:
                    if executor_failures(session) - before:
                        untidy()
        except (Unavailable, Cancelled, LimitExceeded):
            self.on_trouble()
            raise

    @contextmanager
    def making(self, namespace: str, name: str) -> Iterator[str | None]:
        """A folder for a new table; None where the catalog chooses one."""
        if not isinstance(self.iceberg, SqlCatalog):
            yield None
            return
        self.presence.hold()
        folder = new_folder(self.options.warehouse, namespace, name)
        with self.dropped.making(folder, f"{namespace}.{name}", self.options.server):
            yield folder

    def drop(self, state: TableState) -> None:
        """Takes the table out of the catalog; what it leaves behind is swept later."""
        note = DroppedTable(
            state.folder, state.title(), time.time(), state.identity, state.location
        )
        self.dropped.add(note)
        self.commits.drop(state.pointer.namespace, state.pointer.name)

    def discard(self, state: TableState, locations: Sequence[str], error: BaseException) -> None:
        """Removes the files of a statement that failed, unless they may be part of the table.

        If the answer to a commit was lost, only the sweeper can find out.
        """
        refused = isinstance(error, ServerError) and not isinstance(error, Unavailable)
        if refused or isinstance(error, CommitRefused):
            self.files.delete(locations)
        elif locations:
            names = [basename(each) for each in locations]
            began = time.time() - _DOUBT_SECONDS
            self.presence.doubt(state.identity, state.title(), began, names)

    def is_elsewhere(self) -> bool:
        """Whether the warehouse is no folder, so that Spark reaches it by Iceberg only."""
        return local_path(self.options.warehouse) is None

    def staging_folder(self) -> str:
        """For files that Spark's workers read and that no table keeps."""
        return f"{self.options.warehouse}/.jetbridge/staging"

    def data_folder(self, state: TableState) -> str:
        return state.properties.get("write.data.path", f"{state.folder}/data").rstrip("/")

    def prefix(self) -> str:
        """How the data files of this server begin, so that a sweeper knows whose they were."""
        self.presence.hold()
        return f"jetbridge-{self.options.server}"


def executor_failures(session: SparkConnection) -> frozenset[str]:
    """Of Spark's executors; one of its own if Spark does not say."""
    try:
        return session.executor_failures()
    except Exception as error:
        log.debug("Spark does not tell what it has lost", exc_info=error)
        return frozenset({uuid4().hex})


def _nothing() -> None:
    """Nobody sweeps."""


class CatalogVersionCounter:
    """The version of the catalog: a number that rises whenever someone's DDL is seen."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        # So that it also rises from one start of the server to the next.
        self._number = time.time_ns() // 1_000_000
        self._seen = LakeListing({}, {})
        self._marks: dict[Key, tuple[object, ...]] = {}

    def number(self, listing: LakeListing) -> int:
        with self._lock:
            marks = {key: self._mark(key, pointer) for key, pointer in listing.tables.items()}
            changed = (listing.namespaces, marks) != (self._seen.namespaces, self._marks)
            self._number += changed
            self._seen, self._marks = listing, marks
            return self._number

    def _mark(self, key: Key, pointer: MetadataPointer) -> tuple[object, ...]:
        if self._seen.tables.get(key) == pointer:
            return self._marks[key]
        try:
            return self._lake.state(pointer).ddl_mark()
        except (ServerError, OSError):
            return (pointer,)  # one table that cannot be read is no reason to stop
