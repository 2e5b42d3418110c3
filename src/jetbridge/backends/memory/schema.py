"""Serves schemas in memory: current ones, with CREATE and DROP TABLE, and those of a snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from jetbridge.backends.memory.insert import inserting
from jetbridge.backends.memory.store import MemoryTableVersion, SchemaCell, Store, TableCell
from jetbridge.backends.memory.table import MemoryTable
from jetbridge.backends.tables.definition import define_table
from jetbridge.catalog import CreateTable, DMLOptions, OnConflict, SchemaInfo, Write, fold
from jetbridge.errors import AlreadyExists, NotFound

PinnedVersions = Mapping[str, tuple[TableCell, int]]  # by folded name


class MemorySnapshotSchema:
    """Hold the versions of all tables in one snapshot.

    Only version numbers are pinned, no rows: a version that is no longer kept raises Conflict.
    """

    def __init__(self, store: Store, info: SchemaInfo, versions: PinnedVersions) -> None:
        self._store, self._info, self._versions = store, info, versions

    def info(self) -> SchemaInfo:
        return self._info

    def list_tables(self) -> Sequence[MemoryTable]:
        return [
            self._table(cell, version)
            for _, (cell, version) in sorted(self._versions.items(), key=lambda item: item[0])
            if not cell.dropped
        ]

    def load_table(self, name: str) -> MemoryTable:
        pinned = self._versions.get(fold(name))
        if pinned is None:
            raise NotFound("table", f"{self._info.name}.{name}")
        return self._table(*pinned)

    def _table(self, cell: TableCell, version: int) -> MemoryTable:
        return MemoryTable(self._store, cell, self._store.state_at(cell, version))


class MemorySchema:
    """Hold the tables of one schema, as they are now."""

    def __init__(self, store: Store, cell: SchemaCell) -> None:
        self._store, self._cell = store, cell

    def info(self) -> SchemaInfo:
        return self._cell.info

    def list_tables(self) -> Sequence[MemoryTable]:
        with self._store.lock:
            tables = sorted(self._cell.tables.items())
            return [MemoryTable(self._store, cell, cell.state) for _, cell in tables]

    def load_table(self, name: str) -> MemoryTable:
        cell = self._cell.tables.get(fold(name))
        if cell is None:
            raise NotFound("table", f"{self._cell.info.name}.{name}")
        return MemoryTable(self._store, cell, cell.state)

    def create_table(self, request: CreateTable) -> MemoryTable:
        existing = self._cell.tables.get(fold(request.name))
        if existing is not None and request.on_conflict is OnConflict.IGNORE:
            return MemoryTable(self._store, existing, existing.state)
        try:
            self._publish(request, self._new_cell(request))
        except AlreadyExists:
            if request.on_conflict is not OnConflict.IGNORE:
                raise
        return self.load_table(request.name)

    @contextmanager
    def creating(self, request: CreateTable) -> Iterator[Write]:
        exists = fold(request.name) in self._cell.tables
        if exists and request.on_conflict is not OnConflict.REPLACE:
            raise AlreadyExists("table", f"{self._cell.info.name}.{request.name}")
        cell = self._new_cell(request)
        with inserting(self._store, cell, DMLOptions()) as write:
            yield write
        self._publish(request, cell)

    def _new_cell(self, request: CreateTable) -> TableCell:
        state = MemoryTableVersion(define_table(request), time=self._store.options.clock())
        return TableCell(self._cell.info.name, state)

    def _publish(self, request: CreateTable, cell: TableCell) -> None:
        schema = self._cell.info.name
        with self._store.changing():
            if self._cell.dropped:
                raise NotFound("schema", schema)
            existing = self._cell.tables.get(fold(request.name))
            if existing is not None and request.on_conflict is not OnConflict.REPLACE:
                raise AlreadyExists("table", f"{schema}.{request.name}")
            if existing is not None:
                existing.drop()
            self._cell.tables = {**self._cell.tables, fold(request.name): cell}
            self._store.version += 1

    def drop_table(self, name: str) -> None:
        with self._store.changing():
            tables = dict(self._cell.tables)
            cell = tables.pop(fold(name), None)
            if cell is None:
                raise NotFound("table", f"{self._cell.info.name}.{name}")
            cell.drop()
            self._cell.tables = tables
            self._store.version += 1
