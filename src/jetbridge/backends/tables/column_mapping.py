"""Batches as they are sent to the columns as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import ROWID
from jetbridge.catalog.columns import default_of
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine import cast, default_values, expands, null_bytes, plain_bytes
from jetbridge.errors import BadRequest, ConstraintViolation, LimitExceeded

# For rows that were counted when they were staged.
_MUCH = 2**62
_NO_ROWID = -1


@dataclass(frozen=True)
class ColumnMapping:
    """Where each column of a batch goes.

    `sources[i]` is the position in the batch of column `targets[i]`, or None for a column that
    was not sent.
    """

    sent: pa.Schema
    table: str
    targets: tuple[pa.Field, ...]
    sources: tuple[int | None, ...]
    rowid: int
    same: bool
    required: tuple[int, ...]

    def convert(self, batch: pa.RecordBatch, first_row: int, room: int = _MUCH) -> list[pa.Array]:
        """The values with the types of the targets; NOT NULL is checked.

        Raises LimitExceeded before they take more than `room` bytes.
        """
        columns: list[pa.Array] = []
        for index in range(len(self.targets)):
            columns.append(self._column(batch, index, first_row, room))
            room -= columns[-1].nbytes
        for index in self.required:
            self.refuse_null(index, columns[index], first_row)
        return columns

    def _column(self, batch: pa.RecordBatch, index: int, first_row: int, room: int) -> pa.Array:
        source, field = self.sources[index], self.targets[index]
        if source is not None:
            column = batch.column(source)
            if expands(column.type) and plain_bytes(column, field.type) > room:
                raise self._too_large(field, room)
            return cast(column, field, first_row)
        if null_bytes(field.type) * batch.num_rows > room:
            raise self._too_large(field, room)
        default = default_of(field)
        if default is None:
            return pa.nulls(batch.num_rows, field.type)
        return default_values(default, field, batch.num_rows, room)

    def _too_large(self, field: pa.Field, room: int) -> LimitExceeded:
        return LimitExceeded(
            f"the statement stages too much: column {field.name!r} of {self.table!r} would take "
            f"more than the {max(0, room)} bytes that are left; write less at once"
        )

    def refuse_null(self, index: int, column: pa.Array, first_row: int) -> None:
        refuse_null(column, self.targets[index], self.table, first_row)


def refuse_null(column: pa.Array, field: pa.Field, table: str, first_row: int) -> None:
    if column.null_count and not field.nullable:
        row = first_row + column.is_null().index(True).as_py()
        raise ConstraintViolation(f"NOT NULL constraint failed: {table}.{field.name} (row {row})")


def map_insert_columns(sent: pa.Schema, schema: pa.Schema, table: str) -> ColumnMapping:
    positions = _positions(sent, schema.names, table)
    sources = tuple(positions.get(fold(name)) for name in schema.names)
    same = sources == tuple(range(len(schema))) and sent.types == schema.types
    return _mapping(sent, table, tuple(schema), sources, _NO_ROWID, same)


def map_update_columns(sent: pa.Schema, schema: pa.Schema, table: str) -> ColumnMapping:
    """The targets are the columns that are sent, in the order of the batch."""
    positions = _positions(sent, [*schema.names, ROWID], table)
    rowid = positions.pop(ROWID, None)
    if rowid is None:
        raise BadRequest(f"UPDATE of {table!r} needs a column 'rowid'")
    fields = {fold(field.name): field for field in schema}
    names = sorted(positions, key=positions.__getitem__)
    targets = tuple(fields[name] for name in names)
    return _mapping(sent, table, targets, tuple(positions[n] for n in names), rowid, False)


def _mapping(
    sent: pa.Schema,
    table: str,
    targets: tuple[pa.Field, ...],
    sources: tuple[int | None, ...],
    rowid: int,
    same: bool,
) -> ColumnMapping:
    required = tuple(i for i, field in enumerate(targets) if not field.nullable)
    return ColumnMapping(sent, table, targets, sources, rowid, same, required)


def _positions(sent: pa.Schema, names: Sequence[str], table: str) -> dict[str, int]:
    known = {fold(name) for name in names}
    positions: dict[str, int] = {}
    for index, name in enumerate(sent.names):
        lower = fold(name)
        if lower not in known:
            raise BadRequest(f"table {table!r} has no column {name!r}")
        if lower in positions:
            raise BadRequest(f"column {name!r} was sent twice")
        positions[lower] = index
    return positions
