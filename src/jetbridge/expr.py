"""The nodes of a predicate. `type` texts are DuckDB type names, e.g. `DECIMAL(12,2)`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

ComparisonOp = Literal["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


@dataclass(frozen=True)
class Column:
    name: str
    type: str = ""


@dataclass(frozen=True)
class Constant:
    """`value` follows what DuckDB serialises, decoded to plain hashable Python values.

    None                      NULL of any type
    bool, int, float, str     BOOLEAN, the integers, FLOAT and DOUBLE, VARCHAR and JSON
    int                       DECIMAL: unscaled; DATE: days; TIME and TIMESTAMP of any unit: that
                              unit since midnight or 1970 (largest int and its negative: infinity)
    int                       TIME WITH TIME ZONE: microseconds << 24 | (57599 - offset seconds)
    bytes                     BLOB
    str                       UUID: canonical text; ENUM: the label
    (months, days, micros)    INTERVAL
    tuple of Constant         LIST, ARRAY
    tuple of (name, Constant) STRUCT
    tuple of (key, value)     MAP, both Constants
    """

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
    """`name` is DuckDB's; `operator` says that it is written between (or before) its arguments."""

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


_CHILDREN: dict[type[Any], Callable[[Any], Iterable[Expr]]] = {
    Column: lambda node: (),
    Constant: lambda node: (),
    Comparison: lambda node: (node.left, node.right),
    And: lambda node: node.children,
    Or: lambda node: node.children,
    Not: lambda node: (node.child,),
    IsNull: lambda node: (node.child,),
    In: lambda node: (node.child, *node.items),
    Between: lambda node: (node.child, node.lower, node.upper),
    Coalesce: lambda node: node.children,
    Case: lambda node: (*chain.from_iterable(node.whens), node.otherwise),
    Cast: lambda node: (node.child,),
    Function: lambda node: node.arguments,
}


def children_of(node: Expr) -> Iterable[Expr]:
    """The direct sub-expressions, in the order they are written."""
    return _CHILDREN[type(node)](node)


def walk(node: Expr) -> Iterator[Expr]:
    """The node and everything beneath it; no recursion, so any depth will do."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(children_of(current))


def columns_of(node: Expr) -> frozenset[str]:
    """The names of all columns the predicate reads."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Column))
