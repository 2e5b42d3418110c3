"""A catalog with settings, and a session that knows them, as that of SQL Server would be."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.memory.schema import MemorySchema
from jetbridge.catalog import CatalogVersion, CreateTable, SchemaInfo, Write
from jetbridge.catalog.settings import Setting, one_of, truth

SETTINGS = {
    "mssql_ctas_text_type": Setting(
        "NVARCHAR",
        one_of("mssql_ctas_text_type", "NVARCHAR", "VARCHAR"),
        "the type of texts",
        ("mssql_text_type",),
    ),
    "mssql_ctas_use_bcp": Setting(True, truth("mssql_ctas_use_bcp"), "how rows are loaded"),
}


class ConfigurableCatalog:
    """Tables in memory; `seen` has a line for each table, with the settings it was made with."""

    def __init__(
        self, inner: MemoryCatalog | None = None, given: Mapping[str, str] | None = None
    ) -> None:
        self.inner = inner or MemoryCatalog()
        self.given = dict(given or {})
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.closed = 0

    def configured(self, given: Mapping[str, str]) -> "ConfigurableCatalog":
        other = ConfigurableCatalog(self.inner, given)
        other.seen = self.seen
        return other

    def list_schemas(self):
        return [ConfigurableSchema(self, each) for each in self.inner.list_schemas()]

    def load_schema(self, name: str):
        return ConfigurableSchema(self, self.inner.load_schema(name))

    def create_schema(self, info: SchemaInfo):
        return ConfigurableSchema(self, self.inner.create_schema(info))

    def drop_schema(self, name: str) -> None:
        self.inner.drop_schema(name)

    def version(self) -> CatalogVersion:
        return self.inner.version()

    def close(self) -> None:
        self.closed += 1


class ConfigurableSchema:
    def __init__(self, catalog: ConfigurableCatalog, inner: MemorySchema) -> None:
        self._catalog, self._inner = catalog, inner

    def info(self) -> SchemaInfo:
        return self._inner.info()

    def list_tables(self):
        return self._inner.list_tables()

    def load_table(self, name: str):
        table = self._inner.load_table(name)
        self._catalog.seen.append((name, self._catalog.given))
        return table

    @contextmanager
    def creating(self, request: CreateTable) -> Iterator[Write]:
        self._catalog.seen.append((request.name, self._catalog.given))
        with self._inner.creating(request) as write:
            yield write
