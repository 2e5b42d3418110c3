"""A query whose names are resolved and whose types are known.

Every column is a node `alias.ident`: the alias of a relation is unique in the whole query, so that
nothing depends on how Spark looks names up. Subqueries, aggregates and windows are columns too, of
relations that stand for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from jetbridge.pipeline.translate.untranslatable import Untranslatable

_TYPE = "duckdb"
RESOLVED = "resolved"  # the resolver must not look for the name again


def type_of(node: exp.Expr) -> str:
    """The DuckDB type of an expression."""
    found = node.meta.get(_TYPE)
    if not isinstance(found, str):
        raise Untranslatable(what(node))
    return found


def set_type(node: exp.Expr, duckdb_type: str) -> exp.Expr:
    node.meta[_TYPE] = duckdb_type
    return node


def is_typed(node: exp.Expr) -> bool:
    return _TYPE in node.meta


def what(node: exp.Expr) -> str:
    """How a refusal names a piece of the query."""
    if isinstance(node, exp.Anonymous):
        return f"the function {node.name}"
    return f"the function {node.sql_name().lower()}" if isinstance(node, exp.Func) else node.key


def reference(alias: str, ident: str, duckdb_type: str) -> exp.Column:
    node = exp.column(ident, table=alias, quoted=True)
    node.meta[RESOLVED] = True
    set_type(node, duckdb_type)
    return node


def only(node: exp.Expr, *known: str) -> None:
    """Refuses a node that says more than we know how to translate."""
    for name, value in node.args.items():
        if name not in known and value not in (None, False, [], ""):
            raise Untranslatable(f"{name.rstrip('_')} of {node.key}")


@dataclass
class Field:
    """A column of a query; `name` None: the query gives it none that we know."""

    name: str | None
    type: str


@dataclass
class Column:
    """A column of a relation: its name in the query, and the one it has in Spark."""

    name: str | None
    ident: str
    type: str
    missing: bool = False


@dataclass
class Source:
    """A relation of FROM; `path`: what may stand before its columns' names, longest form."""

    alias: str
    path: tuple[str, ...]
    columns: list[Column]
    table: str = ""
    query: "Bound | None" = None
    unnest: exp.Expr | None = None


@dataclass
class Join:
    """`how`: the words of Spark; `right` may be a chain of joins in brackets."""

    how: str
    right: "Source | From"
    on: list[exp.Expr]
    lateral: bool = False


@dataclass
class From:
    first: "Source | From"
    joins: list[Join] = field(default_factory=list)

    def sources(self) -> Iterator[Source]:
        for each in (self.first, *(join.right for join in self.joins)):
            if isinstance(each, From):
                yield from each.sources()
            else:
                yield each

    def conditions(self) -> Iterator[exp.Expr]:
        for join in self.joins:
            yield from join.on
        for each in (self.first, *(join.right for join in self.joins)):
            if isinstance(each, From):
                yield from each.conditions()


@dataclass
class Sorting:
    """By a column of the result, or by an expression."""

    by: int | exp.Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass
class Bound:
    """`outer`: the relations outside of the query that it mentions."""

    fields: list[Field]
    outer: set[str]


@dataclass
class Tail:
    """What comes after the rows are known."""

    order: list[Sorting] = field(default_factory=list)
    limit: int | None = None
    offset: int | None = None


@dataclass
class Grouping:
    """`sets`: the places of the keys in each set, where the query has grouping sets."""

    alias: str
    keys: list[exp.Expr] = field(default_factory=list)
    sets: list[list[int]] | None = None
    calls: list[exp.Expr] = field(default_factory=list)


@dataclass
class BoundSelect(Bound):
    items: list[exp.Expr]
    source: From | None
    where: exp.Expr | None
    grouping: Grouping | None
    having: exp.Expr | None
    windows: "Windows"
    qualify: exp.Expr | None
    distinct: bool
    distinct_on: list[exp.Expr]
    tail: Tail


@dataclass
class Windows:
    alias: str
    calls: list[exp.Expr] = field(default_factory=list)


@dataclass
class BoundSet(Bound):
    """`left` and `right`: which column of each side goes where; None is NULL."""

    operator: str
    sides: tuple[Bound, Bound]
    places: tuple[list[int | None], list[int | None]]
    tail: Tail


@dataclass
class BoundValues(Bound):
    rows: list[list[exp.Expr]]
    tail: Tail


@dataclass
class Shared(Bound):
    """A named query of WITH, which Spark knows under `name`."""

    name: str
    query: Bound


@dataclass
class Nested:
    """A subquery inside an expression: "scalar", "exists", or "rows" to look a value up in."""

    kind: str
    query: Bound
