"""UPDATE, DELETE and MERGE by row id: the rows are staged, then changed by one statement.

Row ids are primary keys, so a row that someone else has changed meanwhile is still the same row
and gets the new values; one that is gone raises Conflict.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.connection.pool import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl.create_table import declared
from jetbridge.backends.mssql.errors import naming
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds
from jetbridge.backends.mssql.types import (
    ServerColumn,
    is_loaded,
    is_read_as_text,
    takes_values,
)
from jetbridge.backends.mssql.write.driver_batches import BulkColumn, converted, loaded
from jetbridge.backends.mssql.write.spool import RowSpool, spooling
from jetbridge.backends.mssql.write.staged_load import stage_and_publish
from jetbridge.backends.mssql.write.temporary_table import answered, is_answered_as_text, staged
from jetbridge.backends.mssql.write.written_columns import WrittenColumns, writable
from jetbridge.backends.tables.column_mapping import ColumnMapping, update_mapping
from jetbridge.backends.tables.row_ids import SeenRowIds
from jetbridge.catalog import MERGE_ACTION, ROWID, DMLOptions, DMLResult, Merging, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import BadRequest, Conflict, NotSupported

_NUMBER = BulkColumn(load.NUMBER, "bigint")
_ACTION = BulkColumn(load.ACTION, "nvarchar(10)")


class _DistinctRowIds:
    """Row ids, each counted once; numbers take eight bytes each."""

    def __init__(self) -> None:
        self._numbers, self._texts = SeenRowIds(), set[str]()
        self.count = 0

    def add(self, ids: pa.Array) -> int:
        """How many are new."""
        if pa.types.is_integer(ids.type):
            new = self._numbers.new(ids.to_numpy(zero_copy_only=False))
        else:
            before = len(self._texts)
            self._texts.update(ids.to_pylist())
            new = len(self._texts) - before
        self.count += new
        return new


class _StagedRows:
    """Row ids that come, as keys; `seen` counts each once. `new`: NULL is that of a new row."""

    def __init__(
        self, table: TableDescription, ids: RowIds, spool: RowSpool, *, new: bool = False
    ) -> None:
        self.table, self.ids, self.spool, self._new = table, ids, spool, new
        self.seen = _DistinctRowIds()

    def key_columns(self) -> list[BulkColumn]:
        """They compare as the key itself does."""
        return [
            replace(each, name=load.key_name(index))
            for index, each in enumerate(loaded(self.ids.columns))
        ]

    def keys(self) -> list[tuple[str, str]]:
        """Their names, and the types of those that are staged in another one."""
        return [(each.name, "" if is_loaded(each) else declared(each)) for each in self.ids.columns]

    def add(self, ids: pa.Array, columns: Sequence[BulkColumn], values: Sequence[pa.Array]) -> int:
        """How many of them are new."""
        title = self.table.title()
        keys = _scattered(self.ids, ids, title) if self._new else self.ids.keys(ids, title)
        new = self.seen.add(ids.drop_null())
        first = self.spool.rows
        numbers = pa.array(range(first, first + len(ids)), pa.int64())
        everything = [*self.key_columns(), _NUMBER, *columns]
        if len(ids):
            self.spool.add(converted(everything, [*keys, numbers, *values], first))
        return new


def _scattered(row_ids: RowIds, ids: pa.Array, title: str) -> list[pa.Array]:
    """The keys, with NULL where there is no row id."""
    if not ids.null_count:
        return row_ids.keys(ids, title)
    found = row_ids.keys(ids.drop_null(), title)
    valid = ids.is_valid()
    places = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
    return [each.take(places) for each in found]


Change = Callable[[SqlConnection, str], int]


def _applied(
    database: Database, rows: _StagedRows, columns: Sequence[BulkColumn], change: Change
) -> None:
    """One transaction; a row that is not there any more undoes it."""
    everything = [*rows.key_columns(), _NUMBER, *columns]
    title, schema = rows.table.title(), rows.table.schema

    def publish(connection: SqlConnection, source: str) -> None:
        if change(connection, source) != rows.seen.count:
            raise _gone(rows.table)

    with naming(title):
        if rows.spool.rows:
            stage_and_publish(database, schema, title, everything, rows.spool, publish)


def counted(answer: Sequence[tuple[Any, ...]]) -> int:
    """How many rows a statement has touched; raises where a trigger answers first."""
    match answer:
        case [(int(rows),)]:
            return rows
    raise NotSupported(
        "a trigger of the table answers rows of its own, before it is told how many were changed; "
        "take the SELECT out of it"
    )


def _gone(table: TableDescription) -> Conflict:
    return Conflict(f"rows of {table.title()} were deleted by someone else meanwhile; run it again")


@contextmanager
def updating(
    database: Database, table: TableDescription, ids: RowIds, options: DMLOptions
) -> Iterator[Write]:
    database.table(table.schema, table.name)
    with spooling(database.options, database.settings) as spool:
        statement = _Update(table, ids, spool, options)
        yield statement.write
        changes = statement.changes()
        if changes:
            _applied(
                database,
                statement.rows,
                loaded(statement.columns()),
                lambda connection, source: statement.apply(connection, changes, source),
            )


def _updated(
    connection: SqlConnection, rows: _StagedRows, changes: Sequence[str], source: str
) -> int:
    target, keys = statements.path(rows.table.schema, rows.table.name), rows.keys()
    if rows.seen.count < rows.spool.rows:  # the last values for a row win
        connection.run(load.keep_last(len(keys), source))
    return counted(connection.run(load.update(target, changes, keys, source)))


def is_assignable(column: ServerColumn) -> bool:
    return takes_values(column) and not column.identity


def all_assigned(columns: Sequence[ServerColumn]) -> list[str]:
    """Values as they were seen come back among the new ones: what was not seen wholly is kept."""
    return [
        load.assigned(each.name, each.type)
        for each in columns
        if is_assignable(each) and not is_read_as_text(each)
    ]


def refuse_fixed(
    connection: SqlConnection, rows: "_StagedRows", columns: Sequence[ServerColumn], source: str
) -> None:
    """What `all_assigned` leaves out must be as it was."""
    fixed = [
        (each.name, load.BY_BYTES if is_read_as_text(each) else load.AS_IT_IS)
        for each in columns
        if each.identity or (is_assignable(each) and is_read_as_text(each))
    ]
    target = statements.path(rows.table.schema, rows.table.name)
    if fixed and connection.run(load.changed_fixed(target, fixed, rows.keys(), source)):
        listed = ", ".join(name for name, _ in fixed)
        raise BadRequest(
            f"{listed} of {rows.table.title()} cannot be set here: identity columns never change, "
            "and others of these types only by UPDATE without RETURNING"
        )


class _Update:
    def __init__(
        self, table: TableDescription, ids: RowIds, spool: RowSpool, options: DMLOptions
    ) -> None:
        self._table, self._options = table, options
        self._schema = table.info(None).schema
        self.rows = _StagedRows(table, ids, spool)
        self._mapping: ColumnMapping | None = None

    def columns(self) -> list[ServerColumn]:
        mapping = self._mapping
        if mapping is None:
            return []
        spelled = {each.name: each for each in self._table.columns}
        return [spelled[field.name] for field in mapping.targets]

    def changes(self) -> list[str]:
        """With RETURNING clients send all columns, and nobody knows which of them they set."""
        if self._options.returning:
            return all_assigned(self.columns())
        fixed = [each.name for each in self.columns() if not is_assignable(each)]
        if fixed:
            raise BadRequest(f"{self._table.title()}.{fixed[0]} is filled in by SQL Server itself")
        return [load.assigned(each.name) for each in self.columns()]

    def apply(self, connection: SqlConnection, changes: Sequence[str], source: str) -> int:
        if self._options.returning:
            refuse_fixed(connection, self.rows, self.columns(), source)
        return _updated(connection, self.rows, changes, source)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        mapping = update_mapping(batch.schema, self._schema, self._table.title())
        if self._mapping is not None and mapping.targets != self._mapping.targets:
            raise BadRequest("all batches of one UPDATE must set the same columns, in one order")
        self._mapping = mapping
        ids = batch.column(mapping.rowid)
        values = mapping.columns(batch, self.rows.spool.rows)
        changed = self.rows.add(ids, loaded(self.columns()), values)
        answer = _answer(mapping, ids, values) if self._options.returning else None
        return DMLResult(changed, answer)


def _answer(mapping: ColumnMapping, ids: pa.Array, values: Sequence[pa.Array]) -> pa.RecordBatch:
    """What was sent, in the order it was sent, with the types of the table."""
    fields, columns = list(mapping.targets), list(values)
    fields.insert(mapping.rowid, pa.field(ROWID, ids.type, nullable=False))
    columns.insert(mapping.rowid, ids)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextmanager
def deleting(
    database: Database, table: TableDescription, ids: RowIds, options: DMLOptions
) -> Iterator[Write]:
    database.table(table.schema, table.name)
    with spooling(database.options, database.settings) as spool:
        rows = _StagedRows(table, ids, spool)

        def write(batch: pa.RecordBatch) -> DMLResult:
            if [fold(name) for name in batch.schema.names] != [ROWID]:
                raise BadRequest(f"DELETE of {table.title()!r} takes one column, 'rowid'")
            found = _found(database, rows, batch.column(0)) if options.returning else None
            return DMLResult(rows.add(batch.column(0), [], []), found)

        yield write
        _applied(database, rows, [], lambda c, source: _deleted(c, rows, source))


def _deleted(connection: SqlConnection, rows: _StagedRows, source: str) -> int:
    target = statements.path(rows.table.schema, rows.table.name)
    return counted(connection.run(load.delete(target, rows.keys(), source)))


def _found(database: Database, rows: _StagedRows, ids: pa.Array) -> pa.RecordBatch:
    """The rows as they are, in the order of their ids."""
    table = rows.table
    fields = [*table.info(None).schema, pa.field(ROWID, rows.ids.type, nullable=False)]
    columns = [*rows.key_columns(), _NUMBER]
    numbers = pa.array(range(len(ids)), pa.int64())
    batch = converted(columns, [*rows.ids.keys(ids, table.title()), numbers], 0)
    items = [load.item_of(each.name, as_text=is_answered_as_text(each)) for each in table.columns]
    target = statements.path(table.schema, table.name)
    with (
        naming(table.title()),
        database.server.loading() as connection,
        connection.transaction(),
        staged(database.server, connection, columns, lambda: [batch], len(ids)) as source,
    ):
        told = connection.run(load.found(target, items, rows.keys(), source))
    if len(told) != len(ids):
        raise _gone(table)
    return pa.RecordBatch.from_arrays([*answered(told, fields[:-1]), ids], schema=pa.schema(fields))


@contextmanager
def merging(database: Database, table: TableDescription, ids: RowIds) -> Iterator[Write]:
    database.table(table.schema, table.name)
    with spooling(database.options, database.settings) as spool:
        statement = _Merge(table, ids, spool)
        yield statement.write
        statement.commit(database)


class _Merge:
    def __init__(self, table: TableDescription, ids: RowIds, spool: RowSpool) -> None:
        self._table = table
        self._columns = writable(table)
        self._schema = table.info(None).schema
        self._rows = _StagedRows(table, ids, spool, new=True)
        self._given = WrittenColumns(table)
        self._new = 0

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        by_name = {fold(name): batch.column(i) for i, name in enumerate(batch.schema.names)}
        actions, ids = by_name[MERGE_ACTION], by_name[ROWID]
        sent = batch.drop_columns([n for n in batch.schema.names if fold(n) == MERGE_ACTION])
        mapping = update_mapping(sent.schema, self._schema, self._table.title())
        found = dict(
            zip(
                [field.name for field in mapping.targets],
                mapping.columns(sent, self._rows.spool.rows),
                strict=True,
            )
        )
        values = [found[each.name] for each in self._columns]
        new = pc.equal(actions, Merging.INSERT.value)
        self._given.look(self._columns, [array.filter(new) for array in values])
        known = len(ids) - ids.null_count
        if self._rows.add(ids, [*loaded(self._columns), _ACTION], [*values, actions]) < known:
            raise BadRequest(f"several rows of the source change one row of {self._table.title()}")
        self._new += len(ids) - known
        return DMLResult(batch.num_rows)

    def commit(self, database: Database) -> None:
        columns = loaded(self._columns)
        target = statements.path(self._table.schema, self._table.name)
        updated = all_assigned(self._columns)
        inserted = [each.name for each in self._given.columns()]
        identity = self._new > 0 and self._given.identity()
        apart = database.server.is_babelfish()

        def change(connection: SqlConnection, source: str) -> int:
            refuse_fixed(connection, self._rows, self._columns, source)
            if identity:
                connection.run(load.identity_insert(target, on=True))
            told = target, self._rows.keys(), updated, inserted, source
            texts = load.merge_apart(*told) if apart else [load.merge(*told)]
            done = sum(counted(connection.run(sql)) for sql in texts)
            if identity:
                connection.run(load.identity_insert(target, on=False))
            return done - self._new

        _applied(database, self._rows, [*columns, _ACTION], change)
