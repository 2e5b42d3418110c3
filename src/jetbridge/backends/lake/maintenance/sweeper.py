"""Clears up after crashes: files that no table refers to, and whose writer is dead.

Whatever a statement writes bears the name of its server, so what a dead server has left behind is
known at once. Files that Spark wrote have names of its own; they are looked for where a job ended
badly or lost a task, and only after a grace time. What anyone refers to is never touched, nor what
a living server writes, nor what cannot be judged: a table whose metadata cannot be read keeps all
its files.
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
from jetbridge.backends.lake.maintenance.references import is_below, overlap, referenced
from jetbridge.backends.lake.metadata.metadata_file import parsed
from jetbridge.backends.lake.metadata.pointers import SPOOL, MetadataPointer
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.write import branches, server_locks
from jetbridge.backends.lake.write.dropped_tables import DroppedTable
from jetbridge.backends.lake.write.server_locks import DeadServer, WriteJob
from jetbridge.duckdb_engine.lake_reader import QueryError
from jetbridge.errors import ServerError, Unavailable

log = logging.getLogger(__name__)

PERIOD = 600.0
# File times and clocks agree to so many seconds.
_SLACK = 5.0
_DATA = (".parquet", ".puffin", ".orc", ".avro")
_TABLE = ".metadata.json"
_METADATA = (".avro", _TABLE)
_OUTDATED_GO = "write.metadata.delete-after-commit.enabled"


@dataclass(frozen=True)
class Grace:
    """Seconds: the age of files without a server's name, and how long a dropped table stays."""

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


def sweep(lake: Lake, grace: Grace | None = None) -> SweepReport:
    """Removes what dead servers, failed jobs and dropped tables have left behind."""
    with lake.sweeping:
        return _swept(lake, _Sweep(lake, grace or Grace()))


def _swept(lake: Lake, work: "_Sweep") -> SweepReport:
    work.dropped()
    work.spools(lake.options.server)
    folder = lake.presence.folder
    if folder is None:
        log.debug("no sweep of %s: an object store has no locks", lake.options.warehouse)
        return work.swept
    for name in server_locks.names_of_others(folder, lake.options.server):
        with server_locks.dead(folder, name) as server:
            if server is not None and work.server(server):
                server_locks.forget(folder, name)
                work.swept.servers.append(name)
    for note, job in lake.presence.failed().items():
        if work.failed(job):
            note.unlink(missing_ok=True)
    if work.swept:
        log.info("swept %s", work.swept)
    return work.swept


# Whether a file may go, by its name and the second it was last written.
Suspect = Callable[[str, float], bool]


class _Sweep:
    def __init__(self, lake: Lake, grace: Grace) -> None:
        self.lake, self.grace, self.swept = lake, grace, SweepReport()
        self.now, self.in_doubt = time.time(), False

    def _pointers(self) -> Iterable[MetadataPointer]:
        return self.lake.pointers.listing().tables.values()

    def _tables(self) -> Iterator[TableState]:
        """All that can be read."""
        for pointer in self._pointers():
            state = self._state(pointer)
            if state is not None:
                yield state

    def _state(self, pointer: MetadataPointer) -> TableState | None:
        try:
            return self.lake.state(pointer)
        except (ServerError, OSError, ValueError) as error:
            log.warning("%s.%s is not swept: %s", pointer.namespace, pointer.name, error)
            self.in_doubt = True
            return None

    def server(self, server: DeadServer) -> bool:
        """Whether nothing of it is left."""
        prefix, branch = f"jetbridge-{server.name}-", branches.prefix(server.name)
        done, self.in_doubt = self.now - server.seen >= self.grace.files, False
        for found in list(self._tables()):
            state = self._without_branches(found, branch)
            self._named(state, prefix)
            for job in server.jobs.values():
                if job.identity == state.identity:
                    done = self._job(state, job, server.name) and done
            whole_life = WriteJob(state.identity, state.title(), server.started)
            done = self._metadata(state, whole_life) and done
        self._staging(prefix)
        self.spools(server.name)
        return done and not self.in_doubt

    def spools(self, server: str) -> None:
        """Those that a server has left behind."""
        for namespace, name in self.lake.pointers.listing().spools:
            if name.startswith(f"{SPOOL}{server}_") and name not in self.lake.spools:
                self.lake.commits.drop(namespace, name)
                self.swept.tables.append(f"{namespace}.{name}")

    def failed(self, job: WriteJob) -> bool:
        """A job of this server, which lives: Spark may have died beneath it."""
        for found in self._tables():
            if found.identity == job.identity:
                with self.lake.writing(found):  # so no other job of ours is on this table
                    ours = branches.prefix(self.lake.options.server)
                    state = self._without_branches(self.lake.current(found), ours)
                    done = self._metadata(state, job)
                    return self._job(state, job) and done
        return True

    def _job(self, state: TableState, job: WriteJob, dead_one: str = "") -> bool:
        """Whether its files are gone: those that Spark named."""
        folder = self.lake.presence.folder
        if folder is not None and any(
            other.identity == state.identity for other in server_locks.live_jobs(folder, dead_one)
        ):
            return False
        place, living = self.lake.data_folder(state), self._prefixes(dead_one)
        return self._between(state, place, _DATA, job, living)

    def _prefixes(self, dead_one: str) -> tuple[str, ...]:
        """How files begin that living servers may still make part of a table."""
        folder = self.lake.presence.folder
        live = set() if folder is None else server_locks.live_servers(folder) - {dead_one}
        return tuple(f"jetbridge-{name}-" for name in live)

    def _metadata(self, state: TableState, job: WriteJob) -> bool:
        """The same for manifests and metadata files of commits that were not made."""
        return self._between(state, f"{state.folder}/metadata", _METADATA, job)

    def _between(
        self,
        state: TableState,
        folder: str,
        endings: tuple[str, ...],
        job: WriteJob,
        living: tuple[str, ...] = (),
    ) -> bool:
        """Removes files of the job's time; False if some are too young yet."""
        last = self.now if job.ended is None else job.ended + _SLACK
        # A commit removes old metadata files once it is made: some, if it dies at that moment.
        outdated = (_TABLE,) if state.properties.get(_OUTDATED_GO) == "true" else ()

        def suspect(name: str, changed: float) -> bool:
            if name.startswith(living) and name not in job.files:
                return False
            return changed <= last and (changed >= job.started - _SLACK or name.endswith(outdated))

        suspects = self._unreferenced(state, folder, endings, suspect)
        limit = self.now - self.grace.files
        old = [path for path, changed in suspects if changed <= limit]
        self._remove(old)
        return len(old) == len(suspects)

    def _named(self, state: TableState, prefix: str) -> None:
        folder = self.lake.data_folder(state)
        found = self._unreferenced(state, folder, _DATA, lambda name, _: name.startswith(prefix))
        self._remove(path for path, _ in found)

    def _unreferenced(
        self, state: TableState, folder: str, endings: tuple[str, ...], suspect: Suspect
    ) -> list[tuple[Path, float]]:
        """The files are listed before the metadata are read: none can be added between the two."""
        paths = _files(folder, endings, suspect)
        if not paths:
            return []
        try:
            names = self._names_in_use(state)
        except (QueryError, ServerError, OSError, ValueError, KeyError) as error:
            log.warning("files of %s are not swept: %s", state.title(), str(error)[:300])
            self.in_doubt = True
            return []
        return [(path, at) for path, at in paths if _base(path.name) not in names]

    def _names_in_use(self, state: TableState) -> set[str]:
        """Those of every table that may have files in the same folders, as it is now."""
        mine = self._folders(state)
        names: set[str] = set()
        for pointer in self._pointers():
            other = self.lake.state(pointer)
            if other.identity == state.identity or overlap(mine, self._folders(other)):
                names |= referenced(self.lake.reader, other)
        return names

    def _folders(self, state: TableState) -> list[str]:
        return [state.folder, self.lake.data_folder(state)]

    def _staging(self, prefix: str) -> None:
        folder = self.lake.staging_folder()
        found = _files(folder, _DATA, lambda name, _: name.startswith(prefix))
        self._remove(path for path, _ in found)
        for copy in Path(local_path(folder) or "").glob(f"{prefix}*/"):  # see `elsewhere`
            self.swept.files += [str(path) for path in copy.glob("**/*.parquet")]
            shutil.rmtree(copy, ignore_errors=True)

    def _remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum
            self.swept.files.append(str(path))

    def _without_branches(self, state: TableState, prefix: str) -> TableState:
        names = [name for name in state.raw.get("refs") or {} if name.startswith(prefix)]
        if not names:
            return state
        with self.lake.writing(state):  # else a statement of ours is faster, and this one stale
            branches.remove(self.lake, self.lake.current(state), names)
        self.swept.branches += names
        return self.lake.current(state)

    def dropped(self) -> None:
        """Folders of tables that nobody has any more."""
        folder = self.lake.presence.folder
        live = set() if folder is None else server_locks.live_servers(folder)
        for location, note in self.lake.dropped.all().items():
            if note.maker in live if note.maker else self.now - note.at < self.grace.dropped:
                continue
            try:
                self._drop(note)
            except (QueryError, ServerError, OSError, ValueError, KeyError) as error:
                log.warning("the folder of %s stays: %s", note.title, str(error)[:300])
                continue
            self.lake.dropped.withdraw(location)

    def _drop(self, note: DroppedTable) -> None:
        states = [self.lake.state(each) for each in self._pointers()]
        there = any(state.identity == note.identity for state in states)
        if there or not is_below(note.folder, self.lake.options.warehouse):
            return
        others = [state for state in states if overlap([note.folder], self._folders(state))]
        gone = self._last_state(note)
        if gone is not None and gone.properties.get("gc.enabled", "true").lower() == "false":
            return
        if not others:
            filesystem, path = self.lake.files.filesystem(note.folder)
            filesystem.delete_dir(path)
        elif gone is not None and local_path(note.folder) is not None:
            names = referenced(self.lake.reader, gone)
            for state in others:
                names -= referenced(self.lake.reader, state)
            endings = (*_DATA, *_METADATA)
            found = _files(note.folder, endings, lambda name, _: name in names)
            self._remove(path for path, _ in found)
        self.swept.tables.append(note.title)

    def _last_state(self, note: DroppedTable) -> TableState | None:
        if not note.metadata:
            return None
        namespace, _, name = note.title.rpartition(".")
        pointer = MetadataPointer(namespace, name, note.metadata)
        try:
            return parsed(pointer, self.lake.files.read(note.metadata))
        except FileNotFoundError:
            return None


def _files(folder: str, endings: tuple[str, ...], suspect: Suspect) -> list[tuple[Path, float]]:
    """Files below a local folder, and when each was written.

    A checksum of Hadoop counts as the file it belongs to.
    """
    root = local_path(folder)
    found = []
    for parent, _, names in os.walk(root or ""):
        for name in names:
            path = Path(parent, name)
            if _base(name).endswith(endings):
                try:
                    changed = path.stat().st_mtime
                except FileNotFoundError:
                    continue
                if suspect(_owned(path), changed):
                    found.append((path, changed))
    return found


def _owned(path: Path) -> str:
    """The name that tells whose file it is: a folder of ours may hold files that Spark named."""
    folder = path.parent.name
    return folder if folder.startswith("jetbridge-") else _base(path.name)


def _base(name: str) -> str:
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return name[1 : -len(".crc")] if is_checksum else name


class Sweeper:
    """Sweeps in the background: at the start, every ten minutes, and soon after trouble."""

    def __init__(self, lake: Lake, grace: Grace | None = None, period: float = PERIOD) -> None:
        self._lake, self._grace, self._period = lake, grace or Grace(), period
        self._wake, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="jetbridge-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def soon(self) -> None:
        self._wake.set()

    def stop(self, seconds: float = 5.0) -> None:
        """Waits so long for a sweep that is under way."""
        self._ended.set()
        self._wake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                sweep(self._lake, self._grace)
            except Exception as error:
                # Without Spark, as at the end of the server, there is another time.
                level = logging.DEBUG if isinstance(error, Unavailable) else logging.WARNING
                log.log(level, "the sweep of %s failed: %s", self._lake.name, str(error)[:300])
                log.debug("because", exc_info=True)
            self._wake.wait(self._period)
            self._wake.clear()
