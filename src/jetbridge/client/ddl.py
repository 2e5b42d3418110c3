"""Creating, altering and dropping."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from jetbridge.client.errors import reading_answer
from jetbridge.client.listing import TableListing, read_table
from jetbridge.client.session import ClientSession, pack
from jetbridge.wire import messages
from jetbridge.wire.codec import Blob
from jetbridge.wire.flight_pb2 import FlightInfo


class DdlCalls(ClientSession):
    """Not part of a transaction: what they do stays done."""

    def create_schema(
        self, name: str, comment: str | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        request = messages.CreateSchemaRequest(
            catalog_name=self.catalog, schema=name, comment=comment, tags=dict(tags or {})
        )
        self.action("create_schema", pack(request))

    def drop_schema(self, name: str, ignore_not_found: bool = False) -> None:
        """Only an empty schema can be dropped."""
        self._drop("schema", "", name, ignore_not_found)

    def create_table(  # noqa: PLR0913 - the clauses of CREATE TABLE
        self,
        schema: str,
        name: str,
        arrow_schema: pa.Schema,
        on_conflict: str = "error",
        checks: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        unique: Iterable[str | Sequence[str]] = (),
    ) -> TableListing:
        """`nullable=False` is NOT NULL. `unique` holds a column name or a list of them per key."""
        keys = [[key] if isinstance(key, str) else list(key) for key in unique]
        single = len(primary_key) == 1
        request = messages.CreateTableRequest(
            catalog_name=self.catalog,
            schema_name=schema,
            table_name=name,
            arrow_schema=Blob(arrow_schema.serialize().to_pybytes()),
            on_conflict=on_conflict,
            not_null_constraints=[i for i, f in enumerate(arrow_schema) if not f.nullable],
            unique_constraints=[],
            check_constraints=list(checks),
            primary_key_columns=list(primary_key) if single else [],
            unique_columns=[key[0] for key in keys if len(key) == 1],
            multi_key_primary_keys=[] if single else list(primary_key),
            extra_constraints=[_unique_clause(key) for key in keys if len(key) != 1],
        )
        return self._change("create_table", request)

    def drop_table(self, schema: str, name: str, ignore_not_found: bool = False) -> None:
        self._drop("table", schema, name, ignore_not_found)

    def add_column(
        self, schema: str, table: str, field: pa.Field, if_not_exists: bool = False
    ) -> TableListing:
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
        request = messages.RenameColumnRequest(
            catalog=self.catalog, schema=schema, name=table, old_name=column, new_name=new_name
        )
        return self._change("rename_column", request)

    def rename_table(self, schema: str, table: str, new_name: str) -> TableListing:
        request = messages.RenameTableRequest(
            catalog=self.catalog, schema=schema, name=table, new_table_name=new_name
        )
        return self._change("rename_table", request)

    def set_default(self, schema: str, table: str, column: str, expression: str) -> TableListing:
        """`expression` is DuckDB SQL."""
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
        """`field` is the column's name and new type; `expression` computes it from the old row."""
        request = messages.ChangeColumnTypeRequest(
            catalog=self.catalog,
            schema=schema,
            name=table,
            column_schema=_one_field(field),
            expression=expression,
        )
        return self._change("change_column_type", request)

    def set_not_null(self, schema: str, table: str, column: str) -> TableListing:
        return self._change("set_not_null", self._column_only(schema, table, column))

    def drop_not_null(self, schema: str, table: str, column: str) -> TableListing:
        return self._change("drop_not_null", self._column_only(schema, table, column))

    def add_constraint(self, schema: str, table: str, constraint: str) -> TableListing:
        """`constraint` as in SQL, e.g. `CHECK (price > 0)`."""
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
        """E.g. `day(ts), bucket(8, id)` and `id, ts DESC`; an empty text takes it away."""
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
        """`path` leads to the STRUCT: a column name, then field names."""
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
        """`path` leads to the field itself."""
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

    def _drop(self, kind: str, schema: str, name: str, ignore_not_found: bool) -> None:
        request = messages.DropRequest(
            type=kind,
            catalog_name=self.catalog,
            schema_name=schema,
            name=name,
            ignore_not_found=ignore_not_found,
        )
        self.action(f"drop_{kind}", pack(request))
        self._known.clear()

    def _change(self, action: str, request: msgspec.Struct) -> TableListing:
        body = self._ask(action, request)
        with reading_answer(action):
            flight = FlightInfo.FromString(body)
        listing = read_table(flight)
        self._known.clear()
        if self.transaction_id:
            # Its descriptor names the new columns, so that the transaction sees them.
            self._known.put(None, listing)
        return listing


def _one_field(field: pa.Field) -> Blob:
    return Blob(pa.schema([field]).serialize().to_pybytes())


def _unique_clause(columns: Sequence[str]) -> str:
    quoted = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    return f"UNIQUE({quoted})"
