"""The nodes of a predicate. `type` texts are DuckDB type names, e.g. `DECIMAL(12,2)`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

ComparisonOp = Literal["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


@dataclass(frozen=True)
class Column:
    name: str
    type: str = ""


@dataclass(frozen=True)
class Constant:
    """`value` is what DuckDB serialises: DECIMAL unscaled, dates and times as integers."""

    type: str
    value: Any


@dataclass(frozen=True)
class Comparison:
    op: ComparisonOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True)
class And:
    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Or:
    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Not:
    child: "Expr"


@dataclass(frozen=True)
class IsNull:
    child: "Expr"
    negated: bool = False


@dataclass(frozen=True)
class In:
    child: "Expr"
    items: tuple["Expr", ...]
    negated: bool = False


@dataclass(frozen=True)
class Between:
    child: "Expr"
    lower: "Expr"
    upper: "Expr"
    lower_inclusive: bool = True
    upper_inclusive: bool = True


@dataclass(frozen=True)
class Coalesce:
    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Case:
    whens: tuple[tuple["Expr", "Expr"], ...]
    otherwise: "Expr"


@dataclass(frozen=True)
class Cast:
    child: "Expr"
    type: str
    attempt: bool = False


@dataclass(frozen=True)
class Function:
    """`name` is DuckDB's; `operator` says that it is written between its arguments."""

    name: str
    arguments: tuple["Expr", ...]
    operator: bool = False


Expr = (
    Column
    | Constant
    | Comparison
    | And
    | Or
    | Not
    | IsNull
    | In
    | Between
    | Coalesce
    | Case
    | Cast
    | Function
)


def children_of(node: Expr) -> Iterator[Expr]:
    """The direct sub-expressions, in the order they are written."""
    match node:
        case Comparison(_, left, right):
            yield from (left, right)
        case And(children) | Or(children) | Coalesce(children):
            yield from children
        case Function(_, arguments):
            yield from arguments
        case Not(child) | IsNull(child) | Cast(child):
            yield child
        case In(child, items):
            yield from (child, *items)
        case Between(child, lower, upper):
            yield from (child, lower, upper)
        case Case(whens, otherwise):
            for condition, result in whens:
                yield from (condition, result)
            yield otherwise


def columns_of(node: Expr) -> frozenset[str]:
    """The names of all columns the predicate reads."""
    if isinstance(node, Column):
        return frozenset({node.name})
    return frozenset().union(*(columns_of(child) for child in children_of(node)))
