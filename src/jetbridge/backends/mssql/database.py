"""One database: its connections, its settings, and what is known of its tables."""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, describe
from jetbridge.backends.mssql.schema_properties import schema_info
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.catalog import SchemaInfo
from jetbridge.catalog.identifiers import find_duplicate_name, fold
from jetbridge.dialects.tsql import statements
from jetbridge.errors import FailedPrecondition, NotFound
from jetbridge.spark.engine import SparkEngine

_T = TypeVar("_T")
# Seconds. One call looks for a schema, then a table, then both as they were at its moment; no
# statement of someone else can end and be heard of in between.
_STILL_SO = 0.0005


@dataclass(frozen=True)
class SpoolOptions:
    """`spool` is a folder for rows on their way; `shared`: with workers of other machines."""

    spool: str = ""
    shared: bool = False
    staged_bytes: int = 64 * 1024**3

    def spool_folder(self) -> str:
        return self.spool or tempfile.gettempdir()


class CatalogCache:
    """Descriptions, for as long as nothing in the database is made, altered or dropped."""

    def __init__(self, server: ConnectionPool) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._stamp: tuple[Any, ...] | None = None
        self._looked = 0.0
        self._kept: dict[Any, Any] = {}
        self._number = 1
        self._snapshots: bool | None = None

    def get(self, key: Any, ask: Callable[[], _T]) -> _T:
        self._look()
        with self._lock:
            stamp, found = self._stamp, self._kept.get(key)
        if found is None:
            found = ask()
            self._look()  # what was seen of a change that is undone again must not be kept
            with self._lock:
                if stamp == self._stamp:
                    self._kept[key] = found
        value: _T = found
        return value

    def forget(self) -> None:
        """After DDL of our own: the clock of the server may be too coarse to tell."""
        with self._lock:
            self._stamp = None

    def number(self) -> int:
        self._look()
        return self._number

    def _look(self) -> None:
        with self._lock:
            if self._stamp is not None and time.monotonic() - self._looked < _STILL_SO:
                return
        by_columns = self._server.is_babelfish()
        (stamp,) = self._server.ask(
            statements.VERSION_BY_COLUMNS if by_columns else statements.VERSION
        )
        with self._lock:
            self._looked = time.monotonic()
            if stamp != self._stamp:
                self._stamp = stamp
                self._number += 1
                self._kept.clear()

    def allows_snapshots(self) -> bool:
        """Whether the database has ALLOW_SNAPSHOT_ISOLATION; asked once.

        A transaction of Babelfish keeps the tables that it has read from being altered or replaced,
        even by the statement that has read them, so there the answer is no.
        """
        if self._snapshots is None:
            allowed = self._server.ask(statements.SNAPSHOTS) == [(1,)]
            self._snapshots = allowed and not self._server.is_babelfish()
        return self._snapshots


@dataclass(frozen=True)
class Database:
    """`replace` gives the same one with other settings."""

    server: ConnectionPool
    settings: MssqlSettings
    engine: SparkEngine | None
    options: SpoolOptions
    known: CatalogCache = field(repr=False)

    def schemas(self) -> list[str]:
        return self.known.get(
            "schemas", lambda: [n for (n,) in self.server.ask(statements.SCHEMAS)]
        )

    def schema(self, name: str) -> str:
        """As the server spells it."""
        found = [each for each in self.schemas() if fold(each) == fold(name)]
        if not found:
            raise NotFound("schema", name)
        return name if name in found else found[0]

    def schema_info(self, name: str) -> SchemaInfo:
        """Return a schema with its comment and tags, of which Babelfish has none."""
        if self.server.is_babelfish():
            return SchemaInfo(name)
        rows = self.known.get("properties", lambda: self.server.ask(statements.SCHEMA_PROPERTIES))
        return schema_info(name, rows)

    def tables(self, schema: str) -> list[TableDescription]:
        """But for those that `table` refuses."""
        found = self.known.get(("tables", schema), lambda: self._described(schema))
        return [
            each for each in found if find_duplicate_name([c.name for c in each.columns]) is None
        ]

    def table(self, schema: str, name: str) -> TableDescription:
        found = self.known.get(("table", schema, fold(name)), lambda: self._described(schema, name))
        if not found:
            raise NotFound("table", f"{schema}.{name}")
        table = next((each for each in found if each.name == name), found[0])
        double = find_duplicate_name([each.name for each in table.columns])
        if double is not None:
            raise FailedPrecondition(
                f"{table.title()} has columns that differ in case only, such as {double!r}, which "
                "DuckDB cannot tell apart: read it through a view that gives them other names"
            )
        return table

    def _described(self, schema: str, name: str | None = None) -> list[TableDescription]:
        folded = self.server.is_babelfish()
        return self.server.asked(lambda c: describe(c, schema, name, folded=folded))
