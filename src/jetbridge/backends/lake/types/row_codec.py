"""Converts the rows of one table between the types of clients and those of its files."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from jetbridge.backends.lake.types.column_sql import ColumnSql
from jetbridge.backends.lake.types.flat_arrays import logical_leaf, stored_leaf, text_leaf
from jetbridge.backends.lake.types.iceberg_schema import storage_field
from jetbridge.backends.lake.types.iceberg_types import (
    IcebergField,
    IcebergType,
    MapType,
    StructType,
    children_of,
)
from jetbridge.backends.lake.types.nested_arrays import inside, turned
from jetbridge.backends.lake.types.nested_types import children, rebuilt, shape_of
from jetbridge.backends.lake.types.storage_types import kept, type_name
from jetbridge.duckdb_engine import cast, computed, format_value
from jetbridge.duckdb_syntax.types import kind_of
from jetbridge.errors import BadRequest, ConstraintViolation


class RowCodec:
    """Convert rows of a table.

    `fields` are those of the schema in the metadata file, in the order of `schema`.
    """

    def __init__(self, schema: pa.Schema, fields: Sequence[IcebergField]) -> None:
        self.schema = schema
        self.storage_schema = pa.schema([storage_field(field) for field in fields])
        self.staged_schema = pa.schema([_with_texts(field) for field in self.storage_schema])
        self._types = [field.type for field in fields]
        self._readings = {
            column.name: ColumnSql(column, stored)
            for column, stored in zip(schema, self.storage_schema, strict=True)
        }

    def to_storage(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """Return the rows for a data file; the columns are those of the table, in its order.

        Raises BadRequest with column and row for a value that cannot be stored. The number of the
        first row is `first_row`.
        """
        columns = [
            _stored(array, logical, storage, iceberg, first_row)
            for array, logical, storage, iceberg in zip(
                batch.columns, self.schema, self.storage_schema, self._types, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.storage_schema)

    def staged(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of `to_storage` for a Parquet file that Spark reads by itself.

        To Spark a UUID of an Iceberg table is a text, but one of a Parquet file is an error.
        """
        columns = [
            array if array.type == target.type else turned(array, source, target, text_leaf)
            for array, source, target in zip(
                stored.columns, self.storage_schema, self.staged_schema, strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.staged_schema)

    def select(self, column: str) -> str:
        """Return the column as SQL over `iceberg_scan`; `from_result` takes the answer."""
        return self._readings[column].select

    def condition(self, column: str) -> str:
        """Return the column as SQL for filters and joins: the value that clients see.

        It is not `select`, because DuckDB skips files and row groups by minimum and maximum, and
        NaN, its greatest value, is in neither.
        """
        return self._readings[column].condition

    def pushable(self, column: str) -> bool:
        """Return whether `condition` has the type that clients see, so that their filters fit."""
        return self._readings[column].exact

    def is_same(self, column: str) -> bool:
        """Return whether the files hold exactly what clients see; False for nested columns."""
        logical, stored = self.schema.field(column), self.storage_schema.field(column)
        nested = bool(logical.type.num_fields)
        return not nested and logical.type == stored.type and _is_plain(logical)

    def from_result(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return DuckDB's answer with exactly the types of the schema, column by column."""
        arrays = [
            array
            if array.type == field.type
            else turned(array, pa.field(field.name, array.type), field, logical_leaf)
            for array, field in zip(batch.columns, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _stored(
    array: pa.Array, logical: pa.Field, storage: pa.Field, iceberg: IcebergType, first_row: int
) -> pa.Array:
    if array.type != logical.type:
        array = cast(array, logical, first_row)

    def stored(rows: pa.Array) -> pa.Array:
        if _has_maps(logical):
            _check_keys(rows, logical)
        same = rows.type == storage.type and _is_plain(logical)
        values = rows if same else turned(rows, logical, storage, stored_leaf)
        _check_required(values, iceberg)
        return values

    try:
        values = stored(array)
    except pa.ArrowException as error:
        row = _first_unfit(array, stored)
        reason = str(error).split("\n", 1)[0]
        raise BadRequest(
            f"column {logical.name!r}, row {first_row + row}: {format_value(array[row])} "
            f"cannot be stored as {type_name(logical)}: {reason}"[:450]
        ) from None
    if values.null_count and not storage.nullable:
        row = first_row + values.is_null().index(True).as_py()
        raise ConstraintViolation(f"NOT NULL constraint failed: {logical.name} (row {row})")
    return values


def _first_unfit(array: pa.Array, stored: Callable[[pa.Array], pa.Array]) -> int:
    low, high = 0, len(array) - 1  # some row of low..high does not fit, none before low
    while low < high:
        middle = (low + high) // 2
        try:
            stored(array.slice(low, middle - low + 1))
            low = middle + 1
        except pa.ArrowException:
            high = middle
    return low


def _check_required(array: pa.Array, kind: IcebergType) -> None:
    """Raise ArrowInvalid for a NULL in a field inside a column that is NOT NULL.

    Only tables of other engines have such fields.
    """
    if not _requires(kind):
        return
    beneath = array.null_count if isinstance(kind, StructType) else 0
    for field, values in zip(children_of(kind), inside(array), strict=True):
        if field.required and values.null_count > beneath:
            raise pa.ArrowInvalid(f"NULL in {field.name!r}, which is NOT NULL")
        _check_required(values, field.type)


def _requires(kind: IcebergType) -> bool:
    if isinstance(kind, MapType):  # a key is never NULL
        return _requires(kind.key) or kind.value_required or _requires(kind.value)
    return any(field.required or _requires(field.type) for field in children_of(kind))


def _is_plain(field: pa.Field) -> bool:
    """Return whether all values are stored just as they are."""
    if shape_of(field.type):
        return all(_is_plain(child) for child in children(field.type))
    name, row = kept(field)
    return not row.write and kind_of(name) != "DECIMAL"


def _has_maps(field: pa.Field) -> bool:
    return shape_of(field.type) == "map" or any(_has_maps(f) for f in children(field.type))


def _check_keys(array: pa.Array, logical: pa.Field) -> None:
    # DuckDB can neither read nor send a map that has a key twice.
    data = pa.table([array], schema=pa.schema([logical.with_name("c")]))
    try:
        computed("c IS NULL", data, pa.field("c", pa.bool_()))
    except BadRequest as error:
        raise pa.ArrowInvalid(str(error).partition(": ")[2]) from None


def _with_texts(field: pa.Field) -> pa.Field:
    """Return the field with strings for UUIDs."""
    if field.type == pa.uuid():
        return field.with_type(pa.string())
    inner = children(field.type)
    changed = [_with_texts(child) for child in inner]
    return field if changed == inner else field.with_type(rebuilt(field.type, changed))
