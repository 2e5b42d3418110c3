"""Alters the fields of STRUCT columns by the typed client."""

from collections.abc import Sequence

import pyarrow as pa

from jetbridge.client.listing import TableListing
from jetbridge.client.session import ClientSession, field_schema
from jetbridge.wire import messages


class AlterFieldCalls(ClientSession):
    """Add, remove and rename fields of STRUCT columns. A transaction does not contain these calls.

    Every method returns the changed table. Every method raises NotSupported if the catalog cannot
    make the change.
    """

    def add_field(
        self,
        schema: str,
        table: str,
        path: Sequence[str],
        field: pa.Field,
        if_not_exists: bool = False,
    ) -> TableListing:
        """Add a field to a STRUCT column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            path: The path to the STRUCT: the name of the column, then those of fields.
            field: The name and the type of the field.
            if_not_exists: Do nothing if the STRUCT has the field.

        Raises:
            NotFound: The schema, the table or the column does not exist.
            AlreadyExists: The STRUCT has the field, and `if_not_exists` is False.

        Examples:
            >>> size = pa.field("size", pa.struct([pa.field("width", pa.int32())]))
            >>> table = client.add_column("shop", "orders", size)
            >>> height = pa.field("height", pa.int32())
            >>> table = client.add_field("shop", "orders", ["size"], height)
            >>> [field.name for field in table.schema.field("size").type]
            ['width', 'height']
        """
        request = messages.AddFieldRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_path=list(path),
            column_schema=field_schema(field),
            if_field_not_exists=if_not_exists,
        )
        return self._change("add_field", request)

    def remove_field(
        self,
        schema: str,
        table: str,
        path: Sequence[str],
        *,
        if_exists: bool = False,
        cascade: bool = False,
    ) -> TableListing:
        """Remove a field of a STRUCT column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            path: The path to the field: the name of the column, then those of fields.
            if_exists: Do nothing if the field does not exist.
            cascade: Remove what depends on the field too.

        Raises:
            NotFound: The schema, the table, the column or the field does not exist.
            FailedPrecondition: It is the last field of the STRUCT.

        Examples:
            >>> size = pa.struct([pa.field("width", pa.int32()), pa.field("height", pa.int32())])
            >>> table = client.add_column("shop", "orders", pa.field("size", size))
            >>> table = client.remove_field("shop", "orders", ["size", "height"])
            >>> [field.name for field in table.schema.field("size").type]
            ['width']
        """
        request = messages.RemoveFieldRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_path=list(path),
            if_column_exists=if_exists,
            cascade=cascade,
        )
        return self._change("remove_field", request)

    def rename_field(
        self, schema: str, table: str, path: Sequence[str], new_name: str
    ) -> TableListing:
        """Rename a field of a STRUCT column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            path: The path to the field: the name of the column, then those of fields.
            new_name: The new name of the field.

        Raises:
            NotFound: The schema, the table, the column or the field does not exist.
            AlreadyExists: The STRUCT has a field of the new name.

        Examples:
            >>> size = pa.field("size", pa.struct([pa.field("width", pa.int32())]))
            >>> table = client.add_column("shop", "orders", size)
            >>> table = client.rename_field("shop", "orders", ["size", "width"], "breadth")
            >>> [field.name for field in table.schema.field("size").type]
            ['breadth']
        """
        request = messages.RenameFieldRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_path=list(path),
            new_name=new_name,
        )
        return self._change("rename_field", request)
