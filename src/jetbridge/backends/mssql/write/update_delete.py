"""Runs UPDATE, DELETE and MERGE by row id: stages the rows, then changes them by one statement.

Row ids are primary keys. A row that another statement of this process has changed in the meantime
raises Conflict, and so does a row that was deleted. A row that another session has changed gets the
new values.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.mssql.connection.sql_connection import SqlConnection
from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.errors import name_errors
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.metadata.row_ids import RowIds
from jetbridge.backends.mssql.types import (
    ServerColumn,
    declared_type,
    is_answered_as_text,
    is_loadable,
    is_read_as_text,
    takes_values,
)
from jetbridge.backends.mssql.write.driver_batches import (
    BulkColumn,
    WrittenColumns,
    bulk_columns,
    convert_batch,
    rows_to_arrays,
    writable_columns,
)
from jetbridge.backends.mssql.write.spool import RowSpool, open_spool
from jetbridge.backends.mssql.write.staged_load import stage_and_publish, stage_rows
from jetbridge.backends.tables.column_mapping import ColumnMapping, map_update_columns
from jetbridge.backends.tables.updates import Integers, RowIdSet
from jetbridge.catalog import MERGE_ACTION, ROWID, DMLOptions, DMLResult, Merging, Write
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import load, statements
from jetbridge.errors import BadRequest, Conflict, NotSupported

_NUMBER = BulkColumn(load.NUMBER, "bigint")
_ACTION = BulkColumn(load.ACTION, "nvarchar(10)")


@dataclass(frozen=True)
class ChangedTable:
    """Describe the table that a statement changes; `since` is the last change before its reads."""

    description: TableDescription
    ids: RowIds
    since: int


class _DistinctRowIds:
    """Count distinct row ids; a number takes eight bytes of memory."""

    def __init__(self) -> None:
        self._numbers, self._texts = RowIdSet(), set[str]()
        self.count = 0

    def sorted(self) -> Integers:
        """Return the numbers, or the hashes of the texts, ascending."""
        if not self._texts:
            return self._numbers.sorted()
        return np.unique(np.fromiter(map(hash, self._texts), np.int64, len(self._texts)))

    def add(self, ids: pa.Array) -> int:
        """Add row ids, and return how many are new."""
        if pa.types.is_integer(ids.type):
            new = self._numbers.add(ids.to_numpy(zero_copy_only=False))
        else:
            before = len(self._texts)
            self._texts.update(ids.to_pylist())
            new = len(self._texts) - before
        self.count += new
        return new


class _StagedRows:
    """Spool keys and values. With `allow_new`, a row id may be NULL: that row is inserted."""

    def __init__(self, target: ChangedTable, spool: RowSpool, *, allow_new: bool = False) -> None:
        self.table, self.ids, self.since = target.description, target.ids, target.since
        self.spool, self._allow_new = spool, allow_new
        self.distinct_ids = _DistinctRowIds()

    def key_columns(self) -> list[BulkColumn]:
        """Return the staging columns of the key, which compare like the key itself."""
        return [
            replace(column, name=load.key_name(index))
            for index, column in enumerate(bulk_columns(self.ids.columns))
        ]

    def keys(self) -> list[tuple[str, str]]:
        """Return the key's columns, with the type of those that are staged as another type."""
        return [(c.name, "" if is_loadable(c) else declared_type(c)) for c in self.ids.columns]

    def add(self, ids: pa.Array, columns: Sequence[BulkColumn], values: Sequence[pa.Array]) -> int:
        """Spool rows, and return how many of the row ids are new."""
        title = self.table.title()
        decode = partial(_decode_nullable, self.ids) if self._allow_new else self.ids.decode
        keys = decode(ids, title)
        new = self.distinct_ids.add(ids.drop_null())
        first = self.spool.rows
        numbers = pa.array(range(first, first + len(ids)), pa.int64())
        staged = [*self.key_columns(), _NUMBER, *columns]
        if len(ids):
            self.spool.add(convert_batch(staged, [*keys, numbers, *values], first))
        return new


def _decode_nullable(row_ids: RowIds, ids: pa.Array, title: str) -> list[pa.Array]:
    """Return the keys; those of rows without a row id are NULL."""
    if not ids.null_count:
        return row_ids.decode(ids, title)
    keys = row_ids.decode(ids.drop_null(), title)
    valid = ids.is_valid()
    indexes = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
    return [key.take(indexes) for key in keys]


Change = Callable[[SqlConnection, str], int]


def _publish(
    database: Database, rows: _StagedRows, columns: Sequence[BulkColumn], change: Change
) -> None:
    """Publish the change in one transaction, which a missing row rolls back."""
    staged = [*rows.key_columns(), _NUMBER, *columns]
    title, schema = rows.table.title(), rows.table.schema

    def publish(connection: SqlConnection, source: str) -> None:
        if change(connection, source) != rows.distinct_ids.count:
            raise _deleted_rows_error(rows.table)

    if not rows.spool.rows:
        return
    changed = rows.distinct_ids.sorted()
    with (
        name_errors(title),
        database.changes.changing(rows.table.object_id, title, changed, rows.since),
    ):
        stage_and_publish(database, schema, title, staged, rows.spool, publish)


def read_count(answer: Sequence[tuple[Any, ...]]) -> int:
    """Return the row count of a statement. Raises NotSupported if a trigger answers first."""
    match answer:
        case [(int(rows),)]:
            return rows
    raise NotSupported(
        "a trigger on the table returns a result set, so the number of changed rows is unknown; "
        "remove the SELECT from the trigger"
    )


def _deleted_rows_error(table: TableDescription) -> Conflict:
    return Conflict(
        f"rows of {table.title()} were deleted by another session; run the statement again"
    )


@contextmanager
def updating(database: Database, target: ChangedTable, options: DMLOptions) -> Iterator[Write]:
    """Update rows by the row ids and values that the block writes, all of them or none."""
    table = target.description
    database.table(table.schema, table.name)
    with open_spool(database.options, database.settings) as spool:
        statement = _MssqlUpdate(target, spool, options)
        yield statement.write
        changes = statement.changes()
        if changes:
            _publish(
                database,
                statement.rows,
                bulk_columns(statement.columns()),
                lambda connection, source: statement.apply(connection, changes, source),
            )


def _run_update(
    connection: SqlConnection, rows: _StagedRows, changes: Sequence[str], source: str
) -> int:
    target, keys = statements.path(rows.table.schema, rows.table.name), rows.keys()
    if rows.distinct_ids.count < rows.spool.rows:  # the last values for a row win
        connection.run(load.keep_last(len(keys), source))
    return read_count(connection.run(load.update(target, changes, keys, source)))


def is_assignable(column: ServerColumn) -> bool:
    """Return whether UPDATE can set the column."""
    return takes_values(column) and not column.identity


def assign_all(columns: Sequence[ServerColumn]) -> list[str]:
    """Return SET items for all columns but those whose values clients do not see exactly."""
    return [
        load.assign(column.name, column.type)
        for column in columns
        if is_assignable(column) and not is_read_as_text(column)
    ]


def refuse_fixed_columns(
    connection: SqlConnection, rows: "_StagedRows", columns: Sequence[ServerColumn], source: str
) -> None:
    """Raise BadRequest for new values of the columns that `assign_all` omits."""
    fixed = [
        (column.name, load.BY_BYTES if is_read_as_text(column) else load.AS_IT_IS)
        for column in columns
        if column.identity or (is_assignable(column) and is_read_as_text(column))
    ]
    target = statements.path(rows.table.schema, rows.table.name)
    if fixed and connection.run(load.find_changed_value(target, fixed, rows.keys(), source)):
        listed = ", ".join(name for name, _ in fixed)
        raise BadRequest(
            f"columns {listed} of {rows.table.title()} cannot be changed: identity columns never "
            "change, and columns of these types only by UPDATE without RETURNING"
        )


class _MssqlUpdate:
    def __init__(self, target: ChangedTable, spool: RowSpool, options: DMLOptions) -> None:
        self._table, self._options = target.description, options
        self._schema = self._table.info(None).schema
        self.rows = _StagedRows(target, spool)
        self._mapping: ColumnMapping | None = None

    def columns(self) -> list[ServerColumn]:
        mapping = self._mapping
        if mapping is None:
            return []
        columns = {column.name: column for column in self._table.columns}
        return [columns[field.name] for field in mapping.targets]

    def changes(self) -> list[str]:
        """Return SET items. With RETURNING these are all columns, because clients send them all."""
        if self._options.returning:
            return assign_all(self.columns())
        fixed = [column.name for column in self.columns() if not is_assignable(column)]
        if fixed:
            raise BadRequest(
                f"column {self._table.title()}.{fixed[0]} cannot be set: SQL Server fills it in"
            )
        return [load.assign(column.name) for column in self.columns()]

    def apply(self, connection: SqlConnection, changes: Sequence[str], source: str) -> int:
        if self._options.returning:
            refuse_fixed_columns(connection, self.rows, self.columns(), source)
        return _run_update(connection, self.rows, changes, source)

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        mapping = map_update_columns(batch.schema, self._schema, self._table.title())
        if self._mapping is not None and mapping.targets != self._mapping.targets:
            raise BadRequest(
                "all batches of one UPDATE must set the same columns in the same order"
            )
        self._mapping = mapping
        ids = batch.column(mapping.rowid)
        values = mapping.convert(batch, self.rows.spool.rows)
        changed = self.rows.add(ids, bulk_columns(self.columns()), values)
        answer = _answer(mapping, ids, values) if self._options.returning else None
        return DMLResult(changed, answer)


def _answer(mapping: ColumnMapping, ids: pa.Array, values: Sequence[pa.Array]) -> pa.RecordBatch:
    """Return the rows in the order of columns as sent, with the types of the table."""
    fields, columns = list(mapping.targets), list(values)
    fields.insert(mapping.rowid, pa.field(ROWID, ids.type, nullable=False))
    columns.insert(mapping.rowid, ids)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


@contextmanager
def deleting(database: Database, target: ChangedTable, options: DMLOptions) -> Iterator[Write]:
    """Delete the rows whose ids the block writes, all of them or none."""
    table = target.description
    database.table(table.schema, table.name)
    with open_spool(database.options, database.settings) as spool:
        rows = _StagedRows(target, spool)

        def write(batch: pa.RecordBatch) -> DMLResult:
            if [fold(name) for name in batch.schema.names] != [ROWID]:
                raise BadRequest(f"DELETE of {table.title()!r} needs exactly one column, 'rowid'")
            ids = batch.column(0)
            answer = _read_rows(database, rows, ids) if options.returning else None
            return DMLResult(rows.add(ids, [], []), answer)

        yield write
        _publish(database, rows, [], lambda c, source: _run_delete(c, rows, source))


def _run_delete(connection: SqlConnection, rows: _StagedRows, source: str) -> int:
    target = statements.path(rows.table.schema, rows.table.name)
    return read_count(connection.run(load.delete(target, rows.keys(), source)))


def _read_rows(database: Database, rows: _StagedRows, ids: pa.Array) -> pa.RecordBatch:
    """Read the current rows, in the order of their ids."""
    table = rows.table
    fields = [*table.info(None).schema, pa.field(ROWID, rows.ids.type, nullable=False)]
    columns = [*rows.key_columns(), _NUMBER]
    numbers = pa.array(range(len(ids)), pa.int64())
    batch = convert_batch(columns, [*rows.ids.decode(ids, table.title()), numbers], 0)
    items = [load.select_item(c.name, as_text=is_answered_as_text(c)) for c in table.columns]
    target = statements.path(table.schema, table.name)
    with (
        name_errors(table.title()),
        database.server.borrow_core() as connection,
        connection.transaction(),
        stage_rows(database.server, connection, columns, lambda: [batch], len(ids)) as source,
    ):
        stored = connection.run(load.select_by_keys(target, items, rows.keys(), source))
    if len(stored) != len(ids):
        raise _deleted_rows_error(table)
    return pa.RecordBatch.from_arrays(
        [*rows_to_arrays(stored, fields[:-1]), ids], schema=pa.schema(fields)
    )


@contextmanager
def merging(database: Database, target: ChangedTable) -> Iterator[Write]:
    """Run MERGE over the actions, row ids and values that the block writes."""
    database.table(target.description.schema, target.description.name)
    with open_spool(database.options, database.settings) as spool:
        statement = _MssqlMerge(target, spool)
        yield statement.write
        statement.commit(database)


class _MssqlMerge:
    def __init__(self, target: ChangedTable, spool: RowSpool) -> None:
        table = target.description
        self._table = table
        self._columns = writable_columns(table)
        self._schema = table.info(None).schema
        self._rows = _StagedRows(target, spool, allow_new=True)
        self._written_columns = WrittenColumns(table)
        self._inserted = 0

    def write(self, batch: pa.RecordBatch) -> DMLResult:
        by_name = {fold(name): batch.column(i) for i, name in enumerate(batch.schema.names)}
        actions, ids = by_name[MERGE_ACTION], by_name[ROWID]
        sent = batch.drop_columns([n for n in batch.schema.names if fold(n) == MERGE_ACTION])
        mapping = map_update_columns(sent.schema, self._schema, self._table.title())
        arrays = dict(
            zip(
                [field.name for field in mapping.targets],
                mapping.convert(sent, self._rows.spool.rows),
                strict=True,
            )
        )
        values = [arrays[column.name] for column in self._columns]
        new = pc.equal(actions, Merging.INSERT.value)
        self._written_columns.add(self._columns, [array.filter(new) for array in values])
        existing = len(ids) - ids.null_count
        staged = [*bulk_columns(self._columns), _ACTION]
        if self._rows.add(ids, staged, [*values, actions]) < existing:
            raise BadRequest(
                f"a row of {self._table.title()!r} is matched by several rows of the source; "
                "use a source with one row for each"
            )
        self._inserted += len(ids) - existing
        return DMLResult(batch.num_rows)

    def commit(self, database: Database) -> None:
        columns = bulk_columns(self._columns)
        target = statements.path(self._table.schema, self._table.name)
        updated = assign_all(self._columns)
        inserted = [column.name for column in self._written_columns.columns()]
        identity = self._inserted > 0 and self._written_columns.has_identity()
        without_merge = database.server.is_babelfish()

        def run_merge(connection: SqlConnection, source: str) -> int:
            refuse_fixed_columns(connection, self._rows, self._columns, source)
            if identity:
                connection.run(load.identity_insert(target, on=True))
            change = target, self._rows.keys(), updated, inserted, source
            texts = load.merge_in_parts(*change) if without_merge else [load.merge(*change)]
            changed = sum(read_count(connection.run(sql)) for sql in texts)
            if identity:
                connection.run(load.identity_insert(target, on=False))
            return changed - self._inserted

        _publish(database, self._rows, [*columns, _ACTION], run_merge)
