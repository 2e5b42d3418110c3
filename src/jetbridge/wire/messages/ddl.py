"""Requests that create, drop and alter (airport-protocol: one msgpack map each)."""

from typing import Annotated

from msgspec import Meta, Struct

from jetbridge.wire.codec import Blob

Required = Annotated[str, Meta(min_length=1)]


class CreateSchema(Struct, frozen=True, kw_only=True):
    catalog_name: str = ""
    schema: Required
    comment: str | None = None
    tags: dict[str, str] | None = None


class DropObject(Struct, frozen=True, kw_only=True):
    """DROP SCHEMA sends the schema in `name`, often with an empty `schema_name`."""

    type: str = ""
    catalog_name: str = ""
    schema_name: str = ""
    name: str = ""
    ignore_not_found: bool = False


class CreateTable(Struct, frozen=True, kw_only=True):
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


class AlterTable(Struct, frozen=True, kw_only=True):
    catalog: str = ""
    schema: Required
    name: Required
    ignore_not_found: bool = False


class AddColumn(AlterTable, frozen=True, kw_only=True):
    column_schema: Blob
    if_column_not_exists: bool = False


class RemoveColumn(AlterTable, frozen=True, kw_only=True):
    removed_column: Required
    if_column_exists: bool = False
    cascade: bool = False


class RenameColumn(AlterTable, frozen=True, kw_only=True):
    old_name: Required
    new_name: Required


class RenameTable(AlterTable, frozen=True, kw_only=True):
    new_table_name: Required


class SetDefault(AlterTable, frozen=True, kw_only=True):
    column_name: Required
    expression: Required


class ChangeColumnType(AlterTable, frozen=True, kw_only=True):
    column_schema: Blob
    expression: str = ""


class ColumnOnly(AlterTable, frozen=True, kw_only=True):
    """SET NOT NULL and DROP NOT NULL."""

    column_name: Required


class AddConstraint(AlterTable, frozen=True, kw_only=True):
    constraint: Required


class SetLayout(AlterTable, frozen=True, kw_only=True):
    """Ours, not Airport's: nil leaves as it is, an empty text takes away."""

    partition_by: str | None = None
    sort_by: str | None = None


class AddField(AlterTable, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=1)]
    column_schema: Blob
    if_field_not_exists: bool = False


class RemoveField(AlterTable, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=2)]
    if_column_exists: bool = False
    cascade: bool = False


class RenameField(AlterTable, frozen=True, kw_only=True):
    column_path: Annotated[list[Required], Meta(min_length=2)]
    new_name: Required
