"""Resolves the names in a statement to tables of one snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jetbridge.catalog import (
    AsOf,
    CanDefaultSchema,
    CanSnapshot,
    CanTravel,
    Catalog,
    Schema,
    Table,
    supports,
)
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import BadRequest, FailedPrecondition, NotFound, NotSupported
from jetbridge.pipeline.parsing.statements import ObjectName

DEFAULT_SCHEMA = "main"
# Catalog, schema and table.
Path = tuple[str, str, str]


@dataclass(frozen=True)
class SearchPath:
    """Hold the catalog and the schema of names that omit them."""

    catalog: str
    schema: str = DEFAULT_SCHEMA


@dataclass(frozen=True)
class NameResolver:
    """Resolve the names of one statement.

    `snapshots` has each catalog as it was when the statement, or its transaction, first read it.
    `read_only` are the catalogs that were attached READ_ONLY.
    """

    catalogs: Mapping[str, Catalog]
    search_path: SearchPath
    read_only: frozenset[str] = frozenset()
    snapshots: dict[str, Catalog] = field(default_factory=dict)

    def path(self, name: ObjectName) -> Path:
        """Return all three parts. In `a.b`, `a` is a schema, or else a catalog."""
        catalog, schema = self._catalog_and_schema(name)
        return catalog, self.default_schema(catalog) if schema is None else schema, name.name

    def duckdb_path(self, name: ObjectName) -> Path:
        """Return the path under which DuckDB looks the name up.

        A name without a schema is in `main`.
        """
        catalog, schema = self._catalog_and_schema(name)
        return catalog, DEFAULT_SCHEMA if schema is None else schema, name.name

    def resolve_path(self, duckdb_path: Path) -> Path:
        """Return the path of the table that DuckDB looks up under this path."""
        catalog, schema, name = duckdb_path
        if catalog not in self.catalogs or schema != DEFAULT_SCHEMA:
            return duckdb_path
        return catalog, self.default_schema(catalog), name

    def default_schema(self, catalog: str) -> str:
        """Return the schema of names that have none: `main`, or else the catalog's own default."""
        live, current = self.catalogs[catalog], self._readable_catalog(catalog)
        if not supports(live, CanDefaultSchema) or _has_schema(current, DEFAULT_SCHEMA):
            return DEFAULT_SCHEMA
        own = live.default_schema()
        return own if _has_schema(current, own) else DEFAULT_SCHEMA

    def _catalog_and_schema(self, name: ObjectName) -> tuple[str, str | None]:
        """Return None for the schema if neither the name nor the search path has one."""
        search_path = self.search_path
        if name.catalog is not None:
            return self._require_catalog(name.catalog), name.schema
        if name.schema is not None:
            catalog = self.find_catalog(name.schema)
            if catalog is None or _has_schema(self.catalog(search_path.catalog), name.schema):
                return search_path.catalog, name.schema
            if catalog != search_path.catalog:
                return catalog, None
        schema = search_path.schema
        return search_path.catalog, None if schema == DEFAULT_SCHEMA else schema

    def schema_path(self, name: ObjectName) -> tuple[str, str]:
        """Return the catalog and the name of a schema, which is written as `s` or `c.s`."""
        if name.catalog is not None:
            raise BadRequest(f"the schema name {name} has too many parts")
        if name.schema is None:
            return self.search_path.catalog, name.name
        return self._require_catalog(name.schema), name.name

    def find_catalog(self, name: str) -> str | None:
        """Return the name of a catalog in its own spelling; None if no catalog has this name."""
        return next((catalog for catalog in self.catalogs if fold(catalog) == fold(name)), None)

    def _require_catalog(self, name: str) -> str:
        catalog = self.find_catalog(name)
        if catalog is None:
            known = ", ".join(sorted(self.catalogs))
            raise NotFound("catalog", name, f"known: {known}")
        return catalog

    def catalog(self, name: str) -> Catalog:
        """Return the catalog as it was when this statement first read it."""
        if name not in self.snapshots:
            catalog = self.catalogs[name]
            self.snapshots[name] = catalog.snapshot() if supports(catalog, CanSnapshot) else catalog
        return self.snapshots[name]

    def writable_catalog(self, name: str) -> Catalog:
        """Return the catalog as it is now; raise FailedPrecondition if it is READ_ONLY."""
        if name in self.read_only:
            raise FailedPrecondition(
                f"catalog {name!r} is attached READ_ONLY; DETACH it and ATTACH it without READ_ONLY"
            )
        return self.catalogs[name]

    def _readable_catalog(self, name: str) -> Catalog:
        """Return the catalog as it is now, or a snapshot of one that is READ_ONLY.

        A catalog that returns its current state may remove leftovers of a crash, which is a write.
        """
        return self.catalog(name) if name in self.read_only else self.catalogs[name]

    def schema(self, catalog: str, name: str) -> Schema:
        """Return a schema as it is now; raise NotFound with the statement that creates it."""
        try:
            return self._readable_catalog(catalog).load_schema(name)
        except NotFound:
            raise NotFound(
                "schema", f"{catalog}.{name}", f"create it with CREATE SCHEMA {catalog}.{name}"
            ) from None

    def table(self, path: Path) -> Table:
        """Return a table as it was when this statement first read its catalog."""
        catalog, schema, name = path
        try:
            return self.catalog(catalog).load_schema(schema).load_table(name)
        except NotFound:
            raise NotFound("table", ".".join(path)) from None

    def writable_table(self, path: Path) -> Table:
        """Return a table as it is now; raise FailedPrecondition if its catalog is READ_ONLY."""
        try:
            return self.writable_catalog(path[0]).load_schema(path[1]).load_table(path[2])
        except NotFound:
            raise NotFound("table", ".".join(path)) from None

    def table_exists(self, path: Path) -> bool:
        """Return whether the table exists now; raise as `writable_table` does."""
        try:
            self.writable_table(path)
        except NotFound:
            return False
        return True

    def table_at(self, name: ObjectName, point: AsOf) -> Table:
        """Return a table as it was at a version or time; raise NotFound with what is kept."""
        path = self.path(name)
        table = self.table(path)
        if not supports(table, CanTravel):
            raise NotSupported(f"table {'.'.join(path)!r} keeps no earlier versions")
        return table.at(point)


def _has_schema(catalog: Catalog, name: str) -> bool:
    try:
        catalog.load_schema(name)
    except NotFound:
        return False
    return True
