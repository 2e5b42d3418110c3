"""Names in statements, and the tables behind them, all as they were at one moment."""

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
Path = tuple[str, str, str]


@dataclass(frozen=True)
class SearchPath:
    """Where names are looked for that say less than everything."""

    catalog: str
    schema: str = DEFAULT_SCHEMA


@dataclass
class NameResolver:
    """The catalogs of one statement; each is seen as it was at the first look."""

    catalogs: Mapping[str, Catalog]
    place: SearchPath
    read_only: frozenset[str] = frozenset()
    seen: dict[str, Catalog] = field(default_factory=dict)

    def path(self, name: ObjectName) -> Path:
        """All three parts; `a.b` is a schema and a table, or a catalog and a table."""
        catalog, schema = self._said(name)
        return catalog, self.default_schema(catalog) if schema is None else schema, name.name

    def written(self, name: ObjectName) -> Path:
        """The same as DuckDB reads it, for which no schema means `main`."""
        catalog, schema = self._said(name)
        return catalog, DEFAULT_SCHEMA if schema is None else schema, name.name

    def default_schema(self, catalog: str) -> str:
        """Return the schema of names that say none: `main`, or else the catalog's own default."""
        live, current = self.catalogs[catalog], self._now(catalog)
        if not supports(live, CanDefaultSchema) or _has_schema(current, DEFAULT_SCHEMA):
            return DEFAULT_SCHEMA
        own = live.default_schema()
        return own if _has_schema(current, own) else DEFAULT_SCHEMA

    def settled(self, path: Path) -> Path:
        """Of one that was `written`, the path of the table that was found."""
        catalog, schema, name = path
        if catalog not in self.catalogs or schema != DEFAULT_SCHEMA:
            return path
        return catalog, self.default_schema(catalog), name

    def _said(self, name: ObjectName) -> tuple[str, str | None]:
        """Catalog and schema, None where neither the name nor the place says one."""
        place = self.place
        if name.catalog is not None:
            return self._known(name.catalog), name.schema
        if name.schema is not None:
            catalog = self.spelled(name.schema)
            if catalog is None or _has_schema(self.catalog(place.catalog), name.schema):
                return place.catalog, name.schema
            if catalog != place.catalog:
                return catalog, None
        return place.catalog, None if place.schema == DEFAULT_SCHEMA else place.schema

    def schema_path(self, name: ObjectName) -> tuple[str, str]:
        """The catalog and the name of a schema, `s` or `c.s`."""
        if name.catalog is not None:
            raise BadRequest(f"the schema name {name} has too many parts")
        return (self.place.catalog if name.schema is None else self._known(name.schema)), name.name

    def spelled(self, catalog: str) -> str | None:
        """The name of a catalog as it was given; None where there is none."""
        return next((each for each in self.catalogs if fold(each) == fold(catalog)), None)

    def _known(self, catalog: str) -> str:
        found = self.spelled(catalog)
        if found is None:
            known = ", ".join(sorted(self.catalogs))
            raise NotFound("catalog", catalog, f"there are {known}")
        return found

    def catalog(self, name: str) -> Catalog:
        """As it was when this statement first looked at it."""
        if name not in self.seen:
            live = self.catalogs[name]
            self.seen[name] = live.snapshot() if supports(live, CanSnapshot) else live
        return self.seen[name]

    def live(self, name: str) -> Catalog:
        """As it is now, to be written; raises FailedPrecondition if it is attached to be read."""
        if name in self.read_only:
            raise FailedPrecondition(
                f"catalog {name!r} is attached READ_ONLY: nothing in it is written; "
                "ATTACH it without that"
            )
        return self.catalogs[name]

    def _now(self, name: str) -> Catalog:
        """What is attached to be read is as it is seen: the other one would sweep."""
        return self.catalog(name) if name in self.read_only else self.catalogs[name]

    def schema(self, catalog: str, name: str) -> Schema:
        try:
            return self._now(catalog).load_schema(name)
        except NotFound:
            raise NotFound(
                "schema", f"{catalog}.{name}", f"create it with CREATE SCHEMA {catalog}.{name}"
            ) from None

    def table(self, path: Path) -> Table:
        catalog, schema, name = path
        try:
            return self.catalog(catalog).load_schema(schema).load_table(name)
        except NotFound:
            raise NotFound("table", ".".join(path)) from None

    def live_table(self, path: Path) -> Table:
        """As it is now, to be written."""
        try:
            return self.live(path[0]).load_schema(path[1]).load_table(path[2])
        except NotFound:
            raise NotFound("table", ".".join(path)) from None

    def is_there(self, path: Path) -> bool:
        """Whether the table is there now."""
        try:
            self.live_table(path)
        except NotFound:
            return False
        return True

    def past(self, name: ObjectName, point: AsOf) -> Table:
        """A table as it was; raises NotFound with what is kept."""
        path = self.path(name)
        table = self.table(path)
        if not supports(table, CanTravel):
            raise NotSupported(f"table {'.'.join(path)!r} keeps no past versions")
        return table.at(point)


def _has_schema(catalog: Catalog, name: str) -> bool:
    try:
        catalog.load_schema(name)
    except NotFound:
        return False
    return True
