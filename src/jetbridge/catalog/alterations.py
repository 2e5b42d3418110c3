"""The changes ALTER TABLE can make, one frozen value each."""

from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog.values import UniqueKey


@dataclass(frozen=True)
class AddColumn:
    """Rows that exist get the field's `default` (metadata) or NULL."""

    field: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True)
class RemoveColumn:
    """`cascade` also drops the constraints that use the column; else they forbid it."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: str
    new_name: str


@dataclass(frozen=True)
class RenameTable:
    new_name: str


@dataclass(frozen=True)
class SetDefault:
    """`expression` is DuckDB SQL without columns; it applies to later inserts."""

    column: str
    expression: str


@dataclass(frozen=True)
class ChangeType:
    """`field` names the column and its new type; `expression` is DuckDB SQL over the old row."""

    field: pa.Field
    expression: str = ""


@dataclass(frozen=True)
class SetNotNull:
    column: str


@dataclass(frozen=True)
class DropNotNull:
    column: str


@dataclass(frozen=True)
class AddCheck:
    expression: str


@dataclass(frozen=True)
class AddKey:
    key: UniqueKey


@dataclass(frozen=True)
class AddField:
    """`path` leads to the STRUCT that gets the new field: a column name, then field names."""

    path: tuple[str, ...]
    field: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True)
class RemoveField:
    """`path` leads to the field itself."""

    path: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RenameField:
    path: tuple[str, ...]
    new_name: str


Alteration = (
    AddColumn
    | RemoveColumn
    | RenameColumn
    | RenameTable
    | SetDefault
    | ChangeType
    | SetNotNull
    | DropNotNull
    | AddCheck
    | AddKey
    | AddField
    | RemoveField
    | RenameField
)
