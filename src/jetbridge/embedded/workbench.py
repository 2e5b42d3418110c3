"""The DuckDB in which statements of the pipeline are planned and run.

It knows the catalogs as databases of its own. A table is declared empty, with its columns, to plan
a query; to run it, the name becomes a view of the rows. It is opened for one session, with the
folders that its statements may read.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.embedded.lake import extension_file
from jetbridge.embedded.types import duckdb_type
from jetbridge.errors import BadRequest, LimitExceeded, NotFound, ServerError
from jetbridge.sql.quoting import identifier, literal

_EXTENSIONS = ("avro", "httpfs", "iceberg")
_WORK = "jetbridge_work"
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "arrow_lossless_conversion": True,
}
_LONGEST = 450
_PART = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')
_MISSING = re.compile(r"(?:Table|Schema) with name (.+?) does not exist!")
Path = tuple[str, str, str]


@dataclass(frozen=True)
class Access:
    """`folders` None: all files may be read, as by the person who runs the command."""

    folders: Sequence[str] | None = ()
    secrets: Sequence[str] = ()
    memory_limit: str = "2GB"
    temporary: str = ""


class Workbench:
    def __init__(self, databases: Sequence[str], access: Access) -> None:
        self._databases, self._access = databases, access
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None

    def _instance(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                self._root = self._opened()
            return self._root

    def _opened(self) -> duckdb.DuckDBPyConnection:
        access = self._access
        config = {**_CONFIG, "memory_limit": access.memory_limit}
        config["temp_directory"] = access.temporary
        root = duckdb.connect(":memory:", config=config)
        for name in _EXTENSIONS:
            root.execute(f"LOAD '{extension_file(name)}'")
        for statement in access.secrets:
            root.execute(statement)
        root.execute("SET GLOBAL TimeZone = 'UTC'")
        # DuckDB calls its first database `memory`, as a catalog may be called.
        root.execute(f"ATTACH ':memory:' AS {_WORK}; USE {_WORK}; DETACH memory")
        for database in self._databases:
            root.execute(f"ATTACH ':memory:' AS {identifier(database)}")
        if access.folders is not None:
            folders = ", ".join(literal(folder.rstrip("/") + "/") for folder in access.folders)
            root.execute(f"SET GLOBAL allowed_directories = [{folders}]")
            root.execute("SET GLOBAL enable_external_access = false")
        root.execute("SET GLOBAL lock_configuration = true")
        return root

    @contextmanager
    def desk(self) -> Iterator["Desk"]:
        """For one statement; what it declares is gone afterwards."""
        cursor = self._instance().cursor()
        desk = Desk(cursor)
        try:
            cursor.execute(f"USE {_WORK}")
            yield desk
        except duckdb.Error as error:
            raise translated(error) from error
        finally:
            desk.clear()
            cursor.close()

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                self._root.close()
                self._root = None


class Desk:
    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self._made: dict[Path, str] = {}

    def table_names(self, query: str) -> list[tuple[str, ...]]:
        """What stands where a table may stand, each in its parts; some are names of the query."""
        row = self._cursor.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
        tree = json.loads(row[0]) if row else {"error": True}
        if not tree["error"]:
            return sorted(set(_tables(tree)))
        # Not every query can be serialised; this way binds it, and fails for some that can be.
        names = self._cursor.get_table_names(query, qualified=True)
        return sorted(_parts(name) for name in names)

    def declare(self, path: Path, schema: pa.Schema) -> None:
        """An empty table."""
        columns = ", ".join(
            f"{identifier(field.name)} {duckdb_type(field)}{'' if field.nullable else ' NOT NULL'}"
            for field in schema
        )
        self._make(path, "TABLE", f"({columns})")

    def define(self, path: Path, query: str) -> None:
        """A view."""
        self._make(path, "VIEW", f"AS {query}")

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        self._cursor.register(name, rows)

    def keep(self, path: Path, query: str) -> None:
        """A table with the rows of a query, which can be read more than once."""
        self._make(path, "TABLE", f"AS {query}")

    def _make(self, path: Path, kind: str, rest: str) -> None:
        self._drop(path)
        database, schema, name = map(identifier, path)
        self._cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {database}.{schema}")
        self._cursor.execute(f"CREATE {kind} {database}.{schema}.{name} {rest}")
        self._made[path] = kind

    def _drop(self, path: Path) -> None:
        kind = self._made.pop(path, None)
        if kind is not None:
            self._cursor.execute(f"DROP {kind} {'.'.join(map(identifier, path))}")

    def clear(self) -> None:
        for path in list(self._made):
            self._drop(path)

    def use(self, database: str, schema: str) -> None:
        """Where names without a database or schema are looked for."""
        place = f"{identifier(database)}.{identifier(schema)}"
        self._cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {place}")
        self._cursor.execute(f"USE {place}")

    def schema(self, query: str) -> pa.Schema:
        """The columns of a query as Arrow, without its rows."""
        answer = self._cursor.execute(f"SELECT * FROM ({query}) LIMIT 0").to_arrow_table()
        schema: pa.Schema = answer.schema
        return schema

    def types(self, query: str) -> list[tuple[str, str]]:
        """The columns of a query, and what DuckDB calls their types."""
        rows = self._cursor.execute(f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def stream(self, query: str, rows_per_batch: int = 122_880) -> Iterator[pa.RecordBatch]:
        batches = iter(self._cursor.execute(query).to_arrow_reader(rows_per_batch))
        while True:
            try:
                batch = next(batches, None)
            except (OSError, pa.ArrowException) as error:
                # What Arrow makes of an error in the midst of a result.
                raise duckdb.IOException(str(error)) from error
            if batch is None:
                return
            yield batch

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        return self._cursor.execute(query).fetchall()


def _tables(node: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            parts = (node["catalog_name"], node["schema_name"], node["table_name"])
            yield tuple(part for part in parts if part)
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from _tables(each)


def _parts(name: str) -> tuple[str, ...]:
    """`"Odd.name".b` as ("Odd.name", "b")."""
    found = _PART.finditer(name)
    return tuple(part[2] if part[1] is None else part[1].replace('""', '"') for part in found)


_ERRORS: Mapping[type[duckdb.Error], type[ServerError]] = {
    duckdb.OutOfMemoryException: LimitExceeded,
    duckdb.InterruptException: LimitExceeded,
}


def translated(error: duckdb.Error) -> ServerError:
    """What DuckDB says, in one line."""
    message = str(error).split("\n\n", 1)[0].replace("\n", " ").strip()[:_LONGEST]
    missing = _MISSING.search(message)
    if missing:
        return NotFound("table", missing[1])
    return _ERRORS.get(type(error), BadRequest)(message)
