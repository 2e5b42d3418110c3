"""Rewrites AT (VERSION => n) and AT (TIMESTAMP => t), which DuckDB knows for its own tables only.

Each table with AT gets a name of its own in the query, and under it the table as it was then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jetbridge.catalog import AsOf, AtUnit
from jetbridge.dialects.duckdb.statements import select_expression
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.connection import PAST, StatementConnection
from jetbridge.errors import BadRequest
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.parsing.tokens import TokenCursor


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
        raise BadRequest(f"AT ({text[:40]}) must be a constant, as in AT (VERSION => 3)")
    return connection.constant(text)
