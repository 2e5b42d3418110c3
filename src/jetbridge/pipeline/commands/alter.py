"""ALTER TABLE: what DuckDB says of a declaration, and the change that the table makes."""

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
from jetbridge.pipeline.parsing.column_definitions import parse_column_definitions
from jetbridge.pipeline.parsing.statements import (
    AddDeclaredColumn,
    AlterTable,
    ChangeColumnType,
    SetLayout,
)
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.session import Session, StatementResult


def alter(session: Session, statement: AlterTable) -> StatementResult:
    places = session.places()
    path = places.path(statement.target)
    name = ".".join(path)
    try:
        table = places.live_table(path)
    except NotFound:
        if not statement.if_exists:
            raise
        return StatementResult(Report("ALTER TABLE", name, note="there is none; nothing was done"))
    if isinstance(statement.action, SetLayout):
        _lay_out(table, name, statement.action)
        return StatementResult(
            Report("ALTER TABLE", name, note="for rows to come; see jetbridge optimize")
        )
    alteration = _alteration(session, statement.action)
    if not supports(table, CanAlter):
        raise NotSupported(f"table {name!r} takes no ALTER TABLE")
    table.alter(alteration)
    return StatementResult(Report("ALTER TABLE", name))


def _lay_out(table: Table, name: str, layout: SetLayout) -> None:
    if not supports(table, CanLayOut):
        raise NotSupported(f"table {name!r} has no partitions and no order")
    table.lay_out(layout.partition_by, layout.sort_by)


def _alteration(
    session: Session, action: Alteration | AddDeclaredColumn | ChangeColumnType
) -> Alteration:
    """Fill in the types that only DuckDB can tell."""
    if isinstance(action, AddDeclaredColumn):
        *parents, name = action.path
        field = _column(session, f"{identifier(name)} {action.declaration}")
        if parents:
            return AddField(tuple(parents), field, action.if_not_exists)
        return AddColumn(field, action.if_not_exists)
    if isinstance(action, ChangeColumnType):
        field = _column(session, f"c {action.data_type}")
        return ChangeType(field.with_name(action.column), action.expression)
    return action


def _column(session: Session, text: str) -> pa.Field:
    """One column, as CREATE TABLE would declare it."""
    with session.desk() as desk:
        declaration = parse_column_definitions(desk, f"({text})")
    if len(declaration.schema) != 1:
        raise BadRequest("ALTER TABLE takes one column at a time")
    return declaration.schema.field(0)
