"""ALTER TABLE: each change is a function from one state to the next."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from jetbridge import embedded
from jetbridge.backends.memory import fields
from jetbridge.backends.memory.chunks import Chunk
from jetbridge.backends.memory.constraints import (
    as_table,
    key_table,
    refuse_duplicates,
    refuse_violation,
)
from jetbridge.backends.memory.define import (
    check_column_name,
    checked,
    checked_key,
    default_of,
    stored_field,
    with_default,
    with_required_key,
)
from jetbridge.backends.memory.rewrite import live_batches, rewritten
from jetbridge.backends.memory.state import Store, TableCell, TableState
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
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)
from jetbridge.names import fold


def altered(store: Store, cell: TableCell, change: Alteration) -> TableState:
    """Makes the change and publishes it; an answer that is the old state changed nothing."""
    step = _STEPS.get(type(change))
    if step is None:
        raise NotSupported(f"{type(change).__name__} is not supported")

    def next_state(now: TableState) -> TableState:
        after = step(now, change, cell.name())
        if after is now:
            return now
        return replace(after, version=now.version + 1, time=store.now(now))

    return store.publish(cell, next_state, ddl=True)


def _found(state: TableState, name: str, table: str) -> int:
    position = state.position(name)
    if position is None:
        raise NotFound("column", f"{table}.{name}")
    return position


def _with_field(state: TableState, position: int, field: pa.Field) -> pa.Schema:
    return state.schema.set(position, field)


def _add_column(state: TableState, change: AddColumn, table: str) -> TableState:
    name = change.field.name
    check_column_name(name)
    if state.position(name) is not None:
        if change.if_not_exists:
            return state
        raise AlreadyExists("column", f"{table}.{name}")
    field = stored_field(change.field)
    text = default_of(field)
    if text is None and not field.nullable and state.count():
        raise FailedPrecondition(
            f"column {name!r} is NOT NULL and has no default, but {table!r} has rows"
        )

    def added(chunk: Chunk) -> pa.RecordBatch:
        values = (
            pa.nulls(chunk.rows, field.type)
            if text is None
            else embedded.default_values(text, field, chunk.rows)
        )
        if values.null_count and not field.nullable:
            raise FailedPrecondition(f"the default of the NOT NULL column {name!r} is NULL")
        return chunk.batch.append_column(name, values)

    return rewritten(state, state.schema.append(field), added)


def _remove_column(state: TableState, change: RemoveColumn, table: str) -> TableState:
    position = state.position(change.name)
    if position is None:
        if change.if_exists:
            return state
        raise NotFound("column", f"{table}.{change.name}")
    if len(state.schema) == 1:
        raise FailedPrecondition(f"{change.name!r} is the last column of {table!r}")
    checks, keys = _without(state, change.name, change.cascade)
    schema = state.schema.remove(position)
    after = rewritten(state, schema, lambda chunk: chunk.batch.remove_column(position))
    return replace(after, checks=checks, keys=keys)


def _without(
    state: TableState, name: str, cascade: bool
) -> tuple[tuple[str, ...], tuple[UniqueKey, ...]]:
    """The constraints that do not use the column; without `cascade` those that do forbid it."""
    lower = fold(name)
    checks = tuple(c for c in state.checks if lower not in embedded.parse(c).columns)
    keys = tuple(k for k in state.keys if lower not in {fold(n) for n in k.columns})
    if not cascade and (len(checks), len(keys)) != (len(state.checks), len(state.keys)):
        raise FailedPrecondition(
            f"column {name!r} is used by a CHECK or key of {state.name!r}; use CASCADE"
        )
    return checks, keys


def _rename_column(state: TableState, change: RenameColumn, table: str) -> TableState:
    position = _found(state, change.name, table)
    check_column_name(change.new_name)
    if state.position(change.new_name) not in {None, position}:
        raise AlreadyExists("column", f"{table}.{change.new_name}")
    field = state.schema.field(position)
    schema = _with_field(state, position, field.with_name(change.new_name))
    checks = tuple(embedded.renamed(c, field.name, change.new_name) for c in state.checks)
    keys = tuple(
        UniqueKey(tuple(change.new_name if n == field.name else n for n in k.columns), k.primary)
        for k in state.keys
    )
    return replace(state, schema=schema, checks=checks, keys=keys)


def _rename_table(state: TableState, change: RenameTable, table: str) -> TableState:
    if not change.new_name:
        raise BadRequest(f"the new name of {table!r} is empty")
    return replace(state, name=change.new_name)


def _set_default(state: TableState, change: SetDefault, table: str) -> TableState:
    position = _found(state, change.column, table)
    field = state.schema.field(position)
    return replace(
        state, schema=_with_field(state, position, with_default(field, change.expression))
    )


def _change_type(state: TableState, change: ChangeType, table: str) -> TableState:
    position = _found(state, change.field.name, table)
    old = state.schema.field(position)
    metadata = {**(change.field.metadata or {}), **(old.metadata or {})}
    plain = {k: v for k, v in metadata.items() if not k.startswith(b"ARROW:extension")}
    extension = {
        k: v for k, v in (change.field.metadata or {}).items() if k.startswith(b"ARROW:extension")
    }
    new = change.field.with_name(old.name).with_nullable(old.nullable)
    new = _with_fitting_default(new.with_metadata({**plain, **extension} or None))
    if change.expression:
        embedded.row_expression(change.expression, state.schema)

    def changed(chunk: Chunk) -> pa.RecordBatch:
        values = _converted(state, chunk, position, new, change.expression)
        if values.null_count and not new.nullable and chunk.live():
            _refuse_null_results(chunk, values, new)
        return chunk.batch.set_column(position, new.name, values)

    after = rewritten(state, _with_field(state, position, new), changed)
    for text in after.checks:
        _still_valid(text, after.schema)
    _verify(after, table, after.checks, after.keys)
    return after


def _with_fitting_default(field: pa.Field) -> pa.Field:
    text = default_of(field)
    new = stored_field(with_default(field, ""))
    try:
        return new if text is None else with_default(new, text)
    except BadRequest as error:
        raise FailedPrecondition(f"{error}; drop the default first") from None


def _converted(
    state: TableState, chunk: Chunk, position: int, new: pa.Field, expression: str
) -> pa.Array:
    try:
        if not expression:
            old = state.schema.field(position)
            return embedded.explicit_cast(chunk.batch.column(position), old, new)
        return embedded.evaluate(expression, as_table(state.schema, [chunk.batch]), new)
    except BadRequest as error:
        raise FailedPrecondition(f"a value does not survive as {new.type}: {error}"[:490]) from None


def _refuse_null_results(chunk: Chunk, values: pa.Array, field: pa.Field) -> None:
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    if chunk.deleted is not None:
        nulls = nulls & ~chunk.deleted
    if nulls.any():
        raise FailedPrecondition(f"column {field.name!r} is NOT NULL, but a new value is NULL")


def _still_valid(text: str, schema: pa.Schema) -> None:
    try:
        embedded.check_expression(text, schema)
    except BadRequest as error:
        raise FailedPrecondition(str(error)) from None


def _set_not_null(state: TableState, change: SetNotNull, table: str) -> TableState:
    position = _found(state, change.column, table)
    field = state.schema.field(position)
    _refuse_nulls(state, position, table)
    return replace(state, schema=_with_field(state, position, field.with_nullable(False)))


def _refuse_nulls(state: TableState, position: int, table: str) -> None:
    nulls = sum(batch.column(position).null_count for batch in live_batches(state))
    if nulls:
        name = state.schema.field(position).name
        raise FailedPrecondition(
            f"column {table}.{name} has {nulls} NULL values; update them first"
        )


def _drop_not_null(state: TableState, change: DropNotNull, table: str) -> TableState:
    position = _found(state, change.column, table)
    field = state.schema.field(position)
    if any(key.primary and field.name in key.columns for key in state.keys):
        raise FailedPrecondition(f"column {table}.{field.name} belongs to the primary key")
    return replace(state, schema=_with_field(state, position, field.with_nullable(True)))


def _add_check(state: TableState, change: AddCheck, table: str) -> TableState:
    text = checked(change.expression, state.schema, state.name)
    _verify(state, table, (text,), ())
    return replace(state, checks=(*state.checks, text))


def _add_key(state: TableState, change: AddKey, table: str) -> TableState:
    key = checked_key(state.schema, change.key)
    if key.primary:
        if any(other.primary for other in state.keys):
            raise FailedPrecondition(f"table {table!r} has a primary key already")
        for name in key.columns:
            _refuse_nulls(state, _found(state, name, table), table)
    _verify(state, table, (), (key,))
    schema = with_required_key(state.schema, key)
    return replace(state, schema=schema, keys=(*state.keys, key))


def _verify(
    state: TableState, table: str, checks: tuple[str, ...], keys: tuple[UniqueKey, ...]
) -> None:
    """Whether the rows that are there obey; raises FailedPrecondition."""
    if not checks and not keys:
        return
    batches = list(live_batches(state))
    try:
        for text in checks if batches else ():
            refuse_violation(table, text, as_table(state.schema, batches))
        for key in keys:
            refuse_duplicates(table, key, key_table(state, key, batches), (), state)
    except (ConstraintViolation, DuplicateKey) as error:
        raise FailedPrecondition(str(error)) from None


def _add_field(state: TableState, change: AddField, table: str) -> TableState:
    if not change.field.name:
        raise BadRequest("a field needs a name")
    edit = fields.adding(stored_field(change.field))
    try:
        return _edited(state, change.path, edit, table)
    except AlreadyExists:
        if change.if_not_exists:
            return state
        raise


def _remove_field(state: TableState, change: RemoveField, table: str) -> TableState:
    edit = fields.removing(_last(change.path))
    try:
        return _edited(state, change.path[:-1], edit, table)
    except NotFound:
        if change.if_exists:
            return state
        raise


def _rename_field(state: TableState, change: RenameField, table: str) -> TableState:
    if not change.new_name:
        raise BadRequest("the new name of the field is empty")
    edit = fields.renaming(_last(change.path), change.new_name)
    return _edited(state, change.path[:-1], edit, table)


def _last(path: tuple[str, ...]) -> str:
    if len(path) < 2:  # noqa: PLR2004 - a column and a field in it
        raise BadRequest(f"{'.'.join(path)!r} is no path to a field")
    return path[-1]


def _edited(
    state: TableState,
    path: tuple[str, ...],
    edit: tuple[fields.Edit, fields.Columns],
    table: str,
) -> TableState:
    if not path:
        raise BadRequest("the path to the STRUCT is empty")
    position = _found(state, path[0], table)
    old = state.schema.field(position)
    new = old.with_type(fields.edited_type(old.type, path[1:], edit[0]))

    def changed(chunk: Chunk) -> pa.RecordBatch:
        values = fields.edited_array(chunk.batch.column(position), new.type, path[1:], edit[1])
        return chunk.batch.set_column(position, new.name, values)

    after = rewritten(state, _with_field(state, position, new), changed)
    for text in after.checks:
        _still_valid(text, after.schema)
    return after


_STEPS: dict[type, Callable[[TableState, Any, str], TableState]] = {
    AddColumn: _add_column,
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
