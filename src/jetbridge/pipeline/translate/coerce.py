"""Casts that DuckDB adds by itself, written out."""

from collections.abc import Sequence

from sqlglot import exp

from jetbridge.pipeline.translate.bound import reference
from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.match import Matcher, filled, takes
from jetbridge.pipeline.translate.types import NULL, spark_type
from jetbridge.pipeline.translate.untranslatable import Untranslatable

Typed = tuple[str, str]  # Spark SQL, and the DuckDB type of it


def converted(matcher: Matcher, text: str, given: str, wanted: str) -> str:
    """Spark SQL with another DuckDB type; only by casts that are in the table."""
    if given == wanted:
        return text
    if given == NULL:
        return f"CAST({text} AS {spark_type(wanted)})"
    target = exp.DataType.build(wanted, dialect="duckdb")
    node = exp.Cast(this=reference("x", "y", given), to=target)
    found = entry_for(matcher, node, [given], wanted)
    if found is None:
        raise Untranslatable(f"a cast of {given} to {wanted}")
    return filled(found, [text], wanted)


def entry_for(matcher: Matcher, node: exp.Expr, types: Sequence[str], result: str) -> Entry | None:
    """The entry for a node of this shape, with arguments of these types."""
    for entry, _ in matcher.candidates(node, "scalar"):
        if takes(entry, types, result):
            return entry
    return None


def compared(matcher: Matcher, operator: type[exp.Binary], left: Typed, right: Typed) -> str:
    """A comparison of two values."""
    node = operator(this=reference("x", "y", ""), expression=reference("x", "z", ""))
    entry = entry_for(matcher, node, [left[1], right[1]], "BOOLEAN")
    if entry is None:
        raise Untranslatable(f"{operator.key} of {left[1]} and {right[1]}")
    return filled(entry, [left[0], right[0]], "BOOLEAN")
