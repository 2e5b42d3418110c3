"""Bound expressions of a plan. They refer to the columns of their input by position."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from jetbridge.distributed.types import BOOLEAN, Type

E = TypeVar("E")


@dataclass(frozen=True)
class BoundExpression:
    """Base of all expressions; `type` is what DuckDB's binder gave it."""

    type: Type


@dataclass(frozen=True)
class Ref(BoundExpression):
    """Reads a column of the input."""

    index: int


@dataclass(frozen=True)
class BoundConstant(BoundExpression):
    """Holds a value: None, a Python number or text, or a tuple of constants for nested types.

    An INTERVAL is the tuple of its months, days and microseconds; dates and times are numbers as
    DuckDB stores them, and a DECIMAL is its unscaled number.
    """

    value: Any


@dataclass(frozen=True)
class BoundCast(BoundExpression):
    child: BoundExpression
    is_try: bool = False


@dataclass(frozen=True)
class Compare(BoundExpression):
    """`operator` is as in SQL, such as `=` or `IS NOT DISTINCT FROM`."""

    operator: str
    left: BoundExpression
    right: BoundExpression


@dataclass(frozen=True)
class Logic(BoundExpression):
    """`operator` is AND or OR."""

    operator: str
    children: tuple[BoundExpression, ...]


@dataclass(frozen=True)
class BoundCase(BoundExpression):
    whens: tuple[tuple[BoundExpression, BoundExpression], ...]
    otherwise: BoundExpression


@dataclass(frozen=True)
class Operator(BoundExpression):
    """Applies one of IS NULL, IS NOT NULL, NOT, COALESCE, IN, NOT IN, TRY."""

    name: str
    children: tuple[BoundExpression, ...]


@dataclass(frozen=True)
class Lambda:
    """Holds a lambda function: refs are its parameters, the last one first, then captures."""

    parameters: int
    body: BoundExpression


@dataclass(frozen=True)
class BoundCall(BoundExpression):
    """Calls a function. With `function` it is over a list, and its last children are captured."""

    name: str
    children: tuple[BoundExpression, ...]
    function: Lambda | None = None
    captures: int = 0


@dataclass(frozen=True)
class Order:
    """Sorts by a key; `direction` is ASC or DESC, `nulls` is NULLS FIRST or NULLS LAST."""

    expression: BoundExpression
    direction: str
    nulls: str


@dataclass(frozen=True)
class Aggregate(BoundExpression):
    name: str
    children: tuple[BoundExpression, ...]
    distinct: bool = False
    filter: BoundExpression | None = None
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True)
class Bound:
    """Ends a frame: UNBOUNDED, CURRENT or an offset, PRECEDING or FOLLOWING."""

    kind: str
    offset: BoundExpression | None = None


@dataclass(frozen=True)
class Window(BoundExpression):
    name: str
    children: tuple[BoundExpression, ...]
    partitions: tuple[BoundExpression, ...]
    orders: tuple[Order, ...]
    filter: BoundExpression | None
    unit: str
    start: Bound
    end: Bound
    exclude: str
    distinct: bool
    ignore_nulls: bool
    argument_orders: tuple[Order, ...]


@dataclass(frozen=True)
class Average(BoundExpression):
    """Gives avg() from a sum and a count; `short` types divide doubles, others 80 bits."""

    total: BoundExpression
    count: BoundExpression
    scale: int
    short: bool


@dataclass(frozen=True)
class Unnest(BoundExpression):
    child: BoundExpression


def _mapped(value: Any, change: Callable[[BoundExpression], BoundExpression]) -> Any:
    match value:
        case BoundExpression():
            return change(value)
        case tuple() if value and not isinstance(value[0], str | int):
            return tuple(_mapped(part, change) for part in value)
        case Order() | Bound():
            return map_children(value, change)
    return value


def map_children(expression: E, change: Callable[[BoundExpression], BoundExpression]) -> E:
    """Return the same expression over changed children."""
    if isinstance(expression, Ref | BoundConstant) or not is_dataclass(expression):
        return expression
    changed = {}
    for field in fields(expression):
        value = getattr(expression, field.name)
        if isinstance(value, BoundExpression | tuple | Order | Bound):
            changed[field.name] = _mapped(value, change)
    return replace(cast(Any, expression), **changed)  # type: ignore[no-any-return]


def children_of(expression: BoundExpression | Order) -> list[BoundExpression]:
    """Return the expressions directly below."""
    children: list[BoundExpression] = []

    def note(child: BoundExpression) -> BoundExpression:
        children.append(child)
        return child

    map_children(expression, note)
    return children


def walk(expression: BoundExpression | Order) -> Iterator[BoundExpression]:
    """Yield an expression and all that is below it, bodies of lambda functions too."""
    if isinstance(expression, BoundExpression):
        yield expression
    if isinstance(expression, BoundCall) and expression.function:
        yield from walk(expression.function.body)
    for child in children_of(expression):
        yield from walk(child)


def refs(expression: BoundExpression | Order) -> frozenset[int]:
    """Return the positions of the columns that an expression reads."""
    if isinstance(expression, Ref):
        return frozenset((expression.index,))
    return frozenset().union(*map(refs, children_of(expression)))


def remap(expression: E, positions: Mapping[int, int]) -> E:
    """Return the same expression over columns that have moved."""

    def change(child: BoundExpression) -> BoundExpression:
        if isinstance(child, Ref):
            return replace(child, index=positions[child.index])
        return map_children(child, change)

    if isinstance(expression, BoundExpression):
        return change(expression)  # type: ignore[return-value]
    return map_children(expression, change)


def conjunction(conditions: tuple[BoundExpression, ...]) -> BoundExpression:
    """Return one condition that holds where all of them do."""
    if len(conditions) == 1:
        return conditions[0]
    if not conditions:
        return BoundConstant(BOOLEAN, value=True)
    return Logic(BOOLEAN, "AND", conditions)
