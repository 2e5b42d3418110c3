"""Aggregates in two steps: partial ones in each task, and final ones over them.

Only those whose answer is the same to the last bit, whatever the order and the number of tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from jetbridge.distributed import plan
from jetbridge.distributed.expressions import (
    Aggregate,
    Average,
    BoundCast,
    BoundConstant,
    BoundExpression,
    Operator,
    Ref,
)
from jetbridge.distributed.types import BIGINT, HUGEINT, INTEGERS, Type

# A count times the scale of an average has to be exact in 60 bits (render/averages.py).
_LARGEST_AVERAGE_SCALE = 6
_LARGEST_DECIMAL = 38
# DECIMAL of so many digits is stored in 16 bits.
_SHORT_DECIMAL = 4


@dataclass(frozen=True)
class Steps:
    """Partial aggregates, and the final ones over their columns from `start` on.

    `finish` gives the value from the columns of the final aggregates, from `start` on.
    """

    partial: tuple[Aggregate, ...]
    final: tuple[str, ...]
    finish: Callable[[tuple[Ref, ...]], BoundExpression]


def _same(refs: tuple[Ref, ...]) -> BoundExpression:
    return refs[0]


def _by_itself(value: Aggregate) -> Steps:
    return Steps((value,), (value.name,), _same)


def _count(value: Aggregate) -> Steps:
    def finish(refs: tuple[Ref, ...]) -> BoundExpression:
        zero = BoundConstant(refs[0].type, 0)
        return BoundCast(BIGINT, Operator(refs[0].type, "COALESCE", (refs[0], zero)))

    return Steps((value,), ("sum",), finish)


def _is_exact(type: Type) -> bool:
    return type.name in (*INTEGERS, "DECIMAL", "BOOLEAN")


def _sum(value: Aggregate) -> Steps | None:
    return Steps((value,), ("sum",), _same) if _is_exact(value.children[0].type) else None


def _average(value: Aggregate) -> Steps | None:
    (child,) = value.children
    type = child.type
    if type.name not in ("INTEGER", "BIGINT", "SMALLINT", "HUGEINT", "DECIMAL"):
        return None
    if type.scale > _LARGEST_AVERAGE_SCALE:
        return None
    decimal = Type("DECIMAL", width=_LARGEST_DECIMAL, scale=type.scale)
    total = decimal if type.name == "DECIMAL" else HUGEINT
    sums = replace(value, name="sum", type=total)
    counts = replace(value, name="count", type=BIGINT)
    short = type.name == "SMALLINT" or (type.name == "DECIMAL" and type.width <= _SHORT_DECIMAL)

    def finish(refs: tuple[Ref, ...]) -> BoundExpression:
        return Average(value.type, refs[0], BoundCast(BIGINT, refs[1]), type.scale, short)

    return Steps((sums, counts), ("sum", "sum"), finish)


_STEPS: Mapping[str, Callable[[Aggregate], Steps | None]] = {
    "count": _count,
    "count_star": _count,
    "sum": _sum,
    "sum_no_overflow": _sum,
    "avg": _average,
    "mean": _average,
    "min": _by_itself,
    "max": _by_itself,
    "bool_and": _by_itself,
    "bool_or": _by_itself,
    "bit_and": _by_itself,
    "bit_or": _by_itself,
    "bit_xor": _by_itself,
}


def steps_of(value: Aggregate) -> Steps | None:
    """Return the two steps of an aggregate, or None if it needs all rows of a group at once."""
    if value.distinct or value.orders or len(value.children) > 1:
        return None
    steps = _STEPS.get(value.name)
    return steps(value) if steps else None


@dataclass(frozen=True)
class TwoSteps:
    """Holds an aggregation in two steps; the first `keys` columns of `partial` are the keys."""

    partial: plan.Node
    keys: int
    final: Callable[[plan.Node], plan.Node]


def two_steps(node: plan.Aggregation, child: plan.Node) -> TwoSteps | None:
    """Return an aggregation in two steps, if each of its aggregates has them.

    With grouping sets, the number of the set and the values of GROUPING() are keys as well; rows
    of the same set twice could not be told apart.
    """
    if len(set(node.sets)) < len(node.sets):
        return None
    steps = [steps_of(value) for value in node.aggregates]
    known = [one for one in steps if one is not None]
    if len(known) < len(steps):
        return None
    everything = (tuple(range(len(node.groups))),) if node.sets and node.groups else ()
    partial = plan.Aggregation(
        child,
        node.groups,
        tuple(value for one in known for value in one.partial),
        node.sets,
        (*node.grouping, *everything),
    )
    return TwoSteps(partial, len(node.groups), lambda rows: _final(node, known, rows))


def _final(node: plan.Aggregation, steps: list[Steps], rows: plan.Node) -> plan.Node:
    width = sum(len(one.partial) for one in steps)
    keys = [*range(len(node.groups)), *range(len(node.groups) + width, len(rows.types))]
    groups = tuple(Ref(rows.types[index], index) for index in keys)
    values: list[Aggregate] = []
    finished: list[BoundExpression] = []
    for one in steps:
        refs = []
        for partial, name in zip(one.partial, one.final, strict=True):
            column = Ref(partial.type, len(node.groups) + len(values))
            type = _final_type(name, partial.type)
            refs.append(Ref(type, len(groups) + len(values)))
            values.append(Aggregate(type, name, (column,)))
        finished.append(one.finish(tuple(refs)))
    final = plan.Aggregation(rows, groups, tuple(values))
    return plan.Projection(final, _columns(node, final, finished))


def _columns(
    node: plan.Aggregation, final: plan.Aggregation, finished: list[BoundExpression]
) -> tuple[BoundExpression, ...]:
    keys = [Ref(group.type, index) for index, group in enumerate(final.groups)]
    count = len(node.groups)
    return (*keys[:count], *finished, *keys[count : count + len(node.grouping)])


def _final_type(name: str, type: Type) -> Type:
    if name != "sum":
        return type
    if type.name == "DECIMAL":
        return Type("DECIMAL", width=_LARGEST_DECIMAL, scale=type.scale)
    return HUGEINT
