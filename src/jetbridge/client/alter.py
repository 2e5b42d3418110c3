"""ALTER TABLE of the typed client."""

from collections.abc import Sequence

import pyarrow as pa

from jetbridge.client.listing import TableListing
from jetbridge.client.session import ClientSession
from jetbridge.wire import messages
from jetbridge.wire.codec import Blob


class AlterCalls(ClientSession):
    """Alter tables. A transaction does not contain these calls: what they change stays changed.

    Every method returns the table as it is afterwards. It raises NotFound if there is no such
    schema, table or column, BadRequest if the server cannot read the request, and NotSupported if
    the catalog cannot make the change.
    """

    def add_column(
        self, schema: str, table: str, field: pa.Field, if_not_exists: bool = False
    ) -> TableListing:
        """Add a column behind the others; its rows get the default of the field, or NULL.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            field: The name and the type of the column.
            if_not_exists: Do nothing if the table has the column.

        Example:
            >>> client.add_column("shop", "orders", pa.field("note", pa.string())).schema.names
            ['id', 'city', 'price', 'note']
        """
        request = messages.AddColumnRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_schema=_one_field(field),
            if_column_not_exists=if_not_exists,
        )
        return self._change("add_column", request)

    def remove_column(
        self,
        schema: str,
        table: str,
        column: str,
        *,
        if_exists: bool = False,
        cascade: bool = False,
    ) -> TableListing:
        """Remove a column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.
            if_exists: Do nothing if there is no such column.
            cascade: Remove what depends on the column too.

        Example:
            >>> client.remove_column("shop", "orders", "price").schema.names
            ['id', 'city']
        """
        request = messages.RemoveColumnRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            removed_column=column,
            if_column_exists=if_exists,
            cascade=cascade,
        )
        return self._change("remove_column", request)

    def rename_column(self, schema: str, table: str, column: str, new_name: str) -> TableListing:
        """Rename a column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.
            new_name: Its new name.

        Example:
            >>> client.rename_column("shop", "orders", "city", "town").schema.names
            ['id', 'town', 'price']
        """
        request = messages.RenameColumnRequest(
            catalog=self.catalog, schema=schema, name=table, old_name=column, new_name=new_name
        )
        return self._change("rename_column", request)

    def rename_table(self, schema: str, table: str, new_name: str) -> TableListing:
        """Rename a table within its schema.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            new_name: The new name of the table.

        Example:
            >>> client.rename_table("shop", "orders", "sales").name
            'sales'
        """
        request = messages.RenameTableRequest(
            catalog=self.catalog, schema=schema, name=table, new_table_name=new_name
        )
        return self._change("rename_table", request)

    def set_default(self, schema: str, table: str, column: str, expression: str) -> TableListing:
        """Set the value that rows get where an INSERT leaves the column out.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.
            expression: The value, in DuckDB's SQL.

        Example:
            >>> table = client.set_default("shop", "orders", "city", "'Ulm'")
            >>> client.insert("shop", "orders", pa.table({"id": [4]})).affected_rows
            1
            >>> client.read("shop", "orders", ["city"])["city"].to_pylist()[-1]
            'Ulm'
        """
        request = messages.SetDefaultRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_name=column,
            expression=expression,
        )
        return self._change("set_default", request)

    def change_column_type(
        self, schema: str, table: str, field: pa.Field, expression: str = ""
    ) -> TableListing:
        """Change the type of a column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            field: The name of the column and its new type.
            expression: The new value, in DuckDB's SQL over the old row. Default: a cast.

        Example:
            >>> field = pa.field("price", pa.decimal128(9, 2))
            >>> client.change_column_type("shop", "orders", field).schema.field("price").type
            Decimal128Type(decimal128(9, 2))
        """
        request = messages.ChangeColumnTypeRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_schema=_one_field(field),
            expression=expression,
        )
        return self._change("change_column_type", request)

    def set_not_null(self, schema: str, table: str, column: str) -> TableListing:
        """Forbid NULL in a column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.

        Raises:
            ConstraintViolation: A row has NULL in the column.

        Example:
            >>> client.set_not_null("shop", "orders", "city").schema.field("city").nullable
            False
        """
        return self._change("set_not_null", self._column_only(schema, table, column))

    def drop_not_null(self, schema: str, table: str, column: str) -> TableListing:
        """Allow NULL in a column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.

        Example:
            >>> client.drop_not_null("shop", "orders", "id").schema.field("id").nullable
            True
        """
        return self._change("drop_not_null", self._column_only(schema, table, column))

    def add_constraint(self, schema: str, table: str, constraint: str) -> TableListing:
        """Add a CHECK, UNIQUE or PRIMARY KEY constraint.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            constraint: The constraint as in CREATE TABLE.

        Raises:
            ConstraintViolation: A row breaks the constraint.

        Example:
            >>> client.add_constraint("shop", "orders", "CHECK (price > 0)").checks
            ('(price > 0)',)
        """
        request = messages.AddConstraintRequest(
            catalog=self.catalog, schema=schema, name=table, constraint=constraint
        )
        return self._change("add_constraint", request)

    def set_layout(
        self,
        schema: str,
        table: str,
        *,
        partition_by: str | None = None,
        sort_by: str | None = None,
    ) -> TableListing:
        """Set how a lake lays out the files of a table; other catalogs raise NotSupported.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            partition_by: Partitions, as `day(ts), bucket(8, id)`. Empty: none. None: as before.
            sort_by: Sort order, as `id, ts DESC`. Empty: none. None: as before.

        Example:
            >>> client.set_layout("shop", "orders", sort_by="id")
            Traceback (most recent call last):
                ...
            jetbridge.errors.NotSupported: table shop.orders does not support a layout
        """
        request = messages.SetLayoutRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            partition_by=partition_by,
            sort_by=sort_by,
        )
        return self._change("set_layout", request)

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

        Example:
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
            column_schema=_one_field(field),
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
            if_exists: Do nothing if there is no such field.
            cascade: Remove what depends on the field too.

        Example:
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

        Example:
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

    def _column_only(self, schema: str, table: str, column: str) -> messages.ColumnRequest:
        return messages.ColumnRequest(
            catalog=self.catalog, schema=schema, name=table, column_name=column
        )


def _one_field(field: pa.Field) -> Blob:
    return Blob(pa.schema([field]).serialize().to_pybytes())
