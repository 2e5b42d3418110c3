"""Names in statements, and the tables behind them, all as they were at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jetbridge.catalog import AsOf, CanSnapshot, CanTravel, Catalog, Schema, Table, supports
from jetbridge.errors import BadRequest, NotFound, NotSupported
from jetbridge.names import fold
from jetbridge.pipeline.statements import ObjectName

DEFAULT_SCHEMA = "main"
Path = tuple[str, str, str]


@dataclass(frozen=True)
class Place:
    """Where names are looked for that say less than everything."""

    catalog: str
    schema: str = DEFAULT_SCHEMA


@dataclass
class Places:
    """The catalogs of one statement; each is seen as it was at the first look."""

    catalogs: Mapping[str, Catalog]
    place: Place
    _seen: dict[str, Catalog] = field(default_factory=dict)

    def path(self, name: ObjectName) -> Path:
        """All three parts; `a.b` is a schema and a table, or a catalog and a table in `main`."""
        if name.catalog is not None:
            return self._known(name.catalog), name.schema or "", name.name
        if name.schema is None:
            return self.place.catalog, self.place.schema, name.name
        catalog = self.spelled(name.schema)
        if catalog is None or self._has_schema(self.place.catalog, name.schema):
            return self.place.catalog, name.schema, name.name
        return catalog, DEFAULT_SCHEMA, name.name

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

    def _has_schema(self, catalog: str, name: str) -> bool:
        try:
            self.catalog(catalog).load_schema(name)
        except NotFound:
            return False
        return True

    def catalog(self, name: str) -> Catalog:
        """As it was when this statement first looked at it."""
        if name not in self._seen:
            live = self.catalogs[name]
            self._seen[name] = live.snapshot() if supports(live, CanSnapshot) else live
        return self._seen[name]

    def live(self, name: str) -> Catalog:
        return self.catalogs[name]

    def schema(self, catalog: str, name: str) -> Schema:
        try:
            return self.live(catalog).load_schema(name)
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
