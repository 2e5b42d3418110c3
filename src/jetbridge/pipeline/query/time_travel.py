"""AT (VERSION => n) and AT (TIMESTAMP => t) in queries, which DuckDB knows for its own tables only.

Such a table gets a name of its own in the query, behind which is the table as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jetbridge.catalog import AsOf, AtUnit
from jetbridge.dialects.duckdb.statements import select_expression
from jetbridge.dialects.quoting import identifier
from jetbridge.duckdb_engine.planner import PAST, StatementConnection
from jetbridge.errors import BadRequest
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.parsing.statements import ObjectName
from jetbridge.pipeline.parsing.tokens import TokenCursor


@dataclass(frozen=True)
class TimeTravelQuery:
    """A query without AT, and what its new names stand for."""

    query: str
    tables: Mapping[str, tuple[ObjectName, AsOf]]


def rewrite_time_travel(
    desk: StatementConnection, query: str, rules: AccessRules
) -> TimeTravelQuery:
    """Raises BadRequest for a point in time that is no constant."""
    words = TokenCursor(query)
    if not words.finds("AT", "("):
        return TimeTravelQuery(query, {})
    found: dict[str, tuple[ObjectName, AsOf]] = {}
    for start in reversed(desk.time_travel_positions(query)):
        clause = TokenCursor(query[start:])
        name = clause.name()
        alias = clause.alias("AT") or name.name
        clause.expect("AT")
        clause.expect("(")
        unit = AtUnit(clause.identifier().upper())
        clause.expect("=>")
        value = _constant(desk, clause.inside(), rules)
        key = f"past_{len(found)}"
        found[key] = (name, AsOf(unit, value))
        rest = query[start + clause.position() :]
        query = f"{query[:start]}{PAST}.main.{key} AS {identifier(alias)} {rest}"
    return TimeTravelQuery(query, found)


def _constant(desk: StatementConnection, text: str, rules: AccessRules) -> str:
    names = rules.check(desk, select_expression(text))
    if names.tables or names.table_functions:
        raise BadRequest(f"AT ({text[:40]}) must be a constant, as VERSION => 3")
    return desk.constant(text)
