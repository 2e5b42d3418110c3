"""Calls Iceberg's Java library, in the JVM that Spark runs in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jetbridge.backends.lake.errors import translating
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.errors import NotFound
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection, SparkEngine


class JavaCatalog:
    """Use the catalog of a lake as Iceberg's Java library has it."""

    def __init__(
        self, engine: SparkEngine, name: str, prepare: Callable[[SparkConnection], None]
    ) -> None:
        """Call `prepare` with each session before it is used."""
        self._engine, self._name, self._prepare = engine, name, prepare
        self._known: tuple[SparkConnection, Any] | None = None

    @contextmanager
    def connect(self, title: str) -> Iterator[tuple[SparkConnection, Any]]:
        """Yield Spark and Java's catalog; errors of Java are about the table `title`."""
        with self._engine.session() as session, translating(title):
            self._prepare(session)
            yield session, self._catalog(session)

    def _catalog(self, session: SparkConnection) -> Any:
        """Return the catalog, which a session always returns the same; asking takes 20 calls."""
        known = self._known
        if known is None or known[0] is not session:
            known = self._known = (session, session.catalog(self._name))
        return known[1]

    def drop(self, namespace: str, name: str) -> None:
        """Remove a table from the catalog; its files stay. Raises NotFound."""
        with self.connect(f"{namespace}.{name}") as (session, catalog):
            table = identifier(session, namespace, name)
            with current().publishing():
                dropped = catalog.dropTable(table, False)
            if not dropped:
                raise NotFound("table", f"{namespace}.{name}")

    def rename(self, namespace: str, name: str, new_name: str) -> None:
        """Rename a table."""
        with self.connect(f"{namespace}.{new_name}") as (session, catalog):
            before = identifier(session, namespace, name)
            after = identifier(session, namespace, new_name)
            with current().publishing():
                catalog.renameTable(before, after)


def static(session: SparkConnection, name: str) -> Callable[..., Any]:
    """Return a static method of Iceberg."""
    return session.static(f"org.apache.iceberg.{name}")


def identifier(session: SparkConnection, namespace: str, name: str) -> Any:
    """Return the name of a table as Java has it."""
    if "." not in name:
        return static(session, "catalog.TableIdentifier.parse")(f"{namespace}.{name}")
    levels = namespace.split(".")
    gateway: Any = session.spark.sparkContext._gateway
    array = gateway.new_array(session.jvm.java.lang.String, len(levels))
    for index, level in enumerate(levels):
        array[index] = level
    space = static(session, "catalog.Namespace.of")(array)
    return static(session, "catalog.TableIdentifier.of")(space, name)


def load_java_table(session: SparkConnection, catalog: str, state: TableState) -> Any:
    """Return a table as Java has it now."""
    name = identifier(session, state.pointer.namespace, state.pointer.name)
    return session.catalog(catalog).loadTable(name)
