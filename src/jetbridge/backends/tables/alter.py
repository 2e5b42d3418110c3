"""Computes what ALTER TABLE does: the new definition, the new rows, and what the rows must obey.

Nothing here changes a table. A backend applies the result in its own way.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.tables import struct_fields
from jetbridge.backends.tables.constraints import (
    LONGEST_MESSAGE,
    AlteredTable,
    ConvertRows,
    to_table,
)
from jetbridge.backends.tables.definition import (
    Definition,
    check_column_name,
    normalize_check,
    normalize_key,
    require_key_columns,
    set_default,
    to_stored_field,
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
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.values import default_of
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    FailedPrecondition,
    NotFound,
    NotSupported,
)

_EXTENSION = b"ARROW:extension"


def alter_definition(before: Definition, change: Alteration, table: str, rows: int) -> AlteredTable:
    """Return the table after a change; errors call it `table`. `rows` is its number of rows.

    Raise NotFound, AlreadyExists, BadRequest, FailedPrecondition or NotSupported.
    """
    if isinstance(change, AddColumn):
        return _add_column(before, change, table, rows)
    handler = _HANDLERS.get(type(change))
    if handler is None:
        raise NotSupported(f"ALTER TABLE of {table!r}: {type(change).__name__} is not supported")
    return handler(before, change, table)


def _conversion(
    schema: pa.Schema, columns: Callable[[pa.RecordBatch], list[pa.Array]]
) -> ConvertRows:
    return lambda batch: pa.RecordBatch.from_arrays(columns(batch), schema=schema)


def _position(before: Definition, name: str, table: str) -> int:
    """Return the position of a column; raise NotFound."""
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
            f"column {name!r} is NOT NULL and has no default, but {table!r} has rows; "
            "give it a DEFAULT"
        )

    def columns(batch: pa.RecordBatch) -> list[pa.Array]:
        values = (
            pa.nulls(batch.num_rows, field.type)
            if text is None
            else duckdb_engine.default_values(text, field, batch.num_rows)
        )
        if values.null_count and not field.nullable:
            raise FailedPrecondition(
                f"column {table}.{name} is NOT NULL, but its default is NULL for existing rows"
            )
        return [*batch.columns, values]

    schema = before.schema.append(field)
    return AlteredTable(replace(before, schema=schema), _conversion(schema, columns))


def _remove_column(before: Definition, change: RemoveColumn, table: str) -> AlteredTable:
    position = before.position(change.name)
    if position is None:
        if change.if_exists:
            return AlteredTable(before)
        raise NotFound("column", f"{table}.{change.name}")
    if len(before.schema) == 1:
        raise FailedPrecondition(
            f"column {change.name!r} cannot be dropped: it is the last column of {table!r}"
        )
    checks, keys = _constraints_without(before, change.name, change.cascade)
    schema = before.schema.remove(position)
    return AlteredTable(
        replace(before, schema=schema, checks=checks, keys=keys),
        _conversion(schema, lambda batch: batch.remove_column(position).columns),
    )


def _constraints_without(
    before: Definition, name: str, cascade: bool
) -> tuple[tuple[str, ...], tuple[UniqueKey, ...]]:
    """Return the constraints that do not use a column; raise without `cascade` if some do."""
    folded = fold(name)
    checks = tuple(c for c in before.checks if folded not in duckdb_engine.parse(c).columns)
    keys = tuple(k for k in before.keys if folded not in {fold(n) for n in k.columns})
    if not cascade and (len(checks), len(keys)) != (len(before.checks), len(before.keys)):
        raise FailedPrecondition(
            f"column {name!r} is used by a CHECK or key of table {before.name!r}; "
            "add CASCADE to drop the constraint, too"
        )
    return checks, keys


def _rename_column(before: Definition, change: RenameColumn, table: str) -> AlteredTable:
    position = _position(before, change.name, table)
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
        raise BadRequest(f"the new name of table {table!r} is empty")
    return AlteredTable(replace(before, name=change.new_name))


def _set_default(before: Definition, change: SetDefault, table: str) -> AlteredTable:
    position = _position(before, change.column, table)
    field = set_default(before.schema.field(position), change.expression)
    return AlteredTable(_with_field(before, position, field))


def _change_type(before: Definition, change: ChangeType, table: str) -> AlteredTable:
    position = _position(before, change.field.name, table)
    old = before.schema.field(position)
    new = change.field.with_name(old.name).with_nullable(old.nullable)
    new = _check_default(new.with_metadata(_merge_metadata(old, change.field)), table)
    if change.expression:
        duckdb_engine.row_expression(change.expression, before.schema)
    after = _with_field(before, position, new)
    _refuse_invalid_checks(after)

    def columns(batch: pa.RecordBatch) -> list[pa.Array]:
        try:
            values = _convert_column(before, batch, position, new, change.expression)
        except BadRequest as error:
            message = f"a value of column {table}.{new.name} does not survive as {new.type}"
            raise FailedPrecondition(f"{message}: {error}"[:LONGEST_MESSAGE]) from None
        if values.null_count and not new.nullable:
            raise FailedPrecondition(
                f"column {table}.{new.name} is NOT NULL, but a new value is NULL"
            )
        return _replace_column(batch, position, values)

    return AlteredTable(
        after, _conversion(after.schema, columns), checks=after.checks, keys=after.keys
    )


def _merge_metadata(old: pa.Field, new: pa.Field) -> dict[bytes, bytes] | None:
    """Return the metadata of both: the extension type of the new field, else the old wins."""
    both = {**(new.metadata or {}), **(old.metadata or {})}
    plain = {k: v for k, v in both.items() if not k.startswith(_EXTENSION)}
    extension = {k: v for k, v in (new.metadata or {}).items() if k.startswith(_EXTENSION)}
    return {**plain, **extension} or None


def _replace_column(batch: pa.RecordBatch, position: int, values: pa.Array) -> list[pa.Array]:
    columns: list[pa.Array] = batch.columns
    columns[position] = values
    return columns


def _check_default(field: pa.Field, table: str) -> pa.Field:
    """Return the field of a new type as it is stored; raise if its default has another type."""
    text = default_of(field)
    new = to_stored_field(set_default(field, ""))
    try:
        return new if text is None else set_default(new, text)
    except BadRequest as error:
        raise FailedPrecondition(
            f"column {table}.{field.name}: {error}; drop the default first"
        ) from None


def _convert_column(
    before: Definition, batch: pa.RecordBatch, position: int, new: pa.Field, expression: str
) -> pa.Array:
    if not expression:
        old = before.schema.field(position)
        return duckdb_engine.explicit_cast(batch.column(position), old, new)
    return duckdb_engine.evaluate(expression, to_table(before.schema, [batch]), new)


def _refuse_invalid_checks(after: Definition) -> None:
    try:
        for text in after.checks:
            duckdb_engine.check_expression(text, after.schema)
    except BadRequest as error:
        raise FailedPrecondition(str(error)) from None


def _set_not_null(before: Definition, change: SetNotNull, table: str) -> AlteredTable:
    position = _position(before, change.column, table)
    field = before.schema.field(position).with_nullable(False)
    return AlteredTable(_with_field(before, position, field), not_null=(field.name,))


def _drop_not_null(before: Definition, change: DropNotNull, table: str) -> AlteredTable:
    position = _position(before, change.column, table)
    field = before.schema.field(position)
    if any(key.primary and field.name in key.columns for key in before.keys):
        raise FailedPrecondition(
            f"column {table}.{field.name} belongs to the primary key, so it stays NOT NULL"
        )
    return AlteredTable(_with_field(before, position, field.with_nullable(True)))


def _add_check(before: Definition, change: AddCheck, table: str) -> AlteredTable:
    text = normalize_check(change.expression, before.schema, before.name)
    return AlteredTable(replace(before, checks=(*before.checks, text)), checks=(text,))


def _add_key(before: Definition, change: AddKey, table: str) -> AlteredTable:
    key = normalize_key(before.schema, change.key, table)
    if key.primary and any(other.primary for other in before.keys):
        raise FailedPrecondition(f"table {table!r} already has a primary key")
    schema = require_key_columns(before.schema, key)
    return AlteredTable(
        replace(before, schema=schema, keys=(*before.keys, key)),
        not_null=key.columns if key.primary else (),
        keys=(key,),
    )


def _add_field(before: Definition, change: AddField, table: str) -> AlteredTable:
    if not change.field.name:
        raise BadRequest(f"the new field of {'.'.join((table, *change.path))} needs a name")
    edit = struct_fields.add_field(to_stored_field(change.field))
    try:
        return _edit_struct(before, change.path, edit, table)
    except AlreadyExists:
        if change.if_not_exists:
            return AlteredTable(before)
        raise


def _remove_field(before: Definition, change: RemoveField, table: str) -> AlteredTable:
    edit = struct_fields.remove_field(_field_name(change.path))
    try:
        return _edit_struct(before, change.path[:-1], edit, table)
    except NotFound:
        if change.if_exists:
            return AlteredTable(before)
        raise


def _rename_field(before: Definition, change: RenameField, table: str) -> AlteredTable:
    if not change.new_name:
        raise BadRequest(f"the new name of field {'.'.join((table, *change.path))} is empty")
    edit = struct_fields.rename_field(_field_name(change.path), change.new_name)
    return _edit_struct(before, change.path[:-1], edit, table)


def _field_name(path: tuple[str, ...]) -> str:
    """Return the last name of a path; raise BadRequest if it names no field of a column."""
    if len(path) < 2:  # noqa: PLR2004 - a column and a field in it
        raise BadRequest(f"{'.'.join(path)!r} does not name a field of a STRUCT column")
    return path[-1]


def _edit_struct(
    before: Definition, path: tuple[str, ...], edit: struct_fields.StructEdit, table: str
) -> AlteredTable:
    if not path:
        raise BadRequest(f"ALTER TABLE of {table!r}: the path to the STRUCT is empty")
    position = _position(before, path[0], table)
    old = before.schema.field(position)
    new = old.with_type(struct_fields.edit_type(old.type, path[1:], edit))
    after = _with_field(before, position, new)
    _refuse_invalid_checks(after)

    def columns(batch: pa.RecordBatch) -> list[pa.Array]:
        values = struct_fields.edit_array(batch.column(position), new.type, path[1:], edit)
        return _replace_column(batch, position, values)

    return AlteredTable(after, _conversion(after.schema, columns))


_HANDLERS: dict[type, Callable[[Definition, Any, str], AlteredTable]] = {
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
