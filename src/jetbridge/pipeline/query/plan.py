"""A query bound by DuckDB against empty tables: what it yields, before anything is created."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import ROWID, Table
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import statements as queries
from jetbridge.duckdb_engine.planner import PAST, QueryReferences, StatementConnection
from jetbridge.errors import BadRequest, NotFound
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, NameResolver, Path
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.query.nullability import never_null
from jetbridge.pipeline.query.time_travel import rewrite_time_travel

ANYTHING = AccessRules(FileScope.ALL, trusted=True)
# A type that only DuckDB has: Arrow has no form for it.
_ALONE = "VARIANT"
DEPTH = ("catalog", "schema", "table")
# Where a statement finds the table whose rows it changes.
TARGET = (PAST, DEFAULT_SCHEMA, queries.TARGET)


@dataclass(frozen=True)
class Plan:
    """`schema` has the exact Arrow types and NOT NULL; `types` are DuckDB's names for them.

    `query` is what was asked, with names of our own for tables that are wanted as they were.
    `sources` are by the paths that DuckDB makes of their names.
    """

    query: str
    schema: pa.Schema
    types: tuple[str, ...]
    sources: Mapping[Path, Table]


def bind_query(
    desk: StatementConnection,
    places: NameResolver,
    query: str,
    columns: tuple[str, ...] = (),
    rules: AccessRules = ANYTHING,
    target: Table | None = None,
) -> Plan:
    """Raises what DuckDB finds wrong. `columns` are other names for those of the query.

    `target` is a table whose rows are to be changed: the query finds it, with row ids, at `TARGET`.
    """
    desk.use(places.place.catalog, places.place.schema)
    names = rules.check(desk, query)
    past = rewrite_time_travel(desk, query, rules)
    written = _sources(places, desk.references(past.query) if past.tables else names, rules)
    sources = {path: places.table(places.settled(path)) for path in written.values()}
    _guard(desk, places, names.cte_names, written)
    for key, each in past.tables.items():
        sources[PAST, DEFAULT_SCHEMA, key] = places.past(*each)
    if target is not None:
        sources[TARGET] = target
    for path, table in sources.items():
        desk.declare(path, _columns(table, row_ids=path == TARGET))
    found = desk.types(past.query)
    _refuse_unspeakable(found)
    schema = desk.schema(past.query)
    spelled = _names([name for name, _ in found], columns)
    folded = {name: _folded(path) for name, path in written.items()}
    required = never_null(past.query, tuple(spelled), _by_path(sources), folded)
    fields = [
        pa.field(name, field.type, nullable=not never, metadata=field.metadata)
        for name, field, never in zip(spelled, schema, required, strict=True)
    ]
    types = tuple(kind for _, kind in found)
    return Plan(past.query, pa.schema(fields), types, sources)


def _refuse_unspeakable(columns: Sequence[tuple[str, str]]) -> None:
    """All of them at once."""
    strange = [f"{name!r} ({kind})" for name, kind in columns if _ALONE in kind]
    if strange:
        raise BadRequest(
            f"no other system has the type of column {', '.join(strange)}: CAST it to VARCHAR"
        )


def plan_of_spark(
    desk: StatementConnection,
    query: str,
    described: Sequence[tuple[str, str, bool]],
    columns: tuple[str, ...] = (),
) -> Plan:
    """A query in Spark SQL; what it yields Spark has told, in DuckDB's types, and if NOT NULL."""
    names = _names([name for name, _, _ in described], columns)
    types = tuple(kind for _, kind, _ in described)
    schema = desk.schema(queries.select_nulls(list(zip(names, types, strict=True))))
    fields = [
        pa.field(field.name, field.type, nullable=not never, metadata=field.metadata)
        for field, (_, _, never) in zip(schema, described, strict=True)
    ]
    return Plan(query, pa.schema(fields), types, {})


def _columns(table: Table, *, row_ids: bool) -> pa.Schema:
    info = table.info()
    return info.schema.append(pa.field(ROWID, info.row_id)) if row_ids else info.schema


def _folded(path: Path) -> Path:
    catalog, space, name = path
    return fold(catalog), fold(space), fold(name)


def _by_path(sources: Mapping[Path, Table]) -> dict[Path, pa.Schema]:
    return {_folded(path): table.info().schema for path, table in sources.items()}


def _sources(
    places: NameResolver, names: QueryReferences, rules: AccessRules
) -> dict[tuple[str, ...], Path]:
    """The tables of catalogs, by what stands for them; another name is a part of the query."""
    sources: dict[tuple[str, ...], Path] = {}
    for parts in sorted(names.tables):
        if parts[0] == PAST or len(parts) > len(DEPTH):
            continue
        try:
            name = ObjectName(*reversed(parts))
            places.table(places.path(name))
            sources[tuple(fold(part) for part in parts)] = places.written(name)
        except NotFound:
            missing = rules.missing(parts, names)
            if missing is not None:
                raise
    return sources


def _guard(
    desk: StatementConnection,
    places: NameResolver,
    parts: frozenset[str],
    written: Mapping[tuple[str, ...], Path],
) -> None:
    """A name that WITH defines in one place means in another a table of ours, or nothing.

    Else it could be one of DuckDB's own views there, or a file.
    """
    nothing = pa.schema([("jetbridge_nothing", pa.bool_())])
    for name in parts:
        if (name,) not in written:
            desk.declare((places.place.catalog, places.place.schema, name), nothing)


def _names(found: list[str], given: tuple[str, ...]) -> list[str]:
    if len(given) > len(found):
        raise BadRequest(f"{len(given)} names for the {len(found)} columns of the query")
    return [*given, *found[len(given) :]]
