"""The DuckDB in which statements of the pipeline are planned and run.

It has the catalogs as databases of its own. A table is declared empty, with its columns, to plan
a query; to run it, the name becomes a view of the rows. It is opened for one session, with the
folders that its statements may read.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.connection import (
    PAST,
    ROWS_PER_BATCH,
    SCRATCH,
    SPILL_SETTING,
    WORK,
    DuckDBAccess,
    Path,
    StatementConnection,
    statement_error,
)
from jetbridge.duckdb_engine.instance import EXTENSIONS, DuckDBInstance, Setting, arrow_batches
from jetbridge.duckdb_engine.references import (
    QueryReferences,
    base_tables,
    nodes,
    query_references,
)
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
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.plain_layout import plain_rows

# They look at the rows that are there, and a plan is asked for over empty tables.
# The others it cannot write down.
_KNOW_ROWS = "statistics_propagation,empty_result_pullup"
_UNWRITTEN = "late_materialization,limit_pushdown,sampling_pushdown"
_PLANNING = {"disabled_optimizers": f"{_KNOW_ROWS},{_UNWRITTEN}"}


# For a client. A planner holds no rows: what it needs grows with the columns, 48 MB for some 6,000.
_PLANNER_MEMORY = "64MB"


def _limits(access: DuckDBAccess) -> dict[str, Setting]:
    limits: dict[str, Setting] = {"memory_limit": access.memory_limit}
    if access.threads is not None:
        limits["threads"] = min(access.threads, os.cpu_count() or 1)
    return limits


def _spilling(access: DuckDBAccess) -> list[str]:
    """Return a statement, because DuckDB 1.5.5 ignores this setting where it is opened with it."""
    if access.spill_bytes is None:
        return []
    return [f"SET GLOBAL {SPILL_SETTING} = '{access.spill_bytes}B'"]


class PlannerDatabase:
    """Open two DuckDBs for a session: one runs statements, the other plans them.

    The planner plans as if no table were empty.
    """

    def __init__(self, databases: Sequence[str], access: DuckDBAccess) -> None:
        self._access = access
        config = _limits(access)
        # DuckDB calls its first database `memory`, as a catalog may be called.
        work = (f"ATTACH ':memory:' AS {WORK}", f"USE {WORK}", "DETACH memory")
        attached = [f"ATTACH ':memory:' AS {identifier(name)}" for name in (*databases, PAST)]
        self._duckdb = DuckDBInstance(
            config,
            access.folders,
            [*_spilling(access), *access.secrets, *work, *attached],
            EXTENSIONS if access.load_extensions else (),
            spill_folder=access.spill_folder,
        )
        if access.spill_bytes is not None:
            config |= {"memory_limit": _PLANNER_MEMORY, "threads": 1}
        self._planner = DuckDBInstance(
            {**config, **_PLANNING}, access.folders, [*work, *attached], (), spills=False
        )

    @contextmanager
    def connect(self) -> Iterator[StatementConnection]:
        """Open a connection for one statement; what it declares is gone afterwards."""
        with self._open_connection(self._duckdb) as connection:
            yield connection

    @contextmanager
    def _open_connection(self, instance: DuckDBInstance) -> Iterator["LocalConnection"]:
        cursor = instance.instance().cursor()
        planning = partial(self._open_connection, self._planner)
        connection = LocalConnection(
            cursor, planning, reads_table_files=self._access.include_table_folders
        )
        try:
            execute(cursor, f"USE {WORK}", SET)
            with current().on_cancel(cursor.interrupt):
                yield connection
        except duckdb.Error as error:
            raise statement_error(error, self._access) from error
        finally:
            connection.clear()
            cursor.close()

    def close(self) -> None:
        """Close both DuckDBs."""
        self._duckdb.close()
        self._planner.close()


class LocalEngine:
    """Parse, plan and run statements in this process."""

    def open(self, databases: Sequence[str], access: DuckDBAccess) -> PlannerDatabase:
        """Return a DuckDB with these databases; it starts when it is used."""
        return PlannerDatabase(databases, access)

    def parsing(self) -> AbstractContextManager[None]:
        """Do nothing: texts are parsed in this process."""
        return nullcontext()

    def references(self, query: str) -> QueryReferences:
        """Return what a query names; raise BadRequest for anything but one query."""
        return query_references(query)

    def close(self) -> None:
        """Do nothing: nothing was started."""


class LocalConnection:
    """Run statements by a cursor of a DuckDB in this process.

    `planning` opens a connection to the DuckDB that plans as if no table were empty.
    """

    def __init__(
        self,
        cursor: duckdb.DuckDBPyConnection,
        planning: Callable[[], AbstractContextManager["LocalConnection"]],
        *,
        reads_table_files: bool = True,
    ) -> None:
        self.reads_table_files = reads_table_files
        self._cursor, self._planning = cursor, planning
        self._search_path: tuple[str, str] | None = None
        self._created: dict[Path, str] = {}

    def references(self, query: str) -> QueryReferences:
        """Return the tables that a query names, and the functions it calls."""
        return query_references(query)

    def time_travel_positions(self, query: str) -> list[int]:
        """Return where in the text tables are named as of another time."""
        tree, text = query_tree(query), query.encode()
        tables = (table for table in base_tables(tree) if table.get("at_clause"))
        positions = {table["query_location"] for table in tables}
        return sorted(len(text[:position].decode()) for position in positions)

    def table_scans(self, query: str) -> list[tuple[Path, dict[str, Any]]]:
        """Return what a query would read of each table, as DuckDB writes its plan.

        The list is empty for a plan that DuckDB cannot write.
        """
        scans = []
        for node in nodes(self._plan_unknown(query)):
            data = node.get("function_data") or {}
            if node.get("type") == "LOGICAL_GET" and "table" in data:
                scans.append(((data["catalog"], data["schema"], data["table"]), node))
        return scans

    def single_table_read(self, query: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the one table that a query reads, and its columns; None if it does more."""
        return _single_table_read(self._plan_unknown(query))

    def _plan_unknown(self, query: str) -> Any:
        """Return the plan of a query over tables of unknown size; None if it cannot be written."""
        with self._planning() as planner:
            if self._search_path is not None:
                planner.use(*self._search_path)
            for path in self._created:
                columns = self.types(f"SELECT * FROM {'.'.join(map(identifier, path))}")
                planner.declare_types(path, columns)
            return planner.plan(query)

    def plan(self, query: str) -> Any:
        """Return the plan of a query as DuckDB writes it; None if it cannot be written."""
        try:
            serialize = "SELECT json_serialize_plan(?, optimize := true)"
            row = execute(self._cursor, serialize, parameters=[query]).fetchone()
            # DuckDB answers '' for a plan with a value that is not UTF-8, such as most of BIT.
            tree = json.loads(row[0]) if row and row[0] else {"error": True}
        except (duckdb.Error, ValueError, RecursionError):
            return None
        return None if tree.get("error") else tree

    def constant(self, text: str) -> str:
        """Return the value of an expression without columns, as DuckDB prints it."""
        sql = f"SELECT CAST(({check_expression_text(text)}) AS VARCHAR)"
        row = execute(self._cursor, sql).fetchone()
        return str(row[0]) if row else ""

    def declare(self, path: Path, schema: pa.Schema) -> None:
        """Create an empty table."""
        self.declare_types(path, column_types(schema))

    def declare_types(self, path: Path, columns: Sequence[tuple[str, str]]) -> None:
        """Create an empty table with these names and types of DuckDB."""
        listed = ", ".join(f"{identifier(name)} {data_type}" for name, data_type in columns)
        self._create(path, "TABLE", f"({listed})")

    def create_view(self, path: Path, query: str) -> None:
        """Create a view."""
        parsed(self._cursor, query)
        self._create(path, "VIEW", f"AS {query}")

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Give rows a name under which `create_table_as` finds them."""
        self._cursor.register(name, plain_rows(rows))

    def create_table_as(self, path: Path, query: str) -> None:
        """Create a table with the rows of a query, which can be read more than once."""
        parsed(self._cursor, query)
        self._create(path, "TABLE", f"AS {query}")

    def _create(self, path: Path, kind: str, rest: str) -> None:
        self._drop(path)
        database, schema, name = map(identifier, path)
        execute(self._cursor, f"CREATE SCHEMA IF NOT EXISTS {database}.{schema}", CREATE)
        execute(self._cursor, f"CREATE {kind} {database}.{schema}.{name} {rest}", CREATE)
        self._created[path] = kind

    def _drop(self, path: Path) -> None:
        kind = self._created.pop(path, None)
        if kind is not None:
            execute(self._cursor, f"DROP {kind} {'.'.join(map(identifier, path))}", DROP)

    def clear(self) -> None:
        """Drop what the statement has created."""
        for path in list(self._created):
            self._drop(path)

    @contextmanager
    def scratch(self, columns: str) -> Iterator[None]:
        """Declare `SCRATCH` with these columns, in brackets, for the time of the block."""
        self.create_scratch(columns)
        try:
            yield
        finally:
            self.drop_scratch()

    def create_scratch(self, columns: str) -> None:
        """Declare `SCRATCH` with these columns, in brackets."""
        # The one before still exists if its statement was interrupted.
        sql = f"CREATE OR REPLACE TABLE {SCRATCH} {in_brackets(columns)}"
        execute(self._cursor, sql, CREATE)

    def drop_scratch(self) -> None:
        """Drop `SCRATCH`."""
        execute(self._cursor, f"DROP TABLE {SCRATCH}", DROP)

    def use(self, database: str, schema: str) -> None:
        """Set where names without a database or schema are looked for."""
        path = f"{identifier(database)}.{identifier(schema)}"
        execute(self._cursor, f"CREATE SCHEMA IF NOT EXISTS {path}", CREATE)
        execute(self._cursor, f"USE {path}", SET)
        self._search_path = (database, schema)

    def schema(self, query: str) -> pa.Schema:
        """Return the columns of a query as Arrow, without its rows."""
        parsed(self._cursor, query)
        result = execute(self._cursor, f"SELECT * FROM ({query}\n) LIMIT 0")
        # Arrow reserves memory for so many rows of each column; by default for a million.
        answer = result.to_arrow_table(1)
        schema: pa.Schema = answer.schema
        return schema

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return the columns of a query, and what DuckDB calls their types."""
        parsed(self._cursor, query)
        rows = execute(self._cursor, f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def stream(self, query: str, rows_per_batch: int = ROWS_PER_BATCH) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, batch by batch in bounded memory."""
        return arrow_batches(self._cursor, query, rows_per_batch)

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return execute(self._cursor, query).fetchall()


def column_types(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the names of columns and DuckDB's types, with NOT NULL."""
    return [
        (field.name, f"{duckdb_type(field)}{'' if field.nullable else ' NOT NULL'}")
        for field in schema
    ]


def _single_table_read(tree: Any) -> tuple[Path, tuple[str, ...]] | None:
    match tree:
        case {
            "plans": [
                {
                    "type": "LOGICAL_PROJECTION",
                    "expressions": expressions,
                    "children": [
                        {
                            "type": "LOGICAL_GET",
                            "table_filters": {"filters": []},
                            "function_data": {"catalog": one, "schema": two, "table": three},
                            "projection_ids": [_, *_] as positions,
                        } as scan
                    ],
                }
            ]
        } if all(expression["type"] == "BOUND_REF" for expression in expressions):
            scanned = [scan["column_indexes"][position] for position in positions]
            columns = [scanned[expression["index"]] for expression in expressions]
            names = scan["names"]
            if all(c["index"] < len(names) and not c.get("child") for c in columns):
                return (one, two, three), tuple(names[column["index"]] for column in columns)
    return None
