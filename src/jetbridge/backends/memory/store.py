"""Holds the versions of all tables, and the lock under which they are replaced.

    Store ── SchemaCell ── TableCell ── MemoryTableVersion (current), MemoryTableVersion (old) ...

Cells change, under the lock of the store. Versions never change: you may read one for as long as
you like without a lock.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import itemgetter
from uuid import uuid4

import pyarrow as pa

from jetbridge.backends.memory.chunks import Chunk, Segment
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import SchemaInfo, TableInfo, fold
from jetbridge.errors import AlreadyExists, Conflict, NotFound
from jetbridge.runtime import cancellation

Clock = Callable[[], datetime]

# Estimated size of a version without its rows, and of each entry in its list of segments.
_VERSION_BYTES, _SEGMENT_BYTES = 1024, 8
# A full history shrinks to this fraction, so that not every statement must shrink it.
_FRACTION_WHEN_FULL = 0.9
# A statement that loses this often to others computes its change with the lock held.
_TRIES_WITHOUT_LOCK = 3


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class MemoryOptions:
    """Hold the options of a catalog, as `MemoryCatalog` documents them."""

    keep_versions: int
    history_bytes: int
    total_history_bytes: int
    spill_bytes: int
    staged_bytes: int
    clock: Clock


@dataclass(frozen=True, eq=False)
class MemoryTableVersion:
    """Hold a table at one version.

    `cost` estimates the bytes that only the version before still needs; `identity` lasts from
    CREATE to DROP.
    """

    definition: Definition
    segments: tuple[Segment, ...] = ()
    version: int = 0
    time: datetime = field(default_factory=utc_now)
    cost: int = 0
    identity: str = field(default_factory=lambda: uuid4().hex)

    @property
    def schema(self) -> pa.Schema:
        return self.definition.schema

    def info(self) -> TableInfo:
        return TableInfo(
            name=self.definition.name,
            schema=self.definition.schema,
            comment=self.definition.comment,
            row_id=pa.int64(),
            version=self.version,
            identity=self.identity,
            checks=self.definition.checks,
            keys=self.definition.keys,
        )

    def chunks(self) -> list[Chunk]:
        return [chunk for segment in self.segments for chunk in segment.chunks()]

    def count(self) -> int:
        """Return the number of live rows."""
        return sum(segment.live_rows for segment in self.segments)


class TableCell:
    """Hold one table from CREATE to DROP, across renames and ALTER TABLE."""

    def __init__(self, schema_name: str, state: MemoryTableVersion) -> None:
        self.schema_name = schema_name
        self.state = state
        self.history: list[MemoryTableVersion] = [state]
        self.history_bytes = 0  # of versions before the current one
        self.dropped = False
        self._next_rowid = 0
        self._rowid_lock = threading.Lock()

    def allocate(self, rows: int) -> int:
        """Return the first of `rows` new row ids; no row id is used twice."""
        with self._rowid_lock:
            first = self._next_rowid
            self._next_rowid += rows
        return first

    def next_rowid(self) -> int:
        return self._next_rowid

    def name(self) -> str:
        return f"{self.schema_name}.{self.state.definition.name}"

    def drop(self) -> None:
        """Drop the table; snapshots of open transactions may hold the cell, but not its rows."""
        self.dropped = True
        self.state = replace(self.state, segments=())
        self.history = [self.state]
        self.history_bytes = 0

    def append(self, state: MemoryTableVersion, options: MemoryOptions) -> None:
        """Make a version the current one, and drop old versions above the limits of a table."""
        self.state = state
        self.history.append(state)
        self.history_bytes += _version_bytes(self.history, -2)
        most = max(1, options.keep_versions)
        while len(self.history) > most or self._exceeds(options.history_bytes):
            self.drop_oldest()

    def drop_oldest(self) -> int:
        """Drop the oldest version and return the bytes that this frees."""
        freed = _version_bytes(self.history, 0)
        self.history_bytes -= freed
        del self.history[0]
        return freed

    def _exceeds(self, limit: int) -> bool:
        return len(self.history) > 1 and self.history_bytes > limit


def _version_bytes(history: Sequence[MemoryTableVersion], index: int) -> int:
    """Return what only this version still needs, which the version after it has estimated."""
    return history[index + 1].cost + _VERSION_BYTES + _SEGMENT_BYTES * len(history[index].segments)


class SchemaCell:
    """Hold one schema from CREATE to DROP, and its tables by folded name."""

    def __init__(self, info: SchemaInfo) -> None:
        self.info = info
        self.tables: dict[str, TableCell] = {}
        self.dropped = False


class Store:
    """Hold all schemas of a catalog, and the lock for changes of them."""

    def __init__(self, options: MemoryOptions) -> None:
        self.options = options
        self.lock = threading.RLock()
        self.schemas: dict[str, SchemaCell] = {}
        self.version = 1
        # An upper bound: the history of a dropped table is subtracted later.
        self._history_bytes = 0

    def publish(
        self,
        cell: TableCell,
        change: Callable[[MemoryTableVersion], MemoryTableVersion],
        *,
        ddl: bool = False,
    ) -> MemoryTableVersion:
        """Replace the current version of a table by `change(version)`; if that raises, do nothing.

        The change is computed without the lock, and again if another statement was faster. A
        statement that loses repeatedly computes it with the lock held.
        """
        for _ in range(_TRIES_WITHOUT_LOCK):
            before = cell.state
            after = change(before)
            with self.changing():
                if cell.state is before:
                    return self._replace(cell, before, after, ddl)
        with cancellation.current().holding(self.lock):
            before = cell.state
            after = change(before)
            with self.changing():
                return self._replace(cell, before, after, ddl)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock to publish a change; raise if the statement is cancelled."""
        with cancellation.current().holding(self.lock), cancellation.current().publishing():
            yield

    def _replace(
        self, cell: TableCell, before: MemoryTableVersion, after: MemoryTableVersion, ddl: bool
    ) -> MemoryTableVersion:
        if cell.dropped:
            raise Conflict(f"table {cell.name()!r} was dropped while the statement ran")
        if after is before:
            return before
        if after.definition.name != before.definition.name:
            self._rename(cell, before.definition.name, after.definition.name)
        history_bytes = cell.history_bytes
        cell.append(after, self.options)
        self._history_bytes += cell.history_bytes - history_bytes
        if self._history_bytes > self.options.total_history_bytes:
            self._drop_old_versions()
        self.version += ddl
        return after

    def _drop_old_versions(self) -> None:
        """Drop the versions of all tables that were replaced first, below the limit."""
        cells = [cell for schema in self.schemas.values() for cell in schema.tables.values()]
        self._history_bytes = sum(cell.history_bytes for cell in cells)
        if self._history_bytes <= self.options.total_history_bytes:
            return
        target = self.options.total_history_bytes * _FRACTION_WHEN_FULL
        replaced = [(after.time, cell) for cell in cells for after in cell.history[1:]]
        for _, cell in sorted(replaced, key=itemgetter(0)):
            if self._history_bytes <= target:
                return
            self._history_bytes -= cell.drop_oldest()

    def _rename(self, cell: TableCell, before: str, after: str) -> None:
        schema = self.schemas.get(fold(cell.schema_name))
        if schema is None:
            raise NotFound("schema", cell.schema_name)
        tables = dict(schema.tables)
        if tables.get(fold(after), cell) is not cell:
            raise AlreadyExists("table", f"{cell.schema_name}.{after}")
        del tables[fold(before)]
        tables[fold(after)] = cell
        schema.tables = tables

    def state_at(self, cell: TableCell, version: int) -> MemoryTableVersion:
        """Return a version that a transaction has pinned; raise Conflict if it is not kept."""
        with self.lock:
            if cell.dropped:
                raise NotFound("table", cell.name(), "it was dropped")
            index = version - cell.history[0].version
            if index < 0:
                raise Conflict(
                    f"version {version} of table {cell.name()!r}, which this transaction reads, "
                    "is no longer kept; start a new transaction"
                )
            return cell.history[index]

    def next_time(self, before: MemoryTableVersion) -> datetime:
        """Return the time of the next version; never earlier than the version before."""
        return max(self.options.clock(), before.time)
