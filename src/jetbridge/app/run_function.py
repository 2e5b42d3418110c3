"""Serves `run(sql)` in the schema `jetbridge` of a catalog: statements for clients of the server.

DuckDB's client refuses some statements before they reach a server, CREATE OR REPLACE TABLE among
them: `FROM a.jetbridge.run('CREATE OR REPLACE TABLE ...')` runs them, with a row for each.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa

from jetbridge.app.statement_memory import StatementMemory
from jetbridge.catalog import (
    CanCreateSchemas,
    CanExpire,
    CanList,
    CanSnapshot,
    Catalog,
    CatalogVersion,
    Function,
    FunctionInfo,
    Parameter,
    Scan,
    Schema,
    SchemaInfo,
    Table,
    supports,
)
from jetbridge.catalog.backend import SharedResources
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.settings import byte_count
from jetbridge.config import Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound, without_paths
from jetbridge.pipeline.report import REPORT

SCHEMA = "jetbridge"
# Columns of a report that may quote an error, such as why an engine could not run a query.
_TEXT_COLUMNS = ("reason", "note")
ABOUT = "Runs DuckDB SQL on the server; returns one row for each statement"
# Parsers cannot be interrupted: a million characters take seconds. DuckDB's parser stops all other
# threads for a time that grows with the square of the conditions (3 s for 33,000).
MOST_CHARACTERS = 200_000
MOST_CONDITIONS = 5_000
_CONDITION = re.compile(r"(?<!\w)(?:and|or)(?!\w)", re.IGNORECASE)
# Runs SQL in a catalog, for a caller who may use these catalogs (None: all) and whose token has
# this name; yields reports.
Execute = Callable[[str, str, frozenset[str] | None, str], Iterable[dict[str, Any]]]


class RunFunction:
    def __init__(self, catalog: str, execute: Execute) -> None:
        self._catalog, self._execute = catalog, execute

    def info(self) -> FunctionInfo:
        return FunctionInfo("run", (Parameter("sql", pa.string()),), ABOUT, stable=False)

    def bind(self, arguments: pa.RecordBatch) -> pa.Schema:
        self._text(arguments)
        return REPORT

    def rows(self, arguments: pa.RecordBatch, request: Scan) -> Iterable[pa.RecordBatch]:
        text = self._text(arguments)
        for row in self._execute(text, self._catalog, request.may_use, request.owner):
            public = {name: without_paths(row[name]) for name in _TEXT_COLUMNS}
            yield pa.RecordBatch.from_pylist([{**row, **public}], schema=REPORT)

    def _text(self, arguments: pa.RecordBatch) -> str:
        is_text = arguments.num_columns == 1 and pa.types.is_string(arguments.column(0).type)
        text = arguments.column(0)[0].as_py() if is_text else None
        if not isinstance(text, str) or not text.strip():
            raise BadRequest("run needs a string with statements: run('CREATE TABLE ...')")
        if len(text) > MOST_CHARACTERS:
            raise BadRequest(
                f"the text of run has {len(text)} characters; the limit is {MOST_CHARACTERS}: "
                "send rows by INSERT over a connection, or split the text into several calls"
            )
        conditions = sum(1 for _ in _CONDITION.finditer(text))
        if conditions > MOST_CONDITIONS:
            raise BadRequest(
                f"the text of run has {conditions} ANDs and ORs; the limit is {MOST_CONDITIONS}: "
                "put the values into a table and join it, or use IN"
            )
        return text


class RunSchema:
    """Serve the schema `jetbridge`, which has no tables and one function."""

    def __init__(self, function: RunFunction) -> None:
        self._function = function

    def info(self) -> SchemaInfo:
        return SchemaInfo(SCHEMA, "functions of the server")

    def list_tables(self) -> Sequence[Table]:
        return ()

    def load_table(self, name: str) -> NoReturn:
        raise NotFound("table", f"{SCHEMA}.{name}")

    def list_functions(self) -> Sequence[Function]:
        return (self._function,)


class _CatalogWithExtraSchema:
    """Add the schema `jetbridge` to a catalog."""

    def __init__(self, inner: Catalog, extra: RunSchema) -> None:
        self._inner, self._extra = inner, extra

    def list_schemas(self) -> Sequence[Schema]:
        named = [(fold(schema.info().name), schema) for schema in self._inner.list_schemas()]
        inner = [(name, schema) for name, schema in named if name != SCHEMA]
        schemas = sorted([*inner, (SCHEMA, self._extra)], key=lambda pair: pair[0])
        return [schema for _, schema in schemas]

    def load_schema(self, name: str) -> Schema:
        return self._extra if fold(name) == SCHEMA else self._inner.load_schema(name)

    def version(self) -> CatalogVersion:
        return self._inner.version()

    def allow_expiry(self) -> None:
        if supports(self._inner, CanExpire):
            self._inner.allow_expiry()


class CatalogWithRun(_CatalogWithExtraSchema):
    """Serve a catalog with CREATE SCHEMA and snapshots, and with `run`."""

    def __init__(self, inner: Catalog, name: str, execute: Execute) -> None:
        super().__init__(inner, RunSchema(RunFunction(name, execute)))
        self.inner = inner

    def snapshot(self) -> Catalog:
        assert supports(self.inner, CanSnapshot)  # noqa: S101 - `offering` has looked
        return _CatalogWithExtraSchema(self.inner.snapshot(), self._extra)

    def listing(self) -> Catalog:
        listed = self.inner.listing() if supports(self.inner, CanList) else self.inner
        return _CatalogWithExtraSchema(listed, self._extra)

    def create_schema(self, info: SchemaInfo) -> Schema:
        if fold(info.name) == SCHEMA:
            raise AlreadyExists("schema", info.name, "it has the functions of the server")
        assert supports(self.inner, CanCreateSchemas)  # noqa: S101 - `offering` has looked
        return self.inner.create_schema(info)

    def drop_schema(self, name: str) -> None:
        if fold(name) == SCHEMA:
            raise FailedPrecondition(
                f"schema {name!r} has the functions of the server and cannot be dropped"
            )
        assert supports(self.inner, CanCreateSchemas)  # noqa: S101 - `offering` has looked
        self.inner.drop_schema(name)


def with_run_function(catalog: Catalog, name: str, execute: Execute) -> Catalog:
    """Add `run` to a catalog that can be written, unless it has a schema of that name."""
    required = (CanSnapshot, CanCreateSchemas)
    if not all(issubclass(type(catalog), capability) for capability in required):
        return catalog
    return CatalogWithRun(catalog, name, execute)


def statements_for_clients(
    config: Config,
    resources: SharedResources,
    catalogs: Mapping[str, Catalog],
    processes: StatementProcesses,
) -> Execute:
    """Return a function that runs statements over these catalogs and yields a report for each."""
    limit = byte_count("sql.memory_limit", config.sql.memory_limit)
    memory = StatementMemory(limit, config.limits, len(config.credentials.tokens))

    def execute(
        text: str, catalog: str, may_use: frozenset[str] | None, owner: str
    ) -> Iterable[dict[str, Any]]:
        # The pipeline takes half a second to import, which a server need not wait for.
        from jetbridge.app.sessions import client_reports  # noqa: PLC0415

        with memory.reserve(owner) as share:
            yield from client_reports(
                config, resources, catalogs, text, catalog, may_use, share, processes
            )

    return execute
