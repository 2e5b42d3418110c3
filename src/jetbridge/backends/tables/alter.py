"""ALTER TABLE as a value: what the table is afterwards, and what its rows must become and obey."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables import struct_fields
from jetbridge.backends.tables.columns import check_column_name, set_default, to_stored_field
from jetbridge.backends.tables.constraints import (
    group_batches,
    refuse_duplicates,
    refuse_violation,
    select_key,
    to_table,
)
from jetbridge.backends.tables.definition import (
    Definition,
    normalize_check,
    normalize_key,
    require_key_columns,
)
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    Alteration,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.catalog.columns import default_of
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)

ConvertRows = Callable[[pa.RecordBatch], pa.RecordBatch]

_EXTENSION = b"ARROW:extension"


@dataclass(frozen=True)
class AlteredTable:
    """What a change makes of a table.

    `definition` is the very object it was before if nothing changes. `rows` makes new rows of old
    ones, both by position, and raises FailedPrecondition for a value that does not survive; None
    leaves them as they are. The rows that are there, in the new layout, must hold no NULL in the
    columns `not_null` and obey `checks` and `keys`; `verify_rows` sees to that.
    """

    definition: Definition
    convert: ConvertRows | None = None
    not_null: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    keys: tuple[UniqueKey, ...] = ()


def alter_definition(before: Definition, change: Alteration, table: str, rows: int) -> AlteredTable:
    """The change to a table that is called `table` in messages and has so many rows."""
    if isinstance(change, AddColumn):
        return _add_column(before, change, table, rows)
    step = _STEPS.get(type(change))
    if step is None:
        raise NotSupported(f"{type(change).__name__} is not supported")
    return step(before, change, table)


def verify_rows(change: AlteredTable, table: str, batches: Iterable[pa.RecordBatch]) -> None:
    """Whether the rows that are there obey; raises FailedPrecondition.

    `batches` hold the live rows in the new layout. They are read once, and only if there is
    something to verify; of each the columns of the keys are kept until the end.
    """
    if not (change.not_null or change.checks or change.keys):
        return
    definition = change.definition
    nulls = dict.fromkeys(change.not_null, 0)
    keys: list[tuple[UniqueKey, list[pa.Table]]] = [(key, []) for key in change.keys]
    try:
        for group in group_batches(batches):
            data = to_table(definition.schema, group)
            for name in nulls:
                nulls[name] += data.column(name).null_count
            for text in change.checks:
                refuse_violation(table, text, data)
            for key, parts in keys:
                parts.append(select_key(definition, key, group))
        _refuse_nulls(table, nulls)
        _refuse_duplicates(table, keys)
    except (ConstraintViolation, DuplicateKey) as error:
        raise FailedPrecondition(str(error)) from None


def _refuse_nulls(table: str, nulls: dict[str, int]) -> None:
    for name, count in nulls.items():
        if count:
            raise FailedPrecondition(
                f"column {table}.{name} has {count} NULL values; update them first"
            )


def _refuse_duplicates(table: str, keys: list[tuple[UniqueKey, list[pa.Table]]]) -> None:
    for key, parts in keys:
        if parts:
            refuse_duplicates(table, key, pa.concat_tables(parts))


def _rows_of(schema: pa.Schema, columns: Callable[[pa.RecordBatch], list[pa.Array]]) -> ConvertRows:
    return lambda batch: pa.RecordBatch.from_arrays(columns(batch), schema=schema)


def _found(before: Definition, name: str, table: str) -> int:
    position = before.position(name)
    if position is None:
        raise NotFound("column", f"{table}.{name}")
    return position


def _with_field(before: Definition, position: int, field: pa.Field) -> Definition:
    return replace(before, schema=before.schema.set(position, field))


def _add_column(before: Definition, change: AddColumn, table: str, rows: int) -> AlteredTable:
    name = change.field.name
    check_column_name(name)
    if before.position(name) is not None:
        if change.if_not_exists:
            return AlteredTable(before)
        raise AlreadyExists("column", f"{table}.{name}")
    field = to_stored_field(change.field)
    text = default_of(field)
    if text is None and not field.nullable and rows:
        raise FailedPrecondition(
            f"column {name!r} is NOT NULL and has no default, but {table!r} has rows"
        )

    def added(batch: pa.RecordBatch) -> list[pa.Array]:
        values = (
            pa.nulls(batch.num_rows, field.type)
            if text is None
            else duckdb_engine.default_values(text, field, batch.num_rows)
        )
        if values.null_count and not field.nullable:
            raise FailedPrecondition(f"the default of the NOT NULL column {name!r} is NULL")
        return [*batch.columns, values]

    schema = before.schema.append(field)
    return AlteredTable(replace(before, schema=schema), _rows_of(schema, added))


def _remove_column(before: Definition, change: RemoveColumn, table: str) -> AlteredTable:
    position = before.position(change.name)
    if position is None:
        if change.if_exists:
            return AlteredTable(before)
        raise NotFound("column", f"{table}.{change.name}")
    if len(before.schema) == 1:
        raise FailedPrecondition(f"{change.name!r} is the last column of {table!r}")
    checks, keys = _without(before, change.name, change.cascade)
    schema = before.schema.remove(position)
    return AlteredTable(
        replace(before, schema=schema, checks=checks, keys=keys),
        _rows_of(schema, lambda batch: batch.remove_column(position).columns),
    )


def _without(
    before: Definition, name: str, cascade: bool
) -> tuple[tuple[str, ...], tuple[UniqueKey, ...]]:
    """The constraints that do not use the column; without `cascade` those that do forbid it."""
    lower = fold(name)
    checks = tuple(c for c in before.checks if lower not in duckdb_engine.parse(c).columns)
    keys = tuple(k for k in before.keys if lower not in {fold(n) for n in k.columns})
    if not cascade and (len(checks), len(keys)) != (len(before.checks), len(before.keys)):
        raise FailedPrecondition(
            f"column {name!r} is used by a CHECK or key of {before.name!r}; use CASCADE"
        )
    return checks, keys


def _rename_column(before: Definition, change: RenameColumn, table: str) -> AlteredTable:
    position = _found(before, change.name, table)
    check_column_name(change.new_name)
    if before.position(change.new_name) not in {None, position}:
        raise AlreadyExists("column", f"{table}.{change.new_name}")
    field = before.schema.field(position)
    schema = before.schema.set(position, field.with_name(change.new_name))
    checks = tuple(duckdb_engine.renamed(c, field.name, change.new_name) for c in before.checks)
    keys = tuple(
        UniqueKey(tuple(change.new_name if n == field.name else n for n in k.columns), k.primary)
        for k in before.keys
    )
    return AlteredTable(replace(before, schema=schema, checks=checks, keys=keys))


def _rename_table(before: Definition, change: RenameTable, table: str) -> AlteredTable:
    if not change.new_name:
        raise BadRequest(f"the new name of {table!r} is empty")
    return AlteredTable(replace(before, name=change.new_name))


def _set_default(before: Definition, change: SetDefault, table: str) -> AlteredTable:
    position = _found(before, change.column, table)
    field = set_default(before.schema.field(position), change.expression)
    return AlteredTable(_with_field(before, position, field))


def _change_type(before: Definition, change: ChangeType, table: str) -> AlteredTable:
    position = _found(before, change.field.name, table)
    old = before.schema.field(position)
    new = change.field.with_name(old.name).with_nullable(old.nullable)
    new = _with_fitting_default(new.with_metadata(_changed_metadata(old, change.field)))
    if change.expression:
        duckdb_engine.row_expression(change.expression, before.schema)
    after = _with_field(before, position, new)
    _refuse_invalid_checks(after)

    def changed(batch: pa.RecordBatch) -> list[pa.Array]:
        values = _converted(before, batch, position, new, change.expression)
        if values.null_count and not new.nullable:
            raise FailedPrecondition(f"column {new.name!r} is NOT NULL, but a new value is NULL")
        return _with_column(batch, position, values)

    return AlteredTable(
        after, _rows_of(after.schema, changed), checks=after.checks, keys=after.keys
    )


def _changed_metadata(old: pa.Field, new: pa.Field) -> dict[bytes, bytes] | None:
    """The metadata of both, of which the old wins; but an extension type is the new one's."""
    both = {**(new.metadata or {}), **(old.metadata or {})}
    plain = {k: v for k, v in both.items() if not k.startswith(_EXTENSION)}
    extension = {k: v for k, v in (new.metadata or {}).items() if k.startswith(_EXTENSION)}
    return {**plain, **extension} or None


def _with_column(batch: pa.RecordBatch, position: int, values: pa.Array) -> list[pa.Array]:
    columns: list[pa.Array] = batch.columns
    columns[position] = values
    return columns


def _with_fitting_default(field: pa.Field) -> pa.Field:
    text = default_of(field)
    new = to_stored_field(set_default(field, ""))
    try:
        return new if text is None else set_default(new, text)
    except BadRequest as error:
        raise FailedPrecondition(f"{error}; drop the default first") from None


def _converted(
    before: Definition, batch: pa.RecordBatch, position: int, new: pa.Field, expression: str
) -> pa.Array:
    try:
        if not expression:
            old = before.schema.field(position)
            return duckdb_engine.explicit_cast(batch.column(position), old, new)
        return duckdb_engine.evaluate(expression, to_table(before.schema, [batch]), new)
    except BadRequest as error:
        raise FailedPrecondition(f"a value does not survive as {new.type}: {error}"[:490]) from None


def _refuse_invalid_checks(after: Definition) -> None:
    try:
        for text in after.checks:
            duckdb_engine.check_expression(text, after.schema)
    except BadRequest as error:
        raise FailedPrecondition(str(error)) from None


def _set_not_null(before: Definition, change: SetNotNull, table: str) -> AlteredTable:
    position = _found(before, change.column, table)
    field = before.schema.field(position).with_nullable(False)
    return AlteredTable(_with_field(before, position, field), not_null=(field.name,))


def _drop_not_null(before: Definition, change: DropNotNull, table: str) -> AlteredTable:
    position = _found(before, change.column, table)
    field = before.schema.field(position)
    if any(key.primary and field.name in key.columns for key in before.keys):
        raise FailedPrecondition(f"column {table}.{field.name} belongs to the primary key")
    return AlteredTable(_with_field(before, position, field.with_nullable(True)))


def _add_check(before: Definition, change: AddCheck, table: str) -> AlteredTable:
    text = normalize_check(change.expression, before.schema, before.name)
    return AlteredTable(replace(before, checks=(*before.checks, text)), checks=(text,))


def _add_key(before: Definition, change: AddKey, table: str) -> AlteredTable:
    key = normalize_key(before.schema, change.key)
    if key.primary and any(other.primary for other in before.keys):
        raise FailedPrecondition(f"table {table!r} has a primary key already")
    schema = require_key_columns(before.schema, key)
    return AlteredTable(
        replace(before, schema=schema, keys=(*before.keys, key)),
        not_null=key.columns if key.primary else (),
        keys=(key,),
    )


def _add_field(before: Definition, change: AddField, table: str) -> AlteredTable:
    if not change.field.name:
        raise BadRequest("a field needs a name")
    edit = struct_fields.adding(to_stored_field(change.field))
    try:
        return _edited(before, change.path, edit, table)
    except AlreadyExists:
        if change.if_not_exists:
            return AlteredTable(before)
        raise


def _remove_field(before: Definition, change: RemoveField, table: str) -> AlteredTable:
    edit = struct_fields.removing(_last(change.path))
    try:
        return _edited(before, change.path[:-1], edit, table)
    except NotFound:
        if change.if_exists:
            return AlteredTable(before)
        raise


def _rename_field(before: Definition, change: RenameField, table: str) -> AlteredTable:
    if not change.new_name:
        raise BadRequest("the new name of the field is empty")
    edit = struct_fields.renaming(_last(change.path), change.new_name)
    return _edited(before, change.path[:-1], edit, table)


def _last(path: tuple[str, ...]) -> str:
    if len(path) < 2:  # noqa: PLR2004 - a column and a field in it
        raise BadRequest(f"{'.'.join(path)!r} is no path to a field")
    return path[-1]


def _edited(
    before: Definition,
    path: tuple[str, ...],
    edit: tuple[struct_fields.Edit, struct_fields.Columns],
    table: str,
) -> AlteredTable:
    if not path:
        raise BadRequest("the path to the STRUCT is empty")
    position = _found(before, path[0], table)
    old = before.schema.field(position)
    new = old.with_type(struct_fields.edited_type(old.type, path[1:], edit[0]))
    after = _with_field(before, position, new)
    _refuse_invalid_checks(after)

    def changed(batch: pa.RecordBatch) -> list[pa.Array]:
        values = struct_fields.edited_array(batch.column(position), new.type, path[1:], edit[1])
        return _with_column(batch, position, values)

    return AlteredTable(after, _rows_of(after.schema, changed))


_STEPS: dict[type, Callable[[Definition, Any, str], AlteredTable]] = {
    RemoveColumn: _remove_column,
    RenameColumn: _rename_column,
    RenameTable: _rename_table,
    SetDefault: _set_default,
    ChangeType: _change_type,
    SetNotNull: _set_not_null,
    DropNotNull: _drop_not_null,
    AddCheck: _add_check,
    AddKey: _add_key,
    AddField: _add_field,
    RemoveField: _remove_field,
    RenameField: _rename_field,
}
