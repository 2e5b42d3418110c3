"""Plans a query: DuckDB binds it against empty tables, before anything runs or is created.

DuckDB has AT for its own tables only. So each table with AT gets a name of its own in the query,
and under it the table as it was then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import ROWID, AsOf, AtUnit, Table
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.dialects.duckdb.statements import select_expression
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.connection import PAST, StatementConnection
from jetbridge.duckdb_engine.references import QueryReferences
from jetbridge.errors import BadRequest, NotFound
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, NameResolver, Path
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.parsing.tokens import TokenCursor
from jetbridge.pipeline.query.nullability import never_null


@dataclass(frozen=True)
class TimeTravelQuery:
    """Hold a query without AT. `tables` are the tables with AT, by their names in the query."""

    query: str
    tables: Mapping[str, tuple[ObjectName, AsOf]]


def rewrite_time_travel(
    connection: StatementConnection, query: str, access: AccessRules
) -> TimeTravelQuery:
    """Replace each table with AT; raise BadRequest if its version or time is not a constant."""
    if not TokenCursor(query).contains("AT", "("):
        return TimeTravelQuery(query, {})
    tables: dict[str, tuple[ObjectName, AsOf]] = {}
    # From the end, so that the positions before it stay what they are.
    for start in reversed(connection.time_travel_positions(query)):
        cursor = TokenCursor(query[start:])
        name = cursor.name()
        alias = cursor.alias("AT") or name.name
        cursor.expect("AT")
        cursor.expect("(")
        unit = AtUnit(cursor.identifier().upper())
        cursor.expect("=>")
        value = _constant(connection, cursor.inside(), access)
        key = f"past_{len(tables)}"
        tables[key] = (name, AsOf(unit, value))
        rest = query[start + cursor.position() :]
        query = f"{query[:start]}{PAST}.{DEFAULT_SCHEMA}.{key} AS {identifier(alias)} {rest}"
    return TimeTravelQuery(query, tables)


def _constant(connection: StatementConnection, text: str, access: AccessRules) -> str:
    references = access.check(connection, select_expression(text))
    if references.tables or references.table_functions:
        raise BadRequest(f"AT ({text[:40]}) must be a constant, such as AT (VERSION => 3)")
    return connection.constant(text)


ALL_ACCESS = AccessRules(FileScope.ALL, trusted=True)
# Where a query finds the table whose rows its statement changes.
TARGET = (PAST, DEFAULT_SCHEMA, queries.TARGET)
# A type that only DuckDB has: Arrow has no form for it.
_DUCKDB_ONLY = "VARIANT"
# Catalog, schema and table.
_MOST_PARTS = 3


@dataclass(frozen=True)
class Plan:
    """Hold what DuckDB's binder says about a query.

    `query` is the query with names of our own for tables with AT. `schema` has the exact Arrow
    types and NOT NULL, `types` are DuckDB's names for the types. `sources` are the tables, by the
    paths under which DuckDB looks them up.
    """

    query: str
    schema: pa.Schema
    types: tuple[str, ...]
    sources: Mapping[Path, Table]


def bind_query(
    connection: StatementConnection,
    names: NameResolver,
    query: str,
    columns: tuple[str, ...] = (),
    access: AccessRules = ALL_ACCESS,
    target: Table | None = None,
) -> Plan:
    """Plan a query; raise what DuckDB refuses. `columns` rename the first columns of the query.

    `target` is a table whose rows the statement changes. The query finds it, with row ids, at
    `TARGET`.
    """
    search_path = names.search_path
    connection.use(search_path.catalog, search_path.schema)
    references = access.check(connection, query)
    travel = rewrite_time_travel(connection, query, access)
    rewritten = connection.references(travel.query) if travel.tables else references
    paths = _table_paths(names, rewritten, access)
    _hide_local_names(connection, names, references.cte_names, paths)
    sources = {path: names.table(names.resolve_path(path)) for path in paths.values()}
    for key, (name, point) in travel.tables.items():
        sources[PAST, DEFAULT_SCHEMA, key] = names.table_at(name, point)
    if target is not None:
        sources[TARGET] = target
    for path, table in sources.items():
        connection.declare(path, _columns(table, row_ids=path == TARGET))
    schema, types = _bound_columns(connection, travel.query, columns)
    folded = {name: _fold(path) for name, path in paths.items()}
    required = never_null(travel.query, tuple(schema.names), _schemas(sources), folded)
    fields = [field.with_nullable(not never) for field, never in zip(schema, required, strict=True)]
    return Plan(travel.query, pa.schema(fields), types, sources)


def _bound_columns(
    connection: StatementConnection, query: str, columns: tuple[str, ...]
) -> tuple[pa.Schema, tuple[str, ...]]:
    """Return the columns of a query as Arrow, and DuckDB's names of their types."""
    described = connection.types(query)
    _refuse_duckdb_types(described)
    names = _rename([name for name, _ in described], columns)
    schema = connection.schema(query)
    renamed = [field.with_name(name) for name, field in zip(names, schema, strict=True)]
    return pa.schema(renamed), tuple(data_type for _, data_type in described)


def _refuse_duckdb_types(columns: Sequence[tuple[str, str]]) -> None:
    refused = [
        f"{name!r} ({data_type})" for name, data_type in columns if _DUCKDB_ONLY in data_type
    ]
    if refused:
        raise BadRequest(
            f"only DuckDB has the type of column {', '.join(refused)}: CAST it to VARCHAR"
        )


def plan_spark_sql(
    connection: StatementConnection,
    query: str,
    described: Sequence[tuple[str, str, bool]],
    columns: tuple[str, ...] = (),
) -> Plan:
    """Return the plan of a query in Spark SQL.

    `described` are its columns as Spark describes them: name, DuckDB's type, whether NOT NULL.
    """
    names = _rename([name for name, _, _ in described], columns)
    types = tuple(data_type for _, data_type, _ in described)
    schema = connection.schema(queries.select_nulls(list(zip(names, types, strict=True))))
    fields = [
        field.with_nullable(not never)
        for field, (_, _, never) in zip(schema, described, strict=True)
    ]
    return Plan(query, pa.schema(fields), types, {})


def _columns(table: Table, *, row_ids: bool) -> pa.Schema:
    info = table.info()
    return info.schema.append(pa.field(ROWID, info.row_id)) if row_ids else info.schema


def _fold(path: Path) -> Path:
    catalog, schema, name = path
    return fold(catalog), fold(schema), fold(name)


def _schemas(sources: Mapping[Path, Table]) -> dict[Path, pa.Schema]:
    return {_fold(path): table.info().schema for path, table in sources.items()}


def _table_paths(
    names: NameResolver, references: QueryReferences, access: AccessRules
) -> dict[tuple[str, ...], Path]:
    """Return DuckDB's path of each table of a catalog, by its name in the query.

    A name that no catalog has may be defined by WITH, or be a file.
    """
    paths: dict[tuple[str, ...], Path] = {}
    for parts in sorted(references.tables):
        if parts[0] == PAST or len(parts) > _MOST_PARTS:
            continue
        try:
            name = ObjectName(*reversed(parts))
            names.table(names.path(name))
            paths[tuple(fold(part) for part in parts)] = names.duckdb_path(name)
        except NotFound:
            if access.refuses_unknown(parts, references):
                raise
    return paths


def _hide_local_names(
    connection: StatementConnection,
    names: NameResolver,
    local_names: frozenset[str],
    paths: Mapping[tuple[str, ...], Path],
) -> None:
    """Declare an empty table for each name of WITH that no catalog has.

    WITH defines a name for a part of the query only. Elsewhere in the query, DuckDB would look for
    one of its own views, or for a file.
    """
    search_path = names.search_path
    nothing = pa.schema([("jetbridge_nothing", pa.bool_())])
    for name in local_names:
        if (name,) not in paths:
            connection.declare((search_path.catalog, search_path.schema, name), nothing)


def _rename(names: list[str], columns: tuple[str, ...]) -> list[str]:
    if len(columns) > len(names):
        raise BadRequest(
            f"the statement names {len(columns)} columns, but the query has {len(names)}"
        )
    return [*columns, *names[len(columns) :]]
