"""Runs ALTER TABLE: a new schema by field ids, and new files only where values change.

Iceberg adds, drops, renames and widens columns without touching a file. What it cannot do (another
type, a default for existing rows that is no constant) rewrites all rows with their ids, in the same
commit as the new schema.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.lake import types
from jetbridge.backends.lake.ddl.layout import refuse_lost_columns
from jetbridge.backends.lake.metadata.extras import PROPERTY, encode_extras
from jetbridge.backends.lake.metadata.fields import merge_types
from jetbridge.backends.lake.metadata.lost_partitions import refuse_to_lose_partitions
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.parquet_writer import DataFile, DataWriter
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.backends.lake.read.scan import scan
from jetbridge.backends.lake.types import (
    IcebergField,
    IcebergType,
    ListType,
    MapType,
    StructType,
)
from jetbridge.backends.lake.write.commit import TableCommit
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.backends.tables.alter import alter_definition
from jetbridge.backends.tables.constraints import AlteredTable, verify_rows
from jetbridge.backends.tables.definition import Definition
from jetbridge.catalog import (
    AddColumn,
    Alteration,
    ChangeType,
    RenameColumn,
    RenameField,
    RenameTable,
    Scan,
)
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import default_of
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import AlreadyExists, FailedPrecondition

# Iceberg does not allow these types in identifier fields.
_NO_IDENTIFIER = ("float", "double")
# Every engine reads constants of these types alike.
_CONSTANT_TYPES = ("boolean", "int", "long", "double", "string")


class NoConstantError(Exception):
    """Report a default that differs by row, or has a type that must be written into files."""


def alter(publisher: Publisher, state: TableState, change: Alteration) -> TableState:
    """Apply the change as a whole, and return the table afterwards."""
    if isinstance(change, RenameTable):
        return _rename_table(publisher, state, change)
    statement = _LakeAlter(publisher, change)
    try:
        return publisher.publish(state, statement.describe)
    except BaseException as error:
        statement.discard(state, error)
        raise


def _rename_table(publisher: Publisher, state: TableState, change: RenameTable) -> TableState:
    tables = publisher.tables
    latest = tables.current(state)
    space, name = latest.pointer.namespace, latest.pointer.name
    new_name = alter_definition(latest.definition, change, latest.title(), 0).definition.name
    if new_name == name:
        return latest
    existing = tables.find(space, new_name)
    if existing is not None and existing.identity != latest.identity:
        raise AlreadyExists("table", f"{space}.{new_name}")
    publisher.warehouse.java.rename(space, name, new_name)
    return tables.load(space, new_name)


class _LakeAlter:
    """Run one ALTER TABLE against the latest state of the table."""

    def __init__(self, publisher: Publisher, change: Alteration) -> None:
        self._publisher, self._alteration = publisher, change
        self._writers: list[DataWriter] = []

    def discard(self, state: TableState, error: BaseException) -> None:
        """Remove the files of a statement that failed."""
        locations = [location for writer in self._writers for location in writer.locations]
        self._publisher.discard(state, locations, error)

    def describe(self, latest: TableState) -> TableCommit | None:
        """Return the commit for the latest state; None if there is nothing to change."""
        count = latest.count()
        rows = count if count is not None else 1
        result = alter_definition(latest.definition, self._alteration, latest.title(), rows)
        if result.definition is latest.definition:
            return None
        plan = _plan(latest, result, self._alteration, rows)
        read = self._publisher.read
        refuse_lost_columns(latest, plan.fields)
        refuse_to_lose_partitions(read.manifests, latest, plan.fields)
        files: list[DataFile] = []
        if plan.rewrites:
            _refuse_without_plain_spec(latest)
            files = self._rewrite(latest, plan)
        elif latest.snapshot is not None:
            verify_rows(result, latest.title(), _converted_rows(read, latest, result))
        extras = encode_extras(result.definition, plan.fields, latest.extras.notes)
        return TableCommit(
            fields=plan.fields,
            identifiers=identifiers(result.definition, plan.fields),
            properties={**latest.properties, PROPERTY: extras},
            files=files,
            replaces_rows=plan.rewrites,
        )

    def _rewrite(self, latest: TableState, plan: "_AlterPlan") -> list[DataFile]:
        """Write all rows in the new layout, with the ids they have."""
        after = types.RowCodec(plan.result.definition.schema, plan.fields)
        lineage_columns = _lineage_columns(latest)
        schema = pa.schema([*after.storage_schema, *lineage_columns])
        writer = self._publisher.new_writer(latest.data_folder, schema)
        self._writers.append(writer)

        def write() -> Iterator[pa.RecordBatch]:
            for batch, lineage in _rows_with(self._publisher.read, latest, lineage_columns):
                changed = batch if plan.result.convert is None else plan.result.convert(batch)
                stored = after.to_storage(changed)
                arrays = [*stored.columns, *lineage]
                writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
                yield changed

        batches = write()
        verify_rows(plan.result, latest.title(), batches)
        for _ in batches:  # `verify_rows` reads only as far as it needs
            pass
        return writer.close()


def _refuse_without_plain_spec(state: TableState) -> None:
    """Raise FailedPrecondition for a table that never was without partitions.

    Rows are written anew without partitions; `jetbridge optimize` sorts them in again.
    """
    if all(spec.fields for spec in state.partition_specs):
        raise FailedPrecondition(
            f"the rows of {state.title()!r} must be written anew, which is not possible here: it "
            "was created as a partitioned table by another engine; make the change there"
        )


def _lineage_columns(state: TableState) -> list[pa.Field]:
    """Return the columns by which a rewritten row keeps its id and the time of its last change."""
    return [types.ROW_ID_COLUMN, types.UPDATED_COLUMN] if state.has_row_ids() else []


def _rows_with(
    context: ReadContext, state: TableState, more: list[pa.Field]
) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
    """Yield all rows, and more columns of them."""
    schema = state.definition.schema
    columns = [(name, state.codec.select(name)) for name in schema.names]
    columns += [(field.name, field.name) for field in more]
    with open_snapshot(context, state, ReadColumns(row_ids=bool(more))) as relation:
        sql = queries.scan(relation.sql, columns)
        for batch in context.reader.stream(sql, **relation.tables):
            rows = batch.select(range(len(schema)))
            yield state.codec.from_result(rows, schema), batch.columns[len(schema) :]


@dataclass(frozen=True)
class _AlterPlan:
    result: AlteredTable
    fields: list[IcebergField]
    rewrites: bool


def _plan(state: TableState, result: AlteredTable, change: Alteration, rows: int) -> _AlterPlan:
    ids = _NewIds(state)
    fields = []
    rewrites = False
    old = {field.name: field for field in _renamed(state, change)}
    for column in result.definition.schema:
        field, has_new_values = _field(state, column, old.get(column.name), ids)
        rewrites = rewrites or (has_new_values and rows > 0)
        fields.append(field)
    if isinstance(change, AddColumn) and rows:
        try:
            fields[-1] = _with_default(result, fields[-1])
            rewrites = False
        except NoConstantError:
            rewrites = True
    return _AlterPlan(result, fields, rewrites or _computes(change, rows))


def _computes(change: Alteration, rows: int) -> bool:
    """Return whether an expression computes new values, so that all files are rewritten."""
    return rows > 0 and isinstance(change, ChangeType) and bool(change.expression)


def _with_default(result: AlteredTable, field: IcebergField) -> IcebergField:
    """Return the field with its default for existing rows; raises NoConstantError."""
    column = result.definition.schema.field(-1)
    value = constant_default(column, field.type)
    return msgspec.structs.replace(field, initial_default=value, write_default=value)


def constant_default(column: pa.Field, kind: IcebergType) -> Any:
    """Return the default of a column as a value of JSON, None for NULL; raises NoConstantError."""
    text = default_of(column)
    if text is None:
        return None
    # A constant has no function, so nothing that may differ by row or time.
    is_constant = duckdb_engine.parse(text).classes <= {"", "CONSTANT"}
    if kind not in _CONSTANT_TYPES or not is_constant:
        raise NoConstantError
    value = duckdb_engine.default_values(text, column, 1)[0].as_py()
    if isinstance(value, float) and not math.isfinite(value):
        raise NoConstantError
    return value


class _NewIds:
    """Return field ids that the table never had."""

    def __init__(self, state: TableState) -> None:
        self._last = state.last_column_id

    def __call__(self) -> int:
        self._last += 1
        return self._last


def _field(
    state: TableState, column: pa.Field, known: IcebergField | None, ids: Callable[[], int]
) -> tuple[IcebergField, bool]:
    """Return the Iceberg field of a column, and whether its values must be written anew."""
    comment = (column.metadata or {}).get(b"comment")
    doc = comment.decode() if comment else None
    if known is None:
        number = ids()
        kind = types.iceberg_type(column, ids)
        return IcebergField(number, column.name, not column.nullable, kind, doc), False
    field = msgspec.structs.replace(known, name=column.name, required=not column.nullable, doc=doc)
    before = _column_of(state, known.id)
    if before is not None and before.type == column.type:
        # Also a column of another engine, with a type that is stored in another way here.
        return field, False
    new_type = types.iceberg_type(column, ids)
    merged = merge_types(known.type, new_type)
    if merged is not None and (
        before is None or types.promotes(before.with_name(column.name), column)
    ):
        return msgspec.structs.replace(field, type=merged), False
    return IcebergField(ids(), column.name, not column.nullable, new_type, doc), True


def _column_of(state: TableState, field_id: int) -> pa.Field | None:
    for field, column in zip(state.fields, state.definition.schema, strict=True):
        if field.id == field_id:
            return column
    return None


def _renamed(state: TableState, change: Alteration) -> Sequence[IcebergField]:
    """Return the fields with the new name, so that everything else matches by name."""
    if isinstance(change, RenameColumn):
        return _renamed_inside(state.fields, [change.name], change.new_name)
    if isinstance(change, RenameField):
        return _renamed_inside(state.fields, change.path, change.new_name)
    return state.fields


def _renamed_inside(
    fields: Sequence[IcebergField], path: Sequence[str], new_name: str
) -> tuple[IcebergField, ...]:
    head, *rest = path
    renamed = []
    for field in fields:
        if fold(field.name) != fold(head):
            renamed.append(field)
        elif not rest:
            renamed.append(msgspec.structs.replace(field, name=new_name))
        else:
            kind = _renamed_type(field.type, rest, new_name)
            renamed.append(msgspec.structs.replace(field, type=kind))
    return tuple(renamed)


def _renamed_type(kind: IcebergType, path: Sequence[str], new_name: str) -> IcebergType:
    match kind:
        case StructType():
            return StructType(_renamed_inside(kind.fields, path, new_name))
        case ListType():
            element = _renamed_type(kind.element, path[1:], new_name)
            return msgspec.structs.replace(kind, element=element)
        case MapType() if fold(path[0]) == "key":
            return msgspec.structs.replace(kind, key=_renamed_type(kind.key, path[1:], new_name))
        case MapType():
            value = _renamed_type(kind.value, path[1:], new_name)
            return msgspec.structs.replace(kind, value=value)
    return kind


def identifiers(definition: Definition, fields: Sequence[IcebergField]) -> list[int]:
    """Return the primary key as Iceberg's identifier fields, where Iceberg allows its types."""
    by_name = {field.name: field for field in fields}
    for key in definition.keys:
        if key.primary:
            columns = [by_name[name] for name in key.columns]
            if all(isinstance(f.type, str) and f.type not in _NO_IDENTIFIER for f in columns):
                return [field.id for field in columns]
    return []


def _converted_rows(
    context: ReadContext, state: TableState, result: AlteredTable
) -> Iterator[pa.RecordBatch]:
    """Yield the existing rows in the new layout."""
    names = tuple(state.definition.schema.names)
    for batch in scan(context, state, Scan(names)):
        yield batch if result.convert is None else result.convert(batch)
