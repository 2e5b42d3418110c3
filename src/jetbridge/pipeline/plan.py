"""A query bound by DuckDB against empty tables: what it yields, before anything is created."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from jetbridge.catalog import Table
from jetbridge.embedded.workbench import Desk
from jetbridge.errors import BadRequest, NotFound
from jetbridge.names import fold
from jetbridge.pipeline.nullability import never_null
from jetbridge.pipeline.places import Path, Places
from jetbridge.pipeline.statements import ObjectName


@dataclass(frozen=True)
class Plan:
    """`schema` has the exact Arrow types and NOT NULL; `types` are DuckDB's names for them."""

    query: str
    schema: pa.Schema
    types: tuple[str, ...]
    sources: Mapping[Path, Table]


def plan(desk: Desk, places: Places, query: str, columns: tuple[str, ...] = ()) -> Plan:
    """Raises what DuckDB finds wrong. `columns` are other names for those of the query."""
    desk.use(places.place.catalog, places.place.schema)
    sources = _sources(desk, places, query)
    for path, table in sources.items():
        desk.declare(path, table.info().schema)
    found = desk.types(query)
    schema = desk.schema(query)
    names = _names([name for name, _ in found], columns)
    by_path = {
        (fold(catalog), fold(space), fold(name)): table.info().schema
        for (catalog, space, name), table in sources.items()
    }
    required = never_null(query, tuple(names), by_path)
    fields = [
        pa.field(name, field.type, nullable=not never, metadata=field.metadata)
        for name, field, never in zip(names, schema, required, strict=True)
    ]
    return Plan(query, pa.schema(fields), tuple(kind for _, kind in found), sources)


def _sources(desk: Desk, places: Places, query: str) -> dict[Path, Table]:
    """The tables of catalogs; other names DuckDB may know, or refuse."""
    sources: dict[Path, Table] = {}
    for parts in desk.table_names(query):
        name = ObjectName(*reversed(parts)) if len(parts) <= 3 else None  # noqa: PLR2004
        if name is None:
            continue
        try:
            path = places.path(name)
            sources[path] = places.table(path)
        except NotFound:
            if name.schema is not None:
                raise
    return sources


def _names(found: list[str], given: tuple[str, ...]) -> list[str]:
    if len(given) > len(found):
        raise BadRequest(f"{len(given)} names for the {len(found)} columns of the query")
    names = [*given, *found[len(given) :]]
    seen: set[str] = set()
    for name in names:
        if fold(name) in seen:
            raise BadRequest(
                f"the query has two columns called {name!r}; give one of them another name with AS"
            )
        seen.add(fold(name))
    return names
