"""Creates and drops schemas and tables by the typed client."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from jetbridge.client.listing import TableListing
from jetbridge.client.session import ClientSession, pack
from jetbridge.wire import messages
from jetbridge.wire.codec import Blob


class DdlCalls(ClientSession):
    """Create and drop schemas and tables. A transaction does not contain these calls.

    Every method raises NotSupported if the catalog cannot make the change.
    """

    def create_schema(
        self, name: str, comment: str | None = None, tags: Mapping[str, str] | None = None
    ) -> None:
        """Create a schema.

        Args:
            name: The name of the schema.
            comment: A comment on the schema.
            tags: Names and values that the catalog keeps with the schema.

        Raises:
            AlreadyExists: The catalog has a schema of this name.

        Examples:
            >>> client.create_schema("archive", comment="sold until last year")
            >>> [schema.name for schema in client.list_schemas()]
            ['archive', 'shop']
        """
        request = messages.CreateSchemaRequest(
            catalog_name=self.catalog, schema=name, comment=comment, tags=dict(tags or {})
        )
        self.action("create_schema", pack(request))

    def drop_schema(self, name: str, ignore_not_found: bool = False) -> None:
        """Drop an empty schema.

        Args:
            name: The name of the schema.
            ignore_not_found: Do nothing if the schema does not exist.

        Raises:
            NotFound: The schema does not exist.
            FailedPrecondition: The schema has tables.

        Examples:
            >>> client.drop_schema("archive", ignore_not_found=True)
        """
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
        """Create a table.

        Args:
            schema: The schema of the table.
            name: The name of the table.
            arrow_schema: The columns. A field with `nullable=False` becomes NOT NULL.
            on_conflict: What to do if the table exists: `error`, `ignore` or `replace`.
            checks: The expressions of CHECK constraints, in DuckDB's SQL.
            primary_key: The columns of the primary key.
            unique: The columns of each UNIQUE constraint: a name, or several.

        Returns:
            The table as the server describes it.

        Raises:
            AlreadyExists: The table exists, and `on_conflict` is `error`.
            NotFound: The schema does not exist.
            BadRequest: A column or a constraint is not valid.

        Examples:
            >>> columns = pa.schema([pa.field("id", pa.int64()), pa.field("rating", pa.int8())])
            >>> table = client.create_table(
            ...     "shop", "reviews", columns, checks=["rating <= 5"], primary_key=["id"]
            ... )
            >>> table.schema.names
            ['id', 'rating']
        """
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
        """Drop a table with all its rows.

        Args:
            schema: The schema of the table.
            name: The name of the table.
            ignore_not_found: Do nothing if the table does not exist.

        Raises:
            NotFound: The schema or the table does not exist.

        Examples:
            >>> client.drop_table("shop", "orders")
            >>> client.tables("shop")
            []
        """
        self._drop("table", schema, name, ignore_not_found)

    def _drop(self, object_type: str, schema: str, name: str, ignore_not_found: bool) -> None:
        request = messages.DropRequest(
            type=object_type,
            catalog_name=self.catalog,
            schema_name=schema,
            name=name,
            ignore_not_found=ignore_not_found,
        )
        self.action(f"drop_{object_type}", pack(request))
        self._known.clear()


def _unique_clause(columns: Sequence[str]) -> str:
    quoted = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    return f"UNIQUE({quoted})"
