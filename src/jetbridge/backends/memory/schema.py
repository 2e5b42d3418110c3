"""Schemas: live ones, which take CREATE and DROP TABLE, and those of a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jetbridge.backends.memory.define import new_state
from jetbridge.backends.memory.state import SchemaCell, Store, TableCell, TableState
from jetbridge.backends.memory.table import MemoryTable
from jetbridge.catalog import CreateTable, OnConflict, SchemaInfo
from jetbridge.errors import AlreadyExists, NotFound

States = Mapping[str, tuple[TableCell, TableState]]


class SnapshotSchema:
    """The tables of one moment."""

    def __init__(self, store: Store, info: SchemaInfo, states: States) -> None:
        self._store, self._info, self._states = store, info, states

    def info(self) -> SchemaInfo:
        return self._info

    def list_tables(self) -> Sequence[MemoryTable]:
        return [MemoryTable(self._store, *self._states[name]) for name in sorted(self._states)]

    def load_table(self, name: str) -> MemoryTable:
        found = self._states.get(name.lower())
        if found is None:
            raise NotFound("table", f"{self._info.name}.{name}")
        return MemoryTable(self._store, *found)


class MemorySchema:
    def __init__(self, store: Store, cell: SchemaCell) -> None:
        self._store, self._cell = store, cell

    def info(self) -> SchemaInfo:
        return self._cell.info

    def list_tables(self) -> Sequence[MemoryTable]:
        with self._store.lock:
            tables = sorted(self._cell.tables.items())
            return [MemoryTable(self._store, cell, cell.state) for _, cell in tables]

    def load_table(self, name: str) -> MemoryTable:
        cell = self._cell.tables.get(name.lower())
        if cell is None:
            raise NotFound("table", f"{self._cell.info.name}.{name}")
        return MemoryTable(self._store, cell, cell.state)

    def create_table(self, request: CreateTable) -> MemoryTable:
        schema = self._cell.info.name
        there = self._cell.tables.get(request.name.lower())
        if there is not None and request.on_conflict is OnConflict.IGNORE:
            return MemoryTable(self._store, there, there.state)
        state = replace(new_state(request), time=self._store.options.clock())
        cell = TableCell(schema, state)
        with self._store.lock:
            if self._cell.dropped:
                raise NotFound("schema", schema)
            there = self._cell.tables.get(request.name.lower())
            if there is not None and request.on_conflict is OnConflict.IGNORE:
                return MemoryTable(self._store, there, there.state)
            if there is not None and request.on_conflict is OnConflict.ERROR:
                raise AlreadyExists("table", f"{schema}.{request.name}")
            if there is not None:
                there.dropped = True
            self._cell.tables = {**self._cell.tables, request.name.lower(): cell}
            self._store.version += 1
        return MemoryTable(self._store, cell, state)

    def drop_table(self, name: str) -> None:
        with self._store.lock:
            tables = dict(self._cell.tables)
            cell = tables.pop(name.lower(), None)
            if cell is None:
                raise NotFound("table", f"{self._cell.info.name}.{name}")
            cell.dropped = True
            self._cell.tables = tables
            self._store.version += 1
