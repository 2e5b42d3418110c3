"""The DuckDB in which statements of the pipeline are planned and run.

It knows the catalogs as databases of its own. A table is declared empty, with its columns, to plan
a query; to run it, the name becomes a view of the rows. It is opened for one session, with the
folders that its statements may read.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.catalog.settings import SQL_MEMORY
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.instance import EXTENSIONS, DuckDBInstance, Setting, arrow_batches
from jetbridge.duckdb_engine.statements import (
    CREATE,
    DROP,
    SET,
    check_expression_text,
    execute,
    in_brackets,
    parsed,
    query_tree,
)
from jetbridge.duckdb_engine.types import duckdb_type
from jetbridge.errors import BadRequest, LimitExceeded, NotFound, ServerError
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.plain_layout import plain_rows

_WORK = "jetbridge_work"
# Where tables are as they were.
PAST = "jetbridge_past"
# A table that is made to look at, and dropped.
SCRATCH = f"{_WORK}.main.jetbridge_scratch"
_LONGEST = 450
_MISSING = re.compile(r"(?:Table|Schema) with name (.+?) does not exist!")
Path = tuple[str, str, str]


@dataclass(frozen=True)
class DuckDBAccess:
    """What the DuckDB of a session may read and how much it may use.

    `folders` None means every file. Without `include_table_folders` the folders of the catalogs are
    not among them. Only `load_extensions` adds Iceberg, Avro and object stores. `threads` and
    `spill_bytes` (on disk) are upper limits; None: DuckDB's own.
    """

    folders: Sequence[str] | None = ()
    secrets: Sequence[str] = ()
    memory_limit: str = SQL_MEMORY
    include_table_folders: bool = True
    load_extensions: bool = True
    threads: int | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True)
class QueryReferences:
    """The names in a query: tables (each as its parts), functions, and CTEs.

    `table_functions` stand in FROM; `tree` is the query as DuckDB's parser gives it.
    """

    tables: frozenset[tuple[str, ...]]
    table_functions: frozenset[str]
    called_functions: frozenset[str]
    cte_names: frozenset[str]
    tree: Any


# They look at the rows that are there, and a plan is asked for over empty tables.
# The others it cannot write down.
_KNOW_ROWS = "statistics_propagation,empty_result_pullup"
_UNWRITTEN = "late_materialization,limit_pushdown,sampling_pushdown"
_PLANNING = {"disabled_optimizers": f"{_KNOW_ROWS},{_UNWRITTEN}"}


# For a client. A planner holds no rows: what it needs grows with the columns, 48 MB for some 6,000.
_PLANNER_MEMORY = "64MB"
_SPILL_SETTING = "max_temp_directory_size"
_SPILLED = (
    "the statement needs more room in the temporary folder than its share of limits.staged_bytes; "
    "let it sort, join or group fewer rows, or raise limits.staged_bytes"
)
_OUT_OF_MEMORY = (
    "the statement needs more memory than its share of sql.memory_limit; try again when fewer "
    "statements run, or raise sql.memory_limit"
)


def _limits(access: DuckDBAccess) -> dict[str, Setting]:
    limits: dict[str, Setting] = {"memory_limit": access.memory_limit}
    if access.threads is not None:
        limits["threads"] = min(access.threads, os.cpu_count() or 1)
    return limits


def _spilling(access: DuckDBAccess) -> list[str]:
    """A statement, since DuckDB 1.5.5 does not keep to this setting where it is opened with it."""
    if access.spill_bytes is None:
        return []
    return [f"SET GLOBAL {_SPILL_SETTING} = '{access.spill_bytes}B'"]


class PlannerDatabase:
    def __init__(self, databases: Sequence[str], access: DuckDBAccess) -> None:
        config = _limits(access)
        self._is_shared = access.spill_bytes is not None
        # DuckDB calls its first database `memory`, as a catalog may be called.
        work = (f"ATTACH ':memory:' AS {_WORK}", f"USE {_WORK}", "DETACH memory")
        attached = [f"ATTACH ':memory:' AS {identifier(name)}" for name in (*databases, PAST)]
        self._reads_table_files = access.include_table_folders
        statements = [*_spilling(access), *access.secrets, *work, *attached]
        extensions = EXTENSIONS if access.load_extensions else ()
        self._duckdb = DuckDBInstance(config, access.folders, statements, extensions)
        planned = [*work, *attached]
        if self._is_shared:
            config |= {"memory_limit": _PLANNER_MEMORY, "threads": 1}
        self._planner = DuckDBInstance(
            {**config, **_PLANNING}, access.folders, planned, (), spills=False
        )

    @contextmanager
    def connect(self) -> Iterator["StatementConnection"]:
        """For one statement; what it declares is gone afterwards."""
        with self._open_connection(self._duckdb) as connection:
            yield connection

    @contextmanager
    def _open_connection(self, duckdb_of: DuckDBInstance) -> Iterator["StatementConnection"]:
        cursor = duckdb_of.instance().cursor()
        planning = partial(self._open_connection, self._planner)
        connection = StatementConnection(
            cursor, planning, reads_table_files=self._reads_table_files
        )
        try:
            execute(cursor, f"USE {_WORK}", SET)
            with current().on_cancel(cursor.interrupt):
                yield connection
        except duckdb.Error as error:
            raise self._translated(error) from error
        finally:
            connection.clear()
            cursor.close()

    def _translated(self, error: duckdb.Error) -> ServerError:
        """A client is told the limits of the server, not DuckDB's settings, which it cannot set."""
        if not (self._is_shared and isinstance(error, duckdb.OutOfMemoryException)):
            return error_from_duckdb(error)
        return LimitExceeded(_SPILLED if _SPILL_SETTING in str(error) else _OUT_OF_MEMORY)

    def close(self) -> None:
        self._duckdb.close()
        self._planner.close()


class StatementConnection:
    """`planning` gives another one, whose DuckDB plans as if no table were empty."""

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        planning: Callable[[], AbstractContextManager["StatementConnection"]],
        *,
        reads_table_files: bool = True,
    ) -> None:
        self.reads_table_files = reads_table_files
        self._cursor, self._planning = cursor, planning
        self._place: tuple[str, str] | None = None
        self._made: dict[Path, str] = {}

    def references(self, query: str) -> "QueryReferences":
        """What a query names where a table may stand, and the functions it calls."""
        return query_references(query)

    def time_travel_positions(self, query: str) -> list[int]:
        """Where in the text tables are named that are wanted as of another time."""
        tree = query_tree(query)
        text = query.encode()
        places = {each["query_location"] for each in _tables(tree) if each.get("at_clause")}
        return sorted(len(text[:place].decode()) for place in places)

    def table_scans(self, query: str) -> list[tuple[Path, dict[str, Any]]]:
        """What a query would read of each table, as DuckDB writes its plan; [] if it cannot."""
        found = []
        for node in nodes(self._planned(query)):
            data = node.get("function_data") or {}
            if node.get("type") == "LOGICAL_GET" and "table" in data:
                found.append(((data["catalog"], data["schema"], data["table"]), node))
        return found

    def single_table_read(self, query: str) -> tuple[Path, tuple[str, ...]] | None:
        """The one table that a query reads, and its columns, if it does nothing else with them."""
        return _single_table_read(self._planned(query))

    def _planned(self, query: str) -> Any:
        """None for what DuckDB cannot write down."""
        with self._planning() as other:
            if self._place is not None:
                other.use(*self._place)
            for path in self._made:
                columns = self.types(f"SELECT * FROM {'.'.join(map(identifier, path))}")
                other.declare_types(path, columns)
            return other.plan(query)

    def plan(self, query: str) -> Any:
        try:
            asked = "SELECT json_serialize_plan(?, optimize := true)"
            row = execute(self._cursor, asked, parameters=[query]).fetchone()
            # DuckDB answers '' for a plan with a value that is not UTF-8, such as most of BIT.
            tree = json.loads(row[0]) if row and row[0] else {"error": True}
        except (duckdb.Error, ValueError, RecursionError):
            return None
        return None if tree.get("error") else tree

    def constant(self, text: str) -> str:
        """The value of an expression without columns, as DuckDB prints it."""
        sql = f"SELECT CAST(({check_expression_text(text)}) AS VARCHAR)"
        row = execute(self._cursor, sql).fetchone()
        return str(row[0]) if row else ""

    def declare(self, path: Path, schema: pa.Schema) -> None:
        """An empty table."""
        columns = ", ".join(
            f"{identifier(field.name)} {duckdb_type(field)}{'' if field.nullable else ' NOT NULL'}"
            for field in schema
        )
        self._make(path, "TABLE", f"({columns})")

    def declare_types(self, path: Path, columns: Sequence[tuple[str, str]]) -> None:
        """An empty table of names and DuckDB's types."""
        made = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns)
        self._make(path, "TABLE", f"({made})")

    def create_view(self, path: Path, query: str) -> None:
        """A view."""
        parsed(self._cursor, query)
        self._make(path, "VIEW", f"AS {query}")

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        self._cursor.register(name, plain_rows(rows))

    def create_table_as(self, path: Path, query: str) -> None:
        """A table with the rows of a query, which can be read more than once."""
        parsed(self._cursor, query)
        self._make(path, "TABLE", f"AS {query}")

    def _make(self, path: Path, kind: str, rest: str) -> None:
        self._drop(path)
        database, schema, name = map(identifier, path)
        execute(self._cursor, f"CREATE SCHEMA IF NOT EXISTS {database}.{schema}", CREATE)
        execute(self._cursor, f"CREATE {kind} {database}.{schema}.{name} {rest}", CREATE)
        self._made[path] = kind

    def _drop(self, path: Path) -> None:
        kind = self._made.pop(path, None)
        if kind is not None:
            execute(self._cursor, f"DROP {kind} {'.'.join(map(identifier, path))}", DROP)

    def clear(self) -> None:
        for path in list(self._made):
            self._drop(path)

    @contextmanager
    def scratch(self, columns: str) -> Iterator[None]:
        """`SCRATCH`, declared so, for the time of the block."""
        # The one before stays there if its statement was interrupted.
        sql = f"CREATE OR REPLACE TABLE {SCRATCH} {in_brackets(columns)}"
        execute(self._cursor, sql, CREATE)
        try:
            yield
        finally:
            execute(self._cursor, f"DROP TABLE {SCRATCH}", DROP)

    def use(self, database: str, schema: str) -> None:
        """Where names without a database or schema are looked for."""
        place = f"{identifier(database)}.{identifier(schema)}"
        execute(self._cursor, f"CREATE SCHEMA IF NOT EXISTS {place}", CREATE)
        execute(self._cursor, f"USE {place}", SET)
        self._place = (database, schema)

    def schema(self, query: str) -> pa.Schema:
        """The columns of a query as Arrow, without its rows."""
        parsed(self._cursor, query)
        answer = execute(self._cursor, f"SELECT * FROM ({query}\n) LIMIT 0").to_arrow_table()
        schema: pa.Schema = answer.schema
        return schema

    def types(self, query: str) -> list[tuple[str, str]]:
        """The columns of a query, and what DuckDB calls their types."""
        parsed(self._cursor, query)
        rows = execute(self._cursor, f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def stream(self, query: str, rows_per_batch: int = 122_880) -> Iterator[pa.RecordBatch]:
        return arrow_batches(self._cursor, query, rows_per_batch)

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        return execute(self._cursor, query).fetchall()


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Everything in what DuckDB writes as JSON, however deep."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            yield node
            left += reversed(node.values())
        elif isinstance(node, list):
            left += reversed(node)


def _single_table_read(tree: Any) -> tuple[Path, tuple[str, ...]] | None:
    match tree:
        case {
            "plans": [
                {
                    "type": "LOGICAL_PROJECTION",
                    "expressions": written,
                    "children": [
                        {
                            "type": "LOGICAL_GET",
                            "table_filters": {"filters": []},
                            "function_data": {"catalog": one, "schema": two, "table": three},
                            "projection_ids": [_, *_] as places,
                        } as scan
                    ],
                }
            ]
        } if all(each["type"] == "BOUND_REF" for each in written):
            read = [scan["column_indexes"][place] for place in places]
            wanted = [read[each["index"]] for each in written]
            names = scan["names"]
            if all(each["index"] < len(names) and not each.get("child") for each in wanted):
                return (one, two, three), tuple(names[each["index"]] for each in wanted)
    return None


def _tables(tree: Any) -> Iterator[dict[str, Any]]:
    return (node for node in nodes(tree) if node.get("type") == "BASE_TABLE")


def _parts(table: dict[str, Any]) -> tuple[str, ...]:
    parts = (table["catalog_name"], table["schema_name"], table["table_name"])
    if not parts[-1]:
        raise BadRequest("the name of a table is empty")
    return tuple(part for part in parts if part)


def query_references(query: str) -> QueryReferences:
    """Raises BadRequest for anything but one query."""
    tree = query_tree(query)
    functions, calls, parts = set(), set(), set()
    stand_for_tables = set()
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            functions.add(str(node["function"]["function_name"]).lower())
            stand_for_tables.add(id(node["function"]))
        elif node.get("class") in ("FUNCTION", "WINDOW") and id(node) not in stand_for_tables:
            calls.add(str(node["function_name"]).lower())
        for each in (node.get("cte_map") or {}).get("map") or ():
            parts.add(str(each["key"]).lower())
    tables = frozenset(map(_parts, _tables(tree)))
    return QueryReferences(tables, frozenset(functions), frozenset(calls), frozenset(parts), tree)


_ERRORS: Mapping[type[duckdb.Error], type[ServerError]] = {
    duckdb.OutOfMemoryException: LimitExceeded,
    duckdb.InterruptException: LimitExceeded,
}


def error_from_duckdb(error: duckdb.Error) -> ServerError:
    """What DuckDB says, in one line."""
    message = str(error).split("\n\n", 1)[0].replace("\n", " ").strip()[:_LONGEST]
    missing = _MISSING.search(message)
    if missing:
        return NotFound("table", missing[1])
    return _ERRORS.get(type(error), BadRequest)(message)
