"""Runs ALTER TABLE: fills in the types that DuckDB determines, then the table changes itself."""

import pyarrow as pa

from jetbridge.catalog import (
    AddColumn,
    AddField,
    Alteration,
    CanAlter,
    CanLayOut,
    ChangeType,
    Table,
    supports,
)
from jetbridge.dialects.quoting import identifier
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.pipeline.context import StatementContext
from jetbridge.pipeline.parsing.column_definitions import parse_column_definitions
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterTable,
    ChangeColumnType,
    SetLayout,
)
from jetbridge.pipeline.report import Report, StatementResult

_STATEMENT = "ALTER TABLE"


def alter(context: StatementContext, statement: AlterTable) -> StatementResult:
    """Run ALTER TABLE."""
    path = context.names.path(statement.target)
    name = ".".join(path)
    try:
        table = context.names.writable_table(path)
    except NotFound:
        if not statement.if_exists:
            raise
        note = "it does not exist; nothing was done"
        return StatementResult(Report(_STATEMENT, name, note=note))
    if isinstance(statement.action, SetLayout):
        _set_layout(table, name, statement.action)
        note = "it applies to new rows; `jetbridge optimize` rewrites the others"
        return StatementResult(Report(_STATEMENT, name, note=note))
    alteration = _alteration(context, statement.action)
    if not supports(table, CanAlter):
        raise NotSupported(f"table {name!r} does not support ALTER TABLE")
    table.alter(alteration)
    return StatementResult(Report(_STATEMENT, name))


def _set_layout(table: Table, name: str, layout: SetLayout) -> None:
    if not supports(table, CanLayOut):
        raise NotSupported(f"table {name!r} does not support partitions and a sort order")
    table.lay_out(layout.partition_by, layout.sort_by)


def _alteration(
    context: StatementContext, action: Alteration | AddDeclaredColumn | ChangeColumnType
) -> Alteration:
    """Return the change of the table, with the types that only DuckDB can determine."""
    if isinstance(action, AddDeclaredColumn):
        *parents, name = action.path
        field = _read_column(context, f"{identifier(name)} {action.declaration}")
        if parents:
            return AddField(tuple(parents), field, action.if_not_exists)
        return AddColumn(field, action.if_not_exists)
    if isinstance(action, ChangeColumnType):
        field = _read_column(context, f"c {action.data_type}")
        return ChangeType(field.with_name(action.column), action.expression)
    return action


def _read_column(context: StatementContext, definition: str) -> pa.Field:
    """Return one column as CREATE TABLE would declare it."""
    with context.connect() as connection:
        columns = parse_column_definitions(connection, f"({definition})")
    if len(columns.schema) != 1:
        raise BadRequest("ALTER TABLE changes one column at a time")
    return columns.schema.field(0)
