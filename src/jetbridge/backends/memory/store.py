"""Versions of a table, and the one lock under which they are replaced.

    Store ── SchemaCell ── TableCell ── TableState (current), TableState (history) ...

Cells change, under the lock of the store; states never do. Whoever holds a state may read it for
as long as he likes without a lock.
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
from jetbridge.runtime.cancellation import current

Clock = Callable[[], datetime]

# A version without its rows, and each entry in its list of segments.
_VERSION_BYTES, _SEGMENT_BYTES = 1024, 8
# So that not every statement has to look for what to forget.
_KEPT_WHEN_FULL = 0.9


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class MemoryOptions:
    keep_versions: int
    history_bytes: int
    total_history_bytes: int
    spill_bytes: int
    staged_bytes: int
    clock: Clock


@dataclass(frozen=True, eq=False)
class MemoryTableVersion:
    """A table at one version.

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
        return sum(segment.live for segment in self.segments)


class TableCell:
    """One table from CREATE to DROP, whatever it is called and looks like meanwhile."""

    def __init__(self, schema_name: str, state: MemoryTableVersion) -> None:
        self.schema_name = schema_name
        self.state = state
        self.history: list[MemoryTableVersion] = [state]
        self.held = 0  # in bytes, by versions before the current one
        self.dropped = False
        self._next_rowid = 0
        self._rowid_lock = threading.Lock()

    def allocate(self, rows: int) -> int:
        """The first of `rows` new row ids; they are never given again, used or not."""
        with self._rowid_lock:
            first = self._next_rowid
            self._next_rowid += rows
        return first

    def next_rowid(self) -> int:
        return self._next_rowid

    def name(self) -> str:
        return f"{self.schema_name}.{self.state.definition.name}"

    def drop(self) -> None:
        """Snapshots of open transactions may hold the cell for long, but not its rows."""
        self.dropped = True
        self.state = replace(self.state, segments=())
        self.history = [self.state]
        self.held = 0

    def remember(self, state: MemoryTableVersion, options: MemoryOptions) -> None:
        self.state = state
        self.history.append(state)
        self.held += _held(self.history, -2)
        most = max(1, options.keep_versions)
        while len(self.history) > most or self._holds_too_much(options):
            self.forget_oldest()

    def forget_oldest(self) -> int:
        """The bytes that this frees; the current version stays."""
        freed = _held(self.history, 0)
        self.held -= freed
        del self.history[0]
        return freed

    def _holds_too_much(self, options: MemoryOptions) -> bool:
        return len(self.history) > 1 and self.held > options.history_bytes


def _held(history: Sequence[MemoryTableVersion], index: int) -> int:
    """What only this version still needs: it is in the cost of the one after it."""
    return history[index + 1].cost + _VERSION_BYTES + _SEGMENT_BYTES * len(history[index].segments)


class SchemaCell:
    def __init__(self, info: SchemaInfo) -> None:
        self.info = info
        self.tables: dict[str, TableCell] = {}
        self.dropped = False


class Store:
    def __init__(self, options: MemoryOptions) -> None:
        self.options = options
        self.lock = threading.RLock()
        self.schemas: dict[str, SchemaCell] = {}
        self.version = 1
        # Of all tables, or more: those that are dropped are not counted off at once.
        self._held = 0

    def publish(
        self,
        cell: TableCell,
        change: Callable[[MemoryTableVersion], MemoryTableVersion],
        *,
        ddl: bool = False,
    ) -> MemoryTableVersion:
        """Replaces the state of a table by `change(state)`; if that raises, nothing happened.

        The change is worked out without the lock, and again if someone else was faster; a
        statement that keeps losing works with the lock held.
        """
        for _ in range(3):
            before = cell.state
            after = change(before)
            with self.changing():
                if cell.state is before:
                    return self._replace(cell, before, after, ddl)
        with current().holding(self.lock):
            before = cell.state
            after = change(before)
            with self.changing():
                return self._replace(cell, before, after, ddl)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """With the lock held, for what is seen at once; refused once the call was cancelled."""
        with current().holding(self.lock), current().publishing():
            yield

    def _replace(
        self, cell: TableCell, before: MemoryTableVersion, after: MemoryTableVersion, ddl: bool
    ) -> MemoryTableVersion:
        if cell.dropped:
            raise Conflict(f"table {cell.name()!r} was dropped while the statement ran")
        if after is before:
            return before
        if after.definition.name != before.definition.name:
            self._move(cell, before.definition.name, after.definition.name)
        held = cell.held
        cell.remember(after, self.options)
        self._held += cell.held - held
        if self._held > self.options.total_history_bytes:
            self._forget()
        self.version += ddl
        return after

    def _forget(self) -> None:
        """The versions of all tables that were replaced first, and some more than is needed."""
        cells = [cell for schema in self.schemas.values() for cell in schema.tables.values()]
        self._held = sum(cell.held for cell in cells)
        if self._held <= self.options.total_history_bytes:
            return
        enough = self.options.total_history_bytes * _KEPT_WHEN_FULL
        replaced = [(after.time, cell) for cell in cells for after in cell.history[1:]]
        for _, cell in sorted(replaced, key=itemgetter(0)):
            if self._held <= enough:
                return
            self._held -= cell.forget_oldest()

    def _move(self, cell: TableCell, before: str, after: str) -> None:
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
        """A version that a transaction has pinned, if it is still kept."""
        with self.lock:
            if cell.dropped:
                raise NotFound("table", cell.name(), "it was dropped")
            index = version - cell.history[0].version
            if index < 0:
                raise Conflict(
                    f"version {version} of table {cell.name()!r}, which this transaction reads, "
                    "is no longer kept; begin again"
                )
            return cell.history[index]

    def now(self, before: MemoryTableVersion) -> datetime:
        """The time of the next version; never earlier than the version before."""
        return max(self.options.clock(), before.time)
