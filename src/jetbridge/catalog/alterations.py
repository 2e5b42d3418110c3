"""The changes that ALTER TABLE can make, as frozen values."""

from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog.values import UniqueKey


@dataclass(frozen=True)
class AddColumn:
    """Add a column at the end. Rows that exist get its default, or NULL.

    Attributes:
        field: Name, type, NOT NULL and the metadata `default` of the column.
        if_not_exists: Do nothing if the table has a column of this name.

    Examples:
        >>> table.alter(AddColumn(pa.field("note", pa.string()))).info().schema.names
        ['id', 'city', 'price', 'note']
    """

    field: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True)
class RemoveColumn:
    """Remove a column.

    Attributes:
        name: The name of the column.
        if_exists: Do nothing if the table has no such column.
        cascade: Also remove the constraints that use the column; without it, they are an error.

    Examples:
        >>> table.alter(RemoveColumn("price")).info().schema.names
        ['id', 'city']
    """

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """Rename a column.

    Attributes:
        name: The name of the column.
        new_name: Its new name.

    Examples:
        >>> table.alter(RenameColumn("city", "town")).info().schema.names
        ['id', 'town', 'price']
    """

    name: str
    new_name: str


@dataclass(frozen=True)
class RenameTable:
    """Rename the table within its schema.

    Attributes:
        new_name: The new name of the table.

    Examples:
        >>> table.alter(RenameTable("sales")).info().name
        'sales'
    """

    new_name: str


@dataclass(frozen=True)
class SetDefault:
    """Set the default of a column for rows that are inserted later.

    Attributes:
        column: The name of the column.
        expression: An expression in DuckDB's SQL that names no column; "" removes the default.

    Examples:
        >>> changed = table.alter(SetDefault("city", "'Ulm'"))
        >>> changed.info().schema.field("city").metadata
        {b'default': b"'Ulm'"}
    """

    column: str
    expression: str


@dataclass(frozen=True)
class ChangeType:
    """Change the type of a column.

    Attributes:
        field: The name of the column and its new type.
        expression: The new value in DuckDB's SQL, from the columns of the old row. Empty: a cast.

    Examples:
        >>> changed = table.alter(ChangeType(pa.field("price", pa.string())))
        >>> changed.info().schema.field("price").type
        DataType(string)
    """

    field: pa.Field
    expression: str = ""


@dataclass(frozen=True)
class SetNotNull:
    """Forbid NULL in a column.

    Attributes:
        column: The name of the column.

    Examples:
        >>> table.alter(SetNotNull("city")).info().schema.field("city").nullable
        False
    """

    column: str


@dataclass(frozen=True)
class DropNotNull:
    """Allow NULL in a column.

    Attributes:
        column: The name of the column.

    Examples:
        >>> table.alter(DropNotNull("id")).info().schema.field("id").nullable
        True
    """

    column: str


@dataclass(frozen=True)
class AddCheck:
    """Add a CHECK constraint, which the existing rows must meet.

    Attributes:
        expression: The condition, in DuckDB's SQL.

    Examples:
        >>> table.alter(AddCheck("price > 0")).info().checks
        ('(price > 0)',)
    """

    expression: str


@dataclass(frozen=True)
class AddKey:
    """Add a PRIMARY KEY or UNIQUE constraint, which the existing rows must meet.

    Attributes:
        key: The columns, and which of the two constraints it is.

    Examples:
        >>> table.alter(AddKey(UniqueKey(("id",)))).info().keys
        (UniqueKey(columns=('id',), primary=False),)
    """

    key: UniqueKey


@dataclass(frozen=True)
class AddField:
    """Add a field to a STRUCT. It is NULL in rows that exist.

    Attributes:
        path: The name of the column, then the names of the fields down to the STRUCT.
        field: Name and type of the new field.
        if_not_exists: Do nothing if the STRUCT has a field of this name.

    Examples:
        >>> AddField(("address",), pa.field("zip", pa.string())).path
        ('address',)
    """

    path: tuple[str, ...]
    field: pa.Field
    if_not_exists: bool = False


@dataclass(frozen=True)
class RemoveField:
    """Remove a field of a STRUCT.

    Attributes:
        path: The name of the column, then the names of the fields down to the one to remove.
        if_exists: Do nothing if there is no such field.
        cascade: Also remove the constraints that use the field; without it, they are an error.

    Examples:
        >>> RemoveField(("address", "zip")).path
        ('address', 'zip')
    """

    path: tuple[str, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class RenameField:
    """Rename a field of a STRUCT.

    Attributes:
        path: The name of the column, then the names of the fields down to the one to rename.
        new_name: The new name of the field.

    Examples:
        >>> RenameField(("address", "zip"), "postcode").new_name
        'postcode'
    """

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
