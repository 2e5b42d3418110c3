"""Removes what crashes leave behind: files that no table refers to, and whose writer is dead.

The names of files that a statement writes begin with the name of its server, so the files of a dead
server are known at once. Files of Spark have names of their own; the sweeper looks for them where a
job failed or lost a task, and only after a grace time. It never removes a file that a table refers
to, that a live server writes, or about which it cannot be sure: a table whose metadata cannot be
read keeps all its files.
"""

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.maintenance.orphan_files import (
    folders_of,
    is_below,
    overlap,
    referenced_names,
)
from jetbridge.backends.lake.metadata.pointers import SPOOL, MetadataPointer
from jetbridge.backends.lake.metadata.table_state import TableState, read_state
from jetbridge.backends.lake.warehouse import branches, server_locks
from jetbridge.backends.lake.warehouse.dropped_tables import DroppedTable
from jetbridge.backends.lake.warehouse.server_locks import DeadServer, WriteJob
from jetbridge.duckdb_engine.lake_reader import QueryError
from jetbridge.errors import ServerError, Unavailable

log = logging.getLogger(__name__)

PERIOD = 600.0
# File times and clocks agree to so many seconds.
_SLACK = 5.0
_DATA_SUFFIXES = (".parquet", ".puffin", ".orc", ".avro")
_METADATA_FILE = ".metadata.json"
_METADATA_SUFFIXES = (".avro", _METADATA_FILE)
_REMOVES_OLD_METADATA = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True)
class Grace:
    """Wait so many seconds before files without a server's name and dropped tables are removed."""

    files: float = 3600.0
    dropped: float = 600.0


@dataclass
class SweepReport(Sequence[str]):
    """List what a sweep removed: names of files, branches, tables and servers."""

    files: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)

    def _names(self) -> list[str]:
        return [*self.files, *self.branches, *self.tables, *self.servers]

    def __len__(self) -> int:
        return len(self._names())

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._names()[index]


def _sweep(lake: Lake, grace: Grace) -> SweepReport:
    sweep = _Sweep(lake, grace)
    sweep.dropped_tables()
    sweep.spool_tables(lake.warehouse.server)
    folder = lake.warehouse.lock.folder
    if folder is None:
        log.debug("%s is not swept: an object store has no locks", lake.warehouse.folder)
        return sweep.report
    for name in server_locks.names_of_others(folder, lake.warehouse.server):
        with server_locks.lock_dead_server(folder, name) as server:
            if server is not None and sweep.dead_server(server):
                server_locks.forget(folder, name)
                sweep.report.servers.append(name)
    for note, job in lake.warehouse.lock.failed().items():
        if sweep.failed_job(job):
            note.unlink(missing_ok=True)
    if sweep.report:
        log.info("swept %s", sweep.report)
    return sweep.report


# Whether to consider a file, by its name and the second it was last written.
IsSuspect = Callable[[str, float], bool]


class _Sweep:
    """Run one sweep."""

    def __init__(self, lake: Lake, grace: Grace) -> None:
        self.lake, self.grace, self.report = lake, grace, SweepReport()
        self.tables, self.warehouse = lake.tables, lake.warehouse
        self.started, self.in_doubt = time.time(), False

    def _pointers(self) -> Iterable[MetadataPointer]:
        return self.tables.listing().tables.values()

    def _states(self) -> Iterator[TableState]:
        """Yield the states of all tables that can be read."""
        for pointer in self._pointers():
            state = self._state(pointer)
            if state is not None:
                yield state

    def _state(self, pointer: MetadataPointer) -> TableState | None:
        try:
            return self.tables.state(pointer)
        except (ServerError, OSError, ValueError) as error:
            log.warning("table %s is not swept: %s", pointer.title(), error)
            self.in_doubt = True
            return None

    def dead_server(self, server: DeadServer) -> bool:
        """Remove what a dead server left behind; return whether nothing of it is left."""
        prefix, branch = f"jetbridge-{server.name}-", branches.prefix_of(server.name)
        done, self.in_doubt = self.started - server.last_alive >= self.grace.files, False
        for table in list(self._states()):
            state = self._without_branches(table, branch)
            self._remove_named(state, prefix)
            for job in server.jobs.values():
                if job.identity == state.identity:
                    done = self._job(state, job, server.name) and done
            whole_life = WriteJob(state.identity, state.title(), server.started)
            done = self._metadata(state, whole_life) and done
        self._remove_staged(prefix)
        self.spool_tables(server.name)
        return done and not self.in_doubt

    def spool_tables(self, server: str) -> None:
        """Drop the spool tables that a server left behind."""
        for namespace, name in self.tables.listing().spools:
            if name.startswith(f"{SPOOL}{server}_") and name not in self.warehouse.spools:
                self.warehouse.java.drop(namespace, name)
                self.report.tables.append(f"{namespace}.{name}")

    def failed_job(self, job: WriteJob) -> bool:
        """Remove what a failed job of this server left behind; return whether nothing is left."""
        for table in self._states():
            if table.identity == job.identity:
                with self.lake.publisher.hold(table):  # so no other job of ours is on this table
                    prefix = branches.prefix_of(self.warehouse.server)
                    state = self._without_branches(self.tables.current(table), prefix)
                    done = self._metadata(state, job)
                    return self._job(state, job) and done
        return True

    def _job(self, state: TableState, job: WriteJob, dead_server: str = "") -> bool:
        """Remove the files of a job that Spark named; return whether none is left."""
        folder = self.warehouse.lock.folder
        if folder is not None:
            jobs = server_locks.live_jobs(folder, dead_server)
            if any(other.identity == state.identity for other in jobs):
                return False
        live = self._live_prefixes(dead_server)
        return self._remove_between(state, state.data_folder, _DATA_SUFFIXES, job, live)

    def _live_prefixes(self, dead_server: str) -> tuple[str, ...]:
        """Return how the names of files begin that live servers may still commit."""
        folder = self.warehouse.lock.folder
        live = set() if folder is None else server_locks.live_servers(folder) - {dead_server}
        return tuple(f"jetbridge-{name}-" for name in live)

    def _metadata(self, state: TableState, job: WriteJob) -> bool:
        """Remove manifests and metadata files of commits that were not made."""
        return self._remove_between(state, f"{state.folder}/metadata", _METADATA_SUFFIXES, job)

    def _remove_between(
        self,
        state: TableState,
        folder: str,
        suffixes: tuple[str, ...],
        job: WriteJob,
        live_prefixes: tuple[str, ...] = (),
    ) -> bool:
        """Remove unreferenced files from the time of a job; False if some are too young yet."""
        last = self.started if job.ended is None else job.ended + _SLACK
        # A commit removes old metadata files; some are left if it dies at that moment.
        removes_old = state.properties.get(_REMOVES_OLD_METADATA) == "true"
        old_suffixes = (_METADATA_FILE,) if removes_old else ()

        def is_suspect(name: str, changed: float) -> bool:
            if name.startswith(live_prefixes) and name not in job.files:
                return False
            is_young = changed >= job.started - _SLACK
            return changed <= last and (is_young or name.endswith(old_suffixes))

        suspects = self._unreferenced(state, folder, suffixes, is_suspect)
        limit = self.started - self.grace.files
        old = [path for path, changed in suspects if changed <= limit]
        self._remove(old)
        return len(old) == len(suspects)

    def _remove_named(self, state: TableState, prefix: str) -> None:
        """Remove unreferenced data files with this prefix."""
        files = self._unreferenced(
            state, state.data_folder, _DATA_SUFFIXES, lambda name, _: name.startswith(prefix)
        )
        self._remove(path for path, _ in files)

    def _unreferenced(
        self, state: TableState, folder: str, suffixes: tuple[str, ...], is_suspect: IsSuspect
    ) -> list[tuple[Path, float]]:
        """Return suspects that no table refers to, and when each was written.

        The files are listed before the metadata is read, so that no commit comes in between.
        """
        paths = _list_files(folder, suffixes, is_suspect)
        if not paths:
            return []
        try:
            names = self._names_in_use(state)
        except (QueryError, ServerError, OSError, ValueError, KeyError) as error:
            log.warning("files of table %s are not swept: %s", state.title(), str(error)[:300])
            self.in_doubt = True
            return []
        return [(path, at) for path, at in paths if _base(path.name) not in names]

    def _names_in_use(self, state: TableState) -> set[str]:
        """Return the files of every table that may have files in the same folders."""
        names: set[str] = set()
        for pointer in self._pointers():
            other = self.tables.state(pointer)
            is_same = other.identity == state.identity
            if is_same or overlap(folders_of(state), folders_of(other)):
                names |= referenced_names(self.lake.read.reader, other)
        return names

    def _remove_staged(self, prefix: str) -> None:
        """Remove staged files with this prefix."""
        folder = self.warehouse.staging_folder()
        files = _list_files(folder, _DATA_SUFFIXES, lambda name, _: name.startswith(prefix))
        self._remove(path for path, _ in files)
        for copy in Path(local_path(folder) or "").glob(f"{prefix}*/"):  # see `spool_rows`
            self.report.files += [str(path) for path in copy.glob("**/*.parquet")]
            shutil.rmtree(copy, ignore_errors=True)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum
            self.report.files.append(str(path))

    def _without_branches(self, state: TableState, prefix: str) -> TableState:
        """Remove branches with this prefix, and return the table afterwards."""
        names = [name for name in state.references if name.startswith(prefix)]
        if not names:
            return state
        with self.lake.publisher.hold(state):  # else a statement of ours may be faster
            branches.remove_branches(self.warehouse, self.tables.current(state), names)
        self.report.branches += names
        return self.tables.current(state)

    def dropped_tables(self) -> None:
        """Remove the folders of dropped tables, and of tables whose creation failed."""
        folder = self.warehouse.lock.folder
        live = set() if folder is None else server_locks.live_servers(folder)
        for location, note in self.warehouse.dropped.all().items():
            if note.maker in live if note.maker else self.started - note.at < self.grace.dropped:
                continue
            try:
                self._remove_folder(note)
            except (QueryError, ServerError, OSError, ValueError, KeyError) as error:
                log.warning(
                    "the folder of dropped table %s is not removed: %s",
                    note.title,
                    str(error)[:300],
                )
                continue
            self.warehouse.dropped.withdraw(location)

    def _remove_folder(self, note: DroppedTable) -> None:
        states = [self.tables.state(pointer) for pointer in self._pointers()]
        exists = any(state.identity == note.identity for state in states)
        if exists or not is_below(note.folder, self.warehouse.folder):
            return
        others = [state for state in states if overlap([note.folder], folders_of(state))]
        dropped = self._last_state(note)
        if dropped is not None and dropped.properties.get("gc.enabled", "true").lower() == "false":
            return
        if not others:
            filesystem, path = self.lake.read.files.filesystem(note.folder)
            filesystem.delete_dir(path)
        elif dropped is not None and local_path(note.folder) is not None:
            names = referenced_names(self.lake.read.reader, dropped)
            for state in others:
                names -= referenced_names(self.lake.read.reader, state)
            suffixes = (*_DATA_SUFFIXES, *_METADATA_SUFFIXES)
            files = _list_files(note.folder, suffixes, lambda name, _: name in names)
            self._remove(path for path, _ in files)
        self.report.tables.append(note.title)

    def _last_state(self, note: DroppedTable) -> TableState | None:
        if not note.metadata:
            return None
        namespace, _, name = note.title.rpartition(".")
        pointer = MetadataPointer(namespace, name, note.metadata)
        try:
            return read_state(pointer, self.lake.read.files.read(note.metadata))
        except FileNotFoundError:
            return None


def _list_files(
    folder: str, suffixes: tuple[str, ...], is_suspect: IsSuspect
) -> list[tuple[Path, float]]:
    """Return the suspects below a local folder, and when each was written.

    A checksum of Hadoop counts as the file it belongs to.
    """
    root = local_path(folder)
    files = []
    for parent, _, names in os.walk(root or ""):
        for name in names:
            path = Path(parent, name)
            if _base(name).endswith(suffixes):
                try:
                    changed = path.stat().st_mtime
                except FileNotFoundError:
                    continue
                if is_suspect(_name_with_owner(path), changed):
                    files.append((path, changed))
    return files


def _name_with_owner(path: Path) -> str:
    """Return the name with the server in it: a folder of ours may hold files that Spark named."""
    folder = path.parent.name
    return folder if folder.startswith("jetbridge-") else _base(path.name)


def _base(name: str) -> str:
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return name[1 : -len(".crc")] if is_checksum else name


class Sweeper:
    """Sweep a lake: in the background every ten minutes and soon after trouble, or when called."""

    def __init__(self, lake: Lake, grace: Grace | None = None, period: float = PERIOD) -> None:
        self._lake, self._grace, self._period = lake, grace or Grace(), period
        # A second sweep at the same time would take what the first has locked for alive.
        self._sweeping = threading.Lock()
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="jetbridge-sweeper", daemon=True)

    def sweep(self, grace: Grace | None = None) -> SweepReport:
        """Remove what dead servers, failed jobs and dropped tables left behind."""
        with self._sweeping:
            return _sweep(self._lake, grace or self._grace)

    def start(self, grace: Grace | None = None) -> None:
        """Begin to sweep in the background; a second call does nothing."""
        if self._thread.ident is None:
            self._grace = grace or self._grace
            self._lake.warehouse.on_trouble = self.wake
            self._thread.start()

    def wake(self) -> None:
        """Sweep soon."""
        self._wake.set()

    def stop(self, seconds: float = 5.0) -> None:
        """End the background sweeps, and wait so long for one that runs."""
        self._ended.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.sweep()
            except Exception as error:
                # Without Spark, as when the server ends, a later sweep does it.
                level = logging.DEBUG if isinstance(error, Unavailable) else logging.WARNING
                log.log(level, "the sweep of lake %s failed: %s", self._lake.name, str(error)[:300])
                log.debug("because", exc_info=True)
            self._wake.wait(self._period)
            self._wake.clear()
