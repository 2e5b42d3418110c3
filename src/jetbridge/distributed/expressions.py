"""Bound expressions of a plan. They refer to the columns of their input by position."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from jetbridge.distributed.types import BOOLEAN, Type

E = TypeVar("E")


@dataclass(frozen=True)
class Expression:
    """Base of all expressions; `type` is what DuckDB's binder gave it."""

    type: Type


@dataclass(frozen=True)
class Ref(Expression):
    """A column of the input."""

    index: int


@dataclass(frozen=True)
class Constant(Expression):
    """A value: None, a Python number or text, or a tuple of constants for nested types.

    An INTERVAL is the tuple of its months, days and microseconds; dates and times are numbers as
    DuckDB stores them, and a DECIMAL is its unscaled number.
    """

    value: Any


@dataclass(frozen=True)
class Cast(Expression):
    child: Expression
    is_try: bool = False


@dataclass(frozen=True)
class Compare(Expression):
    """`operator` is as in SQL, such as `=` or `IS NOT DISTINCT FROM`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Logic(Expression):
    """`operator` is AND or OR."""

    operator: str
    children: tuple[Expression, ...]


@dataclass(frozen=True)
class Case(Expression):
    whens: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True)
class Operator(Expression):
    """One of IS NULL, IS NOT NULL, NOT, COALESCE, IN, NOT IN, TRY."""

    name: str
    children: tuple[Expression, ...]


@dataclass(frozen=True)
class Lambda:
    """A lambda function: its refs are its parameters, the last one first, then the captures."""

    parameters: int
    body: Expression


@dataclass(frozen=True)
class Call(Expression):
    """A function. With `function` it is one over a list, whose last children are captured."""

    name: str
    children: tuple[Expression, ...]
    function: Lambda | None = None
    captures: int = 0


@dataclass(frozen=True)
class Order:
    """A key of a sort; `direction` is ASC or DESC, `nulls` is NULLS FIRST or NULLS LAST."""

    expression: Expression
    direction: str
    nulls: str


@dataclass(frozen=True)
class Aggregate(Expression):
    name: str
    children: tuple[Expression, ...]
    distinct: bool = False
    filter: Expression | None = None
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True)
class Bound:
    """An end of a frame: UNBOUNDED, CURRENT or an offset, PRECEDING or FOLLOWING."""

    kind: str
    offset: Expression | None = None


@dataclass(frozen=True)
class Window(Expression):
    name: str
    children: tuple[Expression, ...]
    partitions: tuple[Expression, ...]
    orders: tuple[Order, ...]
    filter: Expression | None
    unit: str
    start: Bound
    end: Bound
    exclude: str
    distinct: bool
    ignore_nulls: bool
    argument_orders: tuple[Order, ...]


@dataclass(frozen=True)
class Average(Expression):
    """What avg() answers for a sum and a count; `short` types divide doubles, others 80 bits."""

    total: Expression
    count: Expression
    scale: int
    short: bool


@dataclass(frozen=True)
class Unnest(Expression):
    child: Expression


def _mapped(value: Any, change: Callable[[Expression], Expression]) -> Any:
    match value:
        case Expression():
            return change(value)
        case tuple() if value and not isinstance(value[0], str | int):
            return tuple(_mapped(part, change) for part in value)
        case Order() | Bound():
            return map_children(value, change)
    return value


def map_children(expression: E, change: Callable[[Expression], Expression]) -> E:
    """Return the same expression over changed children."""
    if isinstance(expression, Ref | Constant) or not is_dataclass(expression):
        return expression
    changed = {}
    for field in fields(expression):
        value = getattr(expression, field.name)
        if isinstance(value, Expression | tuple | Order | Bound):
            changed[field.name] = _mapped(value, change)
    return replace(cast(Any, expression), **changed)  # type: ignore[no-any-return]


def children_of(expression: Expression | Order) -> list[Expression]:
    """Return the expressions directly below."""
    children: list[Expression] = []

    def note(child: Expression) -> Expression:
        children.append(child)
        return child

    map_children(expression, note)
    return children


def walk(expression: Expression | Order) -> Iterator[Expression]:
    """Yield an expression and all that is below it, bodies of lambda functions too."""
    if isinstance(expression, Expression):
        yield expression
    if isinstance(expression, Call) and expression.function:
        yield from walk(expression.function.body)
    for child in children_of(expression):
        yield from walk(child)


def refs(expression: Expression | Order) -> frozenset[int]:
    """Return the positions of the columns that an expression reads."""
    if isinstance(expression, Ref):
        return frozenset((expression.index,))
    return frozenset().union(*map(refs, children_of(expression)))


def remap(expression: E, positions: Mapping[int, int]) -> E:
    """Return the same expression over columns that have moved."""

    def change(child: Expression) -> Expression:
        if isinstance(child, Ref):
            return replace(child, index=positions[child.index])
        return map_children(child, change)

    if isinstance(expression, Expression):
        return change(expression)  # type: ignore[return-value]
    return map_children(expression, change)


def conjunction(conditions: tuple[Expression, ...]) -> Expression:
    """Return one condition that holds where all of them do."""
    if len(conditions) == 1:
        return conditions[0]
    if not conditions:
        return Constant(BOOLEAN, value=True)
    return Logic(BOOLEAN, "AND", conditions)
