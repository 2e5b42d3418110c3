"""ALTER TABLE: a new schema by field ids, and new files only where values change.

Iceberg adds, drops, renames and widens columns without touching a file. What it cannot (another
type, a default that is no constant for rows that are there) rewrites all rows with their ids, in
the same commit as the new schema.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jetbridge.backends.lake import types
from jetbridge.backends.lake.ddl import defaults
from jetbridge.backends.lake.ddl.layout import refuse_lost_columns
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.lost_partitions import refuse_to_lose_partitions
from jetbridge.backends.lake.metadata.field_ids import merged
from jetbridge.backends.lake.metadata.table_state import PROPERTY, Json, TableState, with_extras
from jetbridge.backends.lake.parquet_writer import DataWriter
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.backends.lake.read.scan import scan
from jetbridge.backends.lake.types import row_lineage
from jetbridge.backends.lake.write.commit import DataFile, TableCommit
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
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import AlreadyExists, FailedPrecondition


def alter(lake: Lake, seen: TableState, change: Alteration) -> TableState:
    """Makes the change wholly or not at all; answers the table afterwards."""
    if isinstance(change, RenameTable):
        return _rename_table(lake, seen, change)
    work = _Altering(lake, change)
    try:
        return lake.commit(seen, work.change)
    except BaseException as error:
        work.discard(seen, error)
        raise


def _rename_table(lake: Lake, seen: TableState, change: RenameTable) -> TableState:
    now = lake.current(seen)
    space, name = now.pointer.namespace, now.pointer.name
    wanted = alter_definition(now.definition, change, now.title(), 0).definition.name
    if wanted == name:
        return now
    there = lake.find(space, wanted)
    if there is not None and there.identity != now.identity:
        raise AlreadyExists("table", f"{space}.{wanted}")
    lake.commits.rename(space, name, wanted)
    return lake.load(space, wanted)


class _Altering:
    def __init__(self, lake: Lake, change: Alteration) -> None:
        self._lake, self._alteration = lake, change
        self._writers: list[DataWriter] = []

    def discard(self, seen: TableState, error: BaseException) -> None:
        written = [location for writer in self._writers for location in writer.locations]
        self._lake.discard(seen, written, error)

    def change(self, now: TableState) -> TableCommit | None:
        count = now.count()
        rows = count if count is not None else 1
        result = alter_definition(now.definition, self._alteration, now.title(), rows)
        if result.definition is now.definition:
            return None
        plan = _planned(now, result, self._alteration, rows)
        refuse_lost_columns(now, plan.fields)
        refuse_to_lose_partitions(self._lake, now, plan.fields)
        files: list[DataFile] = []
        if plan.rewrites:
            _refuse_without_plain_spec(now)
            files = self._rewritten(now, plan)
        elif now.snapshot is not None:
            verify_rows(result, now.title(), _present(self._lake, now, result))
        extras = with_extras(result.definition, plan.fields, now.extras)
        return TableCommit(
            fields=plan.fields,
            identifiers=identifiers(result.definition, plan.fields),
            properties={**now.properties, PROPERTY: extras},
            files=files,
            replaces_rows=plan.rewrites,
        )

    def _rewritten(self, now: TableState, plan: "_AlterPlan") -> list[DataFile]:
        """All rows in the new layout, with the ids they have."""
        after = types.RowCodec(plan.result.definition.schema, plan.fields)
        kept = _lineage(now)
        schema = pa.schema([*after.storage_schema, *kept])
        folder = self._lake.data_folder(now)
        writer = DataWriter(self._lake.files, folder, self._lake.prefix(), schema)
        self._writers.append(writer)

        def written() -> Iterator[pa.RecordBatch]:
            for batch, lineage in _rows_with(self._lake, now, kept):
                changed = batch if plan.result.convert is None else plan.result.convert(batch)
                stored = after.to_storage(changed)
                arrays = [*stored.columns, *lineage]
                writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
                yield changed

        batches = written()
        verify_rows(plan.result, now.title(), batches)
        for _ in batches:  # what `verify_rows` had no reason to read
            pass
        return writer.close()


def _refuse_without_plain_spec(now: TableState) -> None:
    """Rows are written anew without partitions; `jetbridge optimize` sorts them in again."""
    if all(spec["fields"] for spec in now.raw.get("partition-specs", [])):
        raise FailedPrecondition(
            f"the rows of {now.title()!r} must be written anew, which is not possible here: it was "
            "made as a partitioned table by another engine; make the change there"
        )


def _lineage(now: TableState) -> list[pa.Field]:
    """Columns by which a row that is written anew stays the row it is, last changed when it was."""
    return [row_lineage.ROW_ID, row_lineage.UPDATED] if now.has_row_ids() else []


def _rows_with(
    lake: Lake, now: TableState, more: list[pa.Field]
) -> Iterator[tuple[pa.RecordBatch, list[pa.Array]]]:
    schema = now.definition.schema
    columns = [(name, now.codec.select(name)) for name in schema.names]
    columns += [(field.name, field.name) for field in more]
    with open_snapshot(lake, now, ReadColumns(row_ids=bool(more))) as there:
        for batch in lake.reader.stream(queries.scan(there.sql, columns), **there.tables):
            rows = batch.select(range(len(schema)))
            yield now.codec.from_result(rows, schema), batch.columns[len(schema) :]


@dataclass(frozen=True)
class _AlterPlan:
    result: AlteredTable
    fields: list[Json]
    rewrites: bool


def _planned(now: TableState, result: AlteredTable, change: Alteration, rows: int) -> _AlterPlan:
    before = _renamed(now, change)
    ids = _Ids(now)
    fields = []
    rewrites = False
    old = {field["name"]: field for field in before}
    for column in result.definition.schema:
        known = old.get(column.name)
        field, new_values = _field(now, column, known, ids)
        rewrites = rewrites or (new_values and rows > 0)
        fields.append(field)
    if isinstance(change, AddColumn) and rows:
        rewrites = _add_default(result, fields[-1])
    return _AlterPlan(result, fields, rewrites or _computes(change, rows))


def _computes(change: Alteration, rows: int) -> bool:
    """Return whether an expression computes new values, so that all files are rewritten."""
    return rows > 0 and isinstance(change, ChangeType) and bool(change.expression)


def _add_default(result: AlteredTable, field: Json) -> bool:
    """Gives rows that are there their value by `initial-default`, or answers that it cannot."""
    column = result.definition.schema.field(-1)
    try:
        value = defaults.constant(column, field["type"])
    except defaults.NoConstantError:
        return True
    if value is not None:
        field["initial-default"] = value
        field["write-default"] = value
    return False


class _Ids:
    """Field ids that the table never had."""

    def __init__(self, state: TableState) -> None:
        self._last = int(state.raw["last-column-id"])

    def __call__(self) -> int:
        self._last += 1
        return self._last


def _field(
    now: TableState, column: pa.Field, known: Json | None, ids: Callable[[], int]
) -> tuple[Json, bool]:
    """The Iceberg field of a column, and whether its values must be written anew."""
    doc = (column.metadata or {}).get(b"comment")
    base: Json = {"name": column.name, "required": not column.nullable}
    if doc:
        base["doc"] = doc.decode()
    if known is None:
        return {"id": ids(), **base, "type": types.iceberg_type(column, ids)}, False
    kept: Json = {name: known[name] for name in known if name.endswith("-default")}
    before = _column_of(now, known["id"])
    if before is not None and before.type == column.type:
        # Also one of another engine, of a type that this one would keep otherwise.
        return {"id": known["id"], **base, "type": known["type"], **kept}, False
    wanted = types.iceberg_type(column, ids)
    kind = merged(known["type"], wanted)
    if kind is not None and (
        before is None or types.promotes(before.with_name(column.name), column)
    ):
        return {"id": known["id"], **base, "type": kind, **kept}, False
    return {"id": ids(), **base, "type": wanted}, True


def _column_of(now: TableState, identifier: int) -> pa.Field | None:
    for field, column in zip(now.fields, now.definition.schema, strict=True):
        if field["id"] == identifier:
            return column
    return None


def _renamed(now: TableState, change: Alteration) -> list[Json]:
    """The fields with the new name already in place, so that all else matches by name."""
    if isinstance(change, RenameColumn):
        return [
            {**f, "name": change.new_name} if fold(f["name"]) == fold(change.name) else f
            for f in now.fields
        ]
    if isinstance(change, RenameField):
        return _renamed_inside(now.fields, change.path, change.new_name)
    return now.fields


def _renamed_inside(fields: Sequence[Json], path: Sequence[str], new_name: str) -> list[Json]:
    head, *rest = path
    renamed = []
    for field in fields:
        if fold(field["name"]) != fold(head):
            renamed.append(field)
        elif not rest:
            renamed.append({**field, "name": new_name})
        else:
            renamed.append({**field, "type": _renamed_type(field["type"], rest, new_name)})
    return renamed


def _renamed_type(kind: Any, path: Sequence[str], new_name: str) -> Any:
    if kind["type"] == "struct":
        return {**kind, "fields": _renamed_inside(kind["fields"], path, new_name)}
    inner = "element" if kind["type"] == "list" else fold(path[0])
    return {**kind, inner: _renamed_type(kind[inner], path[1:], new_name)}


def identifiers(definition: Definition, fields: Sequence[Json]) -> list[int]:
    """The primary key as Iceberg's identifier fields, where Iceberg allows these types."""
    by_name = {field["name"]: field for field in fields}
    for key in definition.keys:
        if key.primary:
            found = [by_name[name] for name in key.columns]
            if all(isinstance(f["type"], str) and f["type"] not in _NO_IDENTIFIER for f in found):
                return [field["id"] for field in found]
    return []


_NO_IDENTIFIER = ("float", "double")


def _present(lake: Lake, now: TableState, result: AlteredTable) -> Iterator[pa.RecordBatch]:
    """The rows that are there, in the new layout."""
    names = tuple(now.definition.schema.names)
    for batch in scan(lake, now, Scan(names)):
        yield batch if result.convert is None else result.convert(batch)
