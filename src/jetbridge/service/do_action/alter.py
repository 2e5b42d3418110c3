"""Alters tables. A table of actions maps each request to the alteration that it describes."""

from collections.abc import Callable, Iterator
from typing import Any

from jetbridge.catalog import (
    AddColumn,
    AddField,
    Alteration,
    CanAlter,
    CanLayOut,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RemoveField,
    RenameColumn,
    RenameField,
    RenameTable,
    SetDefault,
    SetNotNull,
    Table,
    supports,
)
from jetbridge.duckdb_syntax.constraints import parse_constraint
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.service.call_context import CallContext, ServedCatalog
from jetbridge.service.do_action.registry import ActionContext, action
from jetbridge.wire import messages
from jetbridge.wire.schemas import read_single_field

_CHANGES: dict[str, tuple[type[messages.AlterTableRequest], Callable[[Any], Alteration], str]] = {
    "add_column": (
        messages.AddColumnRequest,
        lambda r: AddColumn(_field(r, "add_column"), r.if_column_not_exists),
        "Add a column",
    ),
    "remove_column": (
        messages.RemoveColumnRequest,
        lambda r: RemoveColumn(r.removed_column, r.if_column_exists, r.cascade),
        "Remove a column",
    ),
    "rename_column": (
        messages.RenameColumnRequest,
        lambda r: RenameColumn(r.old_name, r.new_name),
        "Rename a column",
    ),
    "rename_table": (
        messages.RenameTableRequest,
        lambda r: RenameTable(r.new_table_name),
        "Rename a table",
    ),
    "set_default": (
        messages.SetDefaultRequest,
        lambda r: SetDefault(r.column_name, r.expression),
        "Set the default of a column",
    ),
    "change_column_type": (
        messages.ChangeColumnTypeRequest,
        lambda r: ChangeType(_field(r, "change_column_type"), r.expression),
        "Change the type of a column",
    ),
    "set_not_null": (
        messages.ColumnRequest,
        lambda r: SetNotNull(r.column_name),
        "Forbid NULL in a column",
    ),
    "drop_not_null": (
        messages.ColumnRequest,
        lambda r: DropNotNull(r.column_name),
        "Allow NULL in a column",
    ),
    "add_constraint": (
        messages.AddConstraintRequest,
        lambda r: parse_constraint(r.constraint),
        "Add a CHECK or UNIQUE constraint",
    ),
    "add_field": (
        messages.AddFieldRequest,
        lambda r: AddField(tuple(r.column_path), _field(r, "add_field"), r.if_field_not_exists),
        "Add a field to a STRUCT column",
    ),
    "remove_field": (
        messages.RemoveFieldRequest,
        lambda r: RemoveField(tuple(r.column_path), r.if_column_exists, r.cascade),
        "Remove a field of a STRUCT column",
    ),
    "rename_field": (
        messages.RenameFieldRequest,
        lambda r: RenameField(tuple(r.column_path), r.new_name),
        "Rename a field of a STRUCT column",
    ),
}


def _register(
    name: str, message: type[messages.AlterTableRequest], to_change: Any, description: str
) -> None:
    def handler(
        request: messages.AlterTableRequest, call: CallContext, services: ActionContext
    ) -> Iterator[bytes]:
        change = to_change(request)
        if isinstance(change, AddField) and call.is_duckdb:
            _refuse_lost_name(change, request, call.catalog(request.catalog).name)

        def alter(schema: str, table: Table) -> Table:
            if not supports(table, CanAlter):
                raise NotSupported(f"table {schema}.{request.name} does not support ALTER TABLE")
            return table.alter(change)

        yield from _describe_table(request, call, services, alter)

    handler.__doc__ = f"{description} and return the FlightInfo of the changed table."
    action(name, message)(handler)


def _refuse_lost_name(change: AddField, request: messages.AlterTableRequest, catalog: str) -> None:
    """Refuse a field whose name is lost: DuckDB's extension sends the column's name instead."""
    if change.field.name == change.path[0]:
        raise NotSupported(
            f"DuckDB's client does not send the name of the new field of {change.path[0]!r}; "
            f"use FROM {catalog}.jetbridge.run("
            f"'ALTER TABLE {request.schema}.{request.name} ADD COLUMN ...')"
        )


@action("set_layout", messages.SetLayoutRequest, text=True)
def set_layout(
    request: messages.SetLayoutRequest, call: CallContext, services: ActionContext
) -> Iterator[bytes]:
    """Set partitions and sort order, and return the FlightInfo of the changed table."""
    if request.partition_by is None and request.sort_by is None:
        raise BadRequest("set_layout: field 'partition_by' or 'sort_by' is required")

    def lay_out(schema: str, table: Table) -> Table:
        if not supports(table, CanLayOut):
            raise NotSupported(f"table {schema}.{request.name} does not support set_layout")
        return table.lay_out(request.partition_by, request.sort_by)

    yield from _describe_table(request, call, services, lay_out)


def _describe_table(
    request: messages.AlterTableRequest,
    call: CallContext,
    services: ActionContext,
    change: Callable[[str, Table], Table],
) -> Iterator[bytes]:
    """Change the table of a request, and yield the FlightInfo of the changed table.

    Yields nothing if the table does not exist and the request ignores that.
    """
    served = call.catalog(request.catalog)
    existing = _load(served, request)
    if existing is None:
        return
    schema, table = existing
    yield services.flights.table(served, schema, change(schema, table)).SerializeToString()


def _load(served: ServedCatalog, request: messages.AlterTableRequest) -> tuple[str, Table] | None:
    try:
        schema = served.catalog.load_schema(request.schema)
        return schema.info().name, schema.load_table(request.name)
    except NotFound:
        if request.ignore_not_found:
            return None
        raise


def _field(request: Any, action_name: str) -> Any:
    return read_single_field(request.column_schema, f"{action_name}: column_schema")


for _name, _change in _CHANGES.items():
    _register(_name, *_change)
