"""Defines the requests of the actions in the Airport protocol. Each is one msgpack map.

The name of a class is that of its action, unless a docstring says otherwise.
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from jetbridge.wire.codec import Blob


class CatalogRequest(Struct, frozen=True, kw_only=True):
    """Name the catalog of list_schemas, catalog_version and create_transaction."""

    catalog_name: str = ""


Required = Annotated[str, Meta(min_length=1)]


class CreateSchemaRequest(Struct, frozen=True, kw_only=True):
    catalog_name: str = ""
    schema: Required
    comment: str | None = None
    tags: dict[str, str] | None = None


class DropRequest(Struct, frozen=True, kw_only=True):
    """Name what to drop. DROP SCHEMA sends the schema in `name`, `schema_name` is often empty."""

    type: str = ""
    catalog_name: str = ""
    schema_name: str = ""
    name: str = ""
    ignore_not_found: bool = False


class CreateTableRequest(Struct, frozen=True, kw_only=True):
    catalog_name: str = ""
    schema_name: Required
    table_name: Required
    arrow_schema: Blob
    on_conflict: str = "error"
    not_null_constraints: list[int] | None = None
    unique_constraints: list[int] | None = None
    check_constraints: list[str] | None = None
    primary_key_columns: list[str] | None = None
    unique_columns: list[str] | None = None
    multi_key_primary_keys: list[str] | None = None
    extra_constraints: list[str] | None = None


class AlterTableRequest(Struct, frozen=True, kw_only=True):
    """Name the table of an action that alters it."""

    catalog: str = ""
    schema: Required
    name: Required
    ignore_not_found: bool = False


class AddColumnRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_schema: Blob
    if_column_not_exists: bool = False


class RemoveColumnRequest(AlterTableRequest, frozen=True, kw_only=True):
    removed_column: Required
    if_column_exists: bool = False
    cascade: bool = False


class RenameColumnRequest(AlterTableRequest, frozen=True, kw_only=True):
    old_name: Required
    new_name: Required


class RenameTableRequest(AlterTableRequest, frozen=True, kw_only=True):
    new_table_name: Required


class SetDefaultRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_name: Required
    expression: Required


class ChangeColumnTypeRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_schema: Blob
    expression: str = ""


class ColumnRequest(AlterTableRequest, frozen=True, kw_only=True):
    """Name the column of SET NOT NULL and DROP NOT NULL."""

    column_name: Required


class AddConstraintRequest(AlterTableRequest, frozen=True, kw_only=True):
    constraint: Required


class SetLayoutRequest(AlterTableRequest, frozen=True, kw_only=True):
    """Set a layout. Nil keeps the old value, an empty text removes it. Not part of Airport."""

    partition_by: str | None = None
    sort_by: str | None = None


class AddFieldRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=1)]
    column_schema: Blob
    if_field_not_exists: bool = False


class RemoveFieldRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=2)]
    if_column_exists: bool = False
    cascade: bool = False


class RenameFieldRequest(AlterTableRequest, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=2)]
    new_name: Required


class ScanParameters(Struct, frozen=True, kw_only=True):
    """Hold the columns, the filter and the version of a scan."""

    json_filters: str = ""
    column_ids: list[int] | None = None
    table_function_parameters: Blob = Blob(b"")
    table_function_input_schema: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""


class EndpointsRequest(Struct, frozen=True, kw_only=True):
    descriptor: Blob
    parameters: ScanParameters = field(default_factory=ScanParameters)


class FlightInfoRequest(Struct, frozen=True, kw_only=True):
    descriptor: Blob
    at_unit: str = ""
    at_value: str = ""


class BindTableFunctionRequest(Struct, frozen=True, kw_only=True):
    """Hold the arguments of a table function, for table_function_flight_info."""

    descriptor: Blob
    parameters: Blob = Blob(b"")
    table_input_schema: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""


class InOutRequest(Struct, frozen=True, kw_only=True):
    """Hold the metadata that opens the exchange of a table in/out function."""

    json_filters: str = ""
    column_ids: list[int] | None = None
    parameters: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""
