"""Alters tables by the typed client."""

import pyarrow as pa

from jetbridge.client.listing import TableListing
from jetbridge.client.session import ClientSession, field_schema
from jetbridge.wire import messages


class AlterCalls(ClientSession):
    """Alter tables. A transaction does not contain these calls: what they change stays changed.

    Every method returns the changed table. Every method raises BadRequest if the server cannot read
    the request, and NotSupported if the catalog cannot make the change.
    """

    def add_column(
        self, schema: str, table: str, field: pa.Field, if_not_exists: bool = False
    ) -> TableListing:
        """Add a column after the others; existing rows get the default of the field, or NULL.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            field: The name and the type of the column.
            if_not_exists: Do nothing if the table has the column.

        Raises:
            NotFound: The schema or the table does not exist.
            AlreadyExists: The table has the column, and `if_not_exists` is False.

        Examples:
            >>> client.add_column("shop", "orders", pa.field("note", pa.string())).schema.names
            ['id', 'city', 'price', 'note']
        """
        request = messages.AddColumnRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_schema=field_schema(field),
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
            if_exists: Do nothing if the column does not exist.
            cascade: Remove what depends on the column too.

        Raises:
            NotFound: The schema, the table or the column does not exist.
            FailedPrecondition: It is the last column, or a constraint needs it.

        Examples:
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

        Raises:
            NotFound: The schema, the table or the column does not exist.
            AlreadyExists: The table has a column of the new name.

        Examples:
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

        Raises:
            NotFound: The schema or the table does not exist.
            AlreadyExists: The schema has a table of the new name.

        Examples:
            >>> client.rename_table("shop", "orders", "sales").name
            'sales'
        """
        request = messages.RenameTableRequest(
            catalog=self.catalog, schema=schema, name=table, new_table_name=new_name
        )
        return self._change("rename_table", request)

    def set_default(self, schema: str, table: str, column: str, expression: str) -> TableListing:
        """Set the value that rows get if an INSERT omits the column.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            column: The name of the column.
            expression: The value, in DuckDB's SQL.

        Raises:
            NotFound: The schema, the table or the column does not exist.
            BadRequest: The expression is not valid.

        Examples:
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

        Raises:
            NotFound: The schema, the table or the column does not exist.
            FailedPrecondition: A value does not fit the new type.

        Examples:
            >>> field = pa.field("price", pa.decimal128(9, 2))
            >>> client.change_column_type("shop", "orders", field).schema.field("price").type
            Decimal128Type(decimal128(9, 2))
        """
        request = messages.ChangeColumnTypeRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_schema=field_schema(field),
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
            NotFound: The schema, the table or the column does not exist.
            FailedPrecondition: A row has NULL in the column.

        Examples:
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

        Raises:
            NotFound: The schema, the table or the column does not exist.
            FailedPrecondition: The column belongs to the primary key.

        Examples:
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
            NotFound: The schema, the table or a column does not exist.
            BadRequest: The constraint is not valid.
            FailedPrecondition: A row breaks the constraint.

        Examples:
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
        """Set the partitions and the sort order of a table in a lake.

        Args:
            schema: The schema of the table.
            table: The name of the table.
            partition_by: The partitions, such as `day(ts), bucket(8, id)`. An empty string removes
                them, None keeps them.
            sort_by: The sort order, such as `id, ts DESC`. An empty string removes it, None keeps
                it.

        Raises:
            NotFound: The schema or the table does not exist.
            BadRequest: A term is not valid, or both arguments are None.
            NotSupported: The catalog is not a lake.

        Examples:
            >>> client.set_layout("shop", "orders", sort_by="id")  # doctest: +ELLIPSIS
            Traceback (most recent call last):
                ...
            jetbridge.errors.NotSupported: table shop.orders does not support PARTITIONED BY or ...
        """
        request = messages.SetLayoutRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            partition_by=partition_by,
            sort_by=sort_by,
        )
        return self._change("set_layout", request)

    def _column_only(self, schema: str, table: str, column: str) -> messages.ColumnRequest:
        return messages.ColumnRequest(
            catalog=self.catalog, schema=schema, name=table, column_name=column
        )
