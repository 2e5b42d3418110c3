"""Asks DuckDB for the type of every expression of a SELECT, in one question.

The relations are empty and have only the columns that are mentioned. What a subquery yields is a
column as well; aggregates and windows are computed by relations of their own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from jetbridge.dialects.quoting import identifier
from jetbridge.pipeline.translate.bound import is_typed, reference, set_type, type_of
from jetbridge.pipeline.translate.resolve import Calls
from jetbridge.pipeline.translate.types import NULL
from jetbridge.pipeline.translate.work import Work, empty

# Nodes that are no values, but hold some.
_HOLDERS = (
    exp.Ordered,
    exp.Order,
    exp.Where,
    exp.Distinct,
    exp.Slice,
    exp.PropertyEQ,
    exp.Filter,
    exp.WithinGroup,
    exp.IgnoreNulls,
    exp.RespectNulls,
    exp.Tuple,
)
_NOTHING = (exp.Identifier, exp.DataType, exp.Var, exp.Star, exp.WindowSpec, exp.Interval)
_TRUTHS = (exp.Predicate, exp.And, exp.Or, exp.Not)
_MEDIUM, _BIG = 2**31, 2**63
_NULLS = (exp.IgnoreNulls, exp.RespectNulls)
_AROUND = (exp.Window, exp.Filter, exp.WithinGroup, *_NULLS)


@dataclass
class Pieces:
    """The expressions of a SELECT, and what it computes by groups and over windows."""

    roots: list[exp.Expr]
    grouping: Calls | None = None
    windows: Calls | None = None


def annotate(work: Work, pieces: Pieces) -> None:
    """Sets the types of all values."""
    roots = [*pieces.roots, *_arguments(pieces.grouping), *_arguments(pieces.windows)]
    nodes = [node for root in roots for node in values(root)]
    asked = [node for node in nodes if not is_typed(node)]
    calls = [
        reference(each.alias, f"c{index}", "")
        for each in (pieces.grouping, pieces.windows)
        if each is not None
        for index in range(len(each.nodes))
    ]
    if asked or calls:
        texts = list(dict.fromkeys(node.sql("duckdb") for node in [*asked, *calls]))
        found = dict(zip(texts, _ask(work, texts, nodes, pieces), strict=True))
        for node in asked:
            set_type(node, found[node.sql("duckdb")])
        for each in (pieces.grouping, pieces.windows):
            for index, node in enumerate(each.nodes if each else ()):
                text = reference(each.alias, f"c{index}", "").sql("duckdb") if each else ""
                set_type(node, found[text])


def _arguments(calls: Calls | None) -> Iterator[exp.Expr]:
    """What a call is given; the call itself stands only where calls may."""
    for node in calls.nodes if calls else ():
        yield from _given(node)


def _given(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        if isinstance(node, _AROUND) and child.arg_key == "this":
            yield from _given(child)
        else:
            yield child


def values(node: exp.Expr) -> Iterator[exp.Expr]:
    """All expressions in it that have a value; sets the types that are plain to see."""
    if isinstance(node, _NOTHING):
        return
    holder = isinstance(node, _HOLDERS) or (
        isinstance(node, exp.If) and isinstance(node.parent, exp.Case)
    )
    if not holder:
        _plain(node)
        yield node
    if isinstance(node, exp.Column):
        return
    for child in node.iter_expressions():
        yield from values(child)


def _plain(node: exp.Expr) -> None:
    if is_typed(node):
        return
    if isinstance(node, exp.Null):
        set_type(node, NULL)
    elif isinstance(node, (*_TRUTHS, exp.Boolean)):
        set_type(node, "BOOLEAN")
    elif isinstance(node, exp.Literal):
        _plain_literal(node)


def _plain_literal(node: exp.Literal) -> None:
    """Whole numbers that are no constants of their own to DuckDB; there may be thousands."""
    if node.is_string:
        set_type(node, "VARCHAR")
    elif node.this.isdecimal() and node.this.isascii() and int(node.this) < _BIG:
        set_type(node, "INTEGER" if int(node.this) < _MEDIUM else "BIGINT")


def _ask(work: Work, texts: list[str], nodes: Iterable[exp.Expr], pieces: Pieces) -> list[str]:
    calls = [each for each in (pieces.grouping, pieces.windows) if each and each.nodes]
    own = {each.alias for each in calls}
    relations, names = [], []
    for alias, columns in _mentioned(nodes, own).items():
        relations.append(empty(alias, columns))
        names.append(identifier(alias))
    for each in calls:
        listed = ", ".join(
            f"{_call_text(node)} AS {identifier(f'c{index}')}"
            for index, node in enumerate(each.nodes)
        )
        relations.append(f"{identifier(each.alias)} AS (SELECT {listed} {_from(names)})")
        names.append(identifier(each.alias))
    return work.types(relations, texts, _from(names))


def _call_text(node: exp.Expr) -> str:
    return "CAST(0 AS BIGINT)" if isinstance(node, exp.Grouping) else node.sql("duckdb")


def _from(names: list[str]) -> str:
    return f"FROM {', '.join(names)}" if names else ""


def _mentioned(nodes: Iterable[exp.Expr], own: set[str]) -> dict[str, dict[str, str]]:
    """The columns by relation, with their types."""
    found: dict[str, dict[str, str]] = {}
    for node in nodes:
        if isinstance(node, exp.Column) and node.table not in own:
            found.setdefault(node.table, {})[node.name] = type_of(node)
    return found
