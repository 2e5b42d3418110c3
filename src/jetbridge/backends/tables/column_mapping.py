"""Maps the columns of batches that a client sends to the columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import ROWID
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import default_of
from jetbridge.duckdb_engine import cast, default_values
from jetbridge.errors import BadRequest, ConstraintViolation, LimitExceeded
from jetbridge.runtime.array_sizes import array_bytes, expands, null_bytes, plain_bytes

# For rows that are staged already, and so within the limit.
_NO_LIMIT = 2**62
_NO_ROWID = -1
# What the columns that a batch does not have may take: one small message can stand for a million
# rows of defaults.
MOST_UNSENT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class ColumnMapping:
    """Map columns of a batch to `targets`, columns of the table.

    `sources[i]` is the position in the batch of column `targets[i]`, or None for a column that
    was not sent. `unchanged`: the batch has exactly the columns and types of the table.
    `required` are the positions of NOT NULL columns in `targets`.
    """

    sent_schema: pa.Schema
    table: str
    targets: tuple[pa.Field, ...]
    sources: tuple[int | None, ...]
    rowid: int
    unchanged: bool
    required: tuple[int, ...]

    def convert(
        self, batch: pa.RecordBatch, first_row: int, room: int = _NO_LIMIT
    ) -> list[pa.Array]:
        """Return the values of all targets: cast, or the default of a column that was not sent.

        Errors count rows from `first_row`. Raise ConstraintViolation for NULL in a NOT NULL
        column, and LimitExceeded before the values take more than `room` bytes.
        """
        columns: list[pa.Array] = []
        unsent = MOST_UNSENT_BYTES
        for source, field in zip(self.sources, self.targets, strict=True):
            if source is None:
                columns.append(self._unsent_column(batch.num_rows, field, min(room, unsent)))
                unsent -= array_bytes(columns[-1])
            else:
                columns.append(self._sent_column(batch.column(source), field, first_row, room))
            room -= array_bytes(columns[-1])
        self.refuse_nulls(columns, first_row)
        return columns

    def _sent_column(
        self, column: pa.Array, field: pa.Field, first_row: int, room: int
    ) -> pa.Array:
        if expands(column.type) and plain_bytes(column, field.type) > room:
            raise self._too_large(field, room)
        return cast(column, field, first_row)

    def _unsent_column(self, rows: int, field: pa.Field, room: int) -> pa.Array:
        """Return the defaults of a column, or NULLs."""
        if null_bytes(field.type) * rows > room:
            raise self._too_large(field, room)
        default = default_of(field)
        if default is None:
            return pa.nulls(rows, field.type)
        return default_values(default, field, rows, room)

    def _too_large(self, field: pa.Field, room: int) -> LimitExceeded:
        return LimitExceeded(
            f"the statement stages too much: column {field.name!r} of {self.table!r} would take "
            f"more than the {max(0, room)} bytes that are left; write fewer rows at once"
        )

    def refuse_nulls(self, columns: Sequence[pa.Array] | pa.RecordBatch, first_row: int) -> None:
        """Raise ConstraintViolation if a NOT NULL column has a NULL."""
        for index in self.required:
            refuse_null(columns[index], self.targets[index], self.table, first_row)


def refuse_null(column: pa.Array, field: pa.Field, table: str, first_row: int) -> None:
    """Raise ConstraintViolation if a NOT NULL column has a NULL."""
    if column.null_count and not field.nullable:
        row = first_row + column.is_null().index(True).as_py()
        raise ConstraintViolation(f"NOT NULL constraint failed: {table}.{field.name} (row {row})")


def map_insert_columns(sent: pa.Schema, schema: pa.Schema, table: str) -> ColumnMapping:
    """Map by name to all columns of the table; raise BadRequest for an unknown column."""
    positions = _positions(sent, schema.names, table)
    sources = tuple(positions.get(fold(name)) for name in schema.names)
    unchanged = sources == tuple(range(len(schema))) and sent.types == schema.types
    return _mapping(sent, table, tuple(schema), sources, _NO_ROWID, unchanged)


def map_update_columns(sent: pa.Schema, schema: pa.Schema, table: str) -> ColumnMapping:
    """Map by name to the columns that are sent, in the order of the batch, and to `rowid`."""
    positions = _positions(sent, [*schema.names, ROWID], table)
    rowid = positions.pop(ROWID, None)
    if rowid is None:
        raise BadRequest(f"table {table!r}: UPDATE needs a column 'rowid'")
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
    unchanged: bool,
) -> ColumnMapping:
    required = tuple(i for i, field in enumerate(targets) if not field.nullable)
    return ColumnMapping(sent, table, targets, sources, rowid, unchanged, required)


def _positions(sent: pa.Schema, names: Sequence[str], table: str) -> dict[str, int]:
    """Return the positions of the columns that are sent, by their folded names."""
    known = {fold(name) for name in names}
    positions: dict[str, int] = {}
    for index, name in enumerate(sent.names):
        lower = fold(name)
        if lower not in known:
            raise BadRequest(f"table {table!r} has no column {name!r}")
        if lower in positions:
            raise BadRequest(f"column {name!r} of table {table!r} was sent twice")
        positions[lower] = index
    return positions
