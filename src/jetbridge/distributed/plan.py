"""Operators of a plan, in no version's format: what decoders make and renderers read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from jetbridge.distributed.expressions import (
    Aggregate,
    BoundConstant,
    BoundExpression,
    Order,
    Unnest,
    Window,
)
from jetbridge.distributed.types import BIGINT, BOOLEAN, Type

Types = tuple[Type, ...]
# What a task reads of the rows of other stages; a split is one of what was kept.
Share = Literal["partition", "split", "all"]
N = TypeVar("N", bound="Node")


@dataclass(frozen=True)
class Node:
    """Base of all operators."""

    @cached_property
    def types(self) -> Types:
        """Return the types of the columns."""
        raise NotImplementedError


@dataclass(frozen=True)
class Unary(Node):
    child: Node

    @cached_property
    def types(self) -> Types:
        return self.child.types


@dataclass(frozen=True)
class TableName:
    """Names a table; one Parquet file is a table named by its path, in no catalog."""

    catalog: str
    schema: str
    table: str


@dataclass(frozen=True)
class ScanColumn:
    """Names a column of a table, or its row number."""

    name: str
    type: Type


@dataclass(frozen=True)
class Get(Node):
    """Scans a table: `filters` are over `columns`, of which `output` says what leaves it.

    `whole` scans are read by each task from the first row to the last, others by splits.
    """

    table: TableName
    columns: tuple[ScanColumn, ...]
    output: tuple[int, ...]
    filters: tuple[BoundExpression, ...] = ()
    whole: bool = False

    @cached_property
    def types(self) -> Types:
        return tuple(self.columns[index].type for index in self.output)


@dataclass(frozen=True)
class FunctionScan(Node):
    """Calls a function of constants in FROM, such as range(10)."""

    name: str
    parameters: tuple[BoundConstant, ...]
    width: int
    columns: tuple[ScanColumn, ...]
    positions: tuple[int, ...]

    @cached_property
    def types(self) -> Types:
        return tuple(column.type for column in self.columns)


@dataclass(frozen=True)
class Input(Node):
    """Reads rows of other stages: `share` of them in each task."""

    stages: tuple[int, ...]
    columns: Types
    share: Share

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True)
class Values(Node):
    """Rows of constant expressions."""

    rows: tuple[tuple[BoundExpression, ...], ...]
    columns: Types

    @cached_property
    def types(self) -> Types:
        return self.columns


@dataclass(frozen=True)
class Projection(Unary):
    expressions: tuple[BoundExpression, ...]

    @cached_property
    def types(self) -> Types:
        return tuple(expression.type for expression in self.expressions)


@dataclass(frozen=True)
class Filter(Unary):
    conditions: tuple[BoundExpression, ...]


@dataclass(frozen=True)
class Aggregation(Unary):
    """`sets` are grouping sets, each with positions in `groups`; `grouping` those of GROUPING()."""

    groups: tuple[BoundExpression, ...]
    aggregates: tuple[Aggregate, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    grouping: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def types(self) -> Types:
        values = tuple(value.type for value in (*self.groups, *self.aggregates))
        return values + (BIGINT,) * len(self.grouping)


@dataclass(frozen=True)
class Windows(Unary):
    expressions: tuple[Window, ...]

    @cached_property
    def types(self) -> Types:
        return self.child.types + tuple(expression.type for expression in self.expressions)


@dataclass(frozen=True)
class Unnesting(Unary):
    expressions: tuple[Unnest, ...]

    @cached_property
    def types(self) -> Types:
        return self.child.types + tuple(expression.type for expression in self.expressions)


@dataclass(frozen=True)
class OrderBy(Unary):
    orders: tuple[Order, ...]


@dataclass(frozen=True)
class TopN(Unary):
    orders: tuple[Order, ...]
    limit: int
    offset: int


@dataclass(frozen=True)
class Limit(Unary):
    """Numbers of rows; with `percent`, `limit` is a share of all rows."""

    limit: int | float | None
    offset: int
    percent: bool = False


@dataclass(frozen=True)
class Distinct(Unary):
    """Keeps one of equal rows; with `on`, the first by `orders` for each value of `on`."""

    on: tuple[BoundExpression, ...] = ()
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True)
class JoinCondition:
    """Compares rows: `left` is over the left columns, `right` over the right ones."""

    left: BoundExpression
    operator: str
    right: BoundExpression


@dataclass(frozen=True)
class Join(Node):
    """`kind` is INNER, LEFT, RIGHT, FULL, SEMI, ANTI, MARK or SINGLE.

    `predicate` is over the columns of both sides. A MARK join adds whether the left row has a
    partner, in three-valued logic; a SINGLE join is a LEFT one with at most one partner.
    """

    kind: str
    left: Node
    right: Node
    conditions: tuple[JoinCondition, ...] = ()
    predicate: BoundExpression | None = None
    is_asof: bool = False

    @cached_property
    def types(self) -> Types:
        if self.kind in ("SEMI", "ANTI"):
            return self.left.types
        if self.kind == "MARK":
            return (*self.left.types, BOOLEAN)
        return self.left.types + self.right.types


@dataclass(frozen=True)
class Positional(Node):
    left: Node
    right: Node

    @cached_property
    def types(self) -> Types:
        return self.left.types + self.right.types


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL."""

    children: tuple[Node, ...]

    @cached_property
    def types(self) -> Types:
        return self.children[0].types


@dataclass(frozen=True)
class SetOperation(Node):
    """`kind` is EXCEPT or INTERSECT."""

    kind: str
    left: Node
    right: Node
    is_all: bool

    @cached_property
    def types(self) -> Types:
        return self.left.types


@dataclass(frozen=True)
class CommonTable(Node):
    """`body` reads the rows of `definition`, which are computed once."""

    number: int
    definition: Node
    body: Node

    @cached_property
    def types(self) -> Types:
        return self.body.types


@dataclass(frozen=True)
class CommonTableRef(Node):
    """`columns` are positions in the definition; `recurring` reads all rows so far."""

    number: int
    columns: tuple[int, ...]
    column_types: Types
    recurring: bool = False

    @cached_property
    def types(self) -> Types:
        return self.column_types


@dataclass(frozen=True)
class Recursion(Node):
    """Repeats `step` over its own rows; `keys` are those of USING KEY."""

    number: int
    first: Node
    step: Node
    is_all: bool
    keys: tuple[BoundExpression, ...] = ()

    @cached_property
    def types(self) -> Types:
        return self.first.types


def children_of(node: Node) -> list[Node]:
    """Return the operators directly below."""
    children: list[Node] = []
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            children.append(value)
        elif field.name == "children":
            children.extend(value)
    return children


def map_children(node: N, change: Callable[[Node], Node]) -> N:
    """Return the same operator over changed children."""
    changed: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changed[field.name] = change(value)
        elif field.name == "children":
            changed[field.name] = tuple(map(change, value))
    return replace(node, **changed) if changed else node


def walk(node: Node) -> Iterator[Node]:
    """Yield an operator and all that are below it."""
    yield node
    for child in children_of(node):
        yield from walk(child)


def expressions_of(node: Node) -> Iterator[BoundExpression | Order]:
    """Yield the expressions that an operator itself has."""
    pending = [getattr(node, field.name) for field in fields(node)]
    while pending:
        match pending.pop():
            case BoundExpression() | Order() as expression:
                yield expression
            case JoinCondition(left, _, right):
                pending += (left, right)
            case tuple() as values:
                pending.extend(values)
