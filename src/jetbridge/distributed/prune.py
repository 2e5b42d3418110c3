"""Leaves out the columns that no operator above reads, from the top of a plan to its scans.

DuckDB's own pass for that is off: plans that it has changed cannot always be written down.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jetbridge.distributed import plan
from jetbridge.distributed.expressions import BoundExpression, Order, Ref, refs, remap
from jetbridge.distributed.types import BOOLEAN

Positions = dict[int, int]
Pruned = tuple[plan.Node, Positions]
# The columns that are read of each common table, by its number.
Reads = dict[int, set[int]]


def prune(node: plan.Node) -> plan.Node:
    """Return a plan with the same columns that reads no more than it must."""
    return _whole(node, {})


def _read(expressions: Iterable[BoundExpression | Order]) -> frozenset[int]:
    return frozenset().union(*map(refs, expressions))


def _kept(width: int, needed: Iterable[int]) -> list[int]:
    """Return the columns to keep, in order; at least one."""
    return sorted({index for index in needed if index < width}) or [0]


def _moved(kept: Sequence[int]) -> Positions:
    return {old: new for new, old in enumerate(kept)}


def _whole(node: plan.Node, reads: Reads) -> plan.Node:
    """Return a node with all its columns where they were."""
    pruned, moved = _some(node, range(len(node.types)), reads)
    same = all(old == new for old, new in moved.items())
    if same and len(pruned.types) == len(node.types):
        return pruned
    columns = (Ref(type, moved[index]) for index, type in enumerate(node.types))
    return plan.Projection(pruned, tuple(columns))


def _some(node: plan.Node, needed: Iterable[int], reads: Reads) -> Pruned:
    """Return a node with at least the needed columns."""
    method = _METHODS.get(type(node))
    if method is not None:
        return method(node, frozenset(needed), reads)
    whole = plan.map_children(node, lambda child: _whole(child, reads))
    return whole, _moved(range(len(node.types)))


def _get(node: plan.Get, needed: frozenset[int], reads: Reads) -> Pruned:
    if not needed:
        node = _counted(node)
    kept = _kept(len(node.output), needed)
    columns = sorted({node.output[index] for index in kept} | _read(node.filters))
    positions = _moved(columns)
    pruned = replace(
        node,
        columns=tuple(node.columns[index] for index in columns),
        output=tuple(positions[node.output[index]] for index in kept),
        filters=tuple(remap(condition, positions) for condition in node.filters),
    )
    return pruned, _moved(kept)


def _counted(node: plan.Get) -> plan.Get:
    """Return a scan of which only the number of rows matters."""
    if node.filters:
        return replace(node, output=(min(_read(node.filters)),))
    return replace(node, columns=(plan.ScanColumn("", BOOLEAN),), output=(0,))


def _function(node: plan.FunctionScan, needed: frozenset[int], reads: Reads) -> Pruned:
    kept = _kept(len(node.columns), needed)
    columns = tuple(node.columns[index] for index in kept)
    positions = tuple(node.positions[index] for index in kept)
    return replace(node, columns=columns, positions=positions), _moved(kept)


def _values(node: plan.Values, needed: frozenset[int], reads: Reads) -> Pruned:
    kept = _kept(len(node.columns), needed)
    rows = tuple(tuple(row[index] for index in kept) for row in node.rows)
    columns = tuple(node.columns[index] for index in kept)
    return plan.Values(rows, columns), _moved(kept)


def _projection(node: plan.Projection, needed: frozenset[int], reads: Reads) -> Pruned:
    kept = _kept(len(node.expressions), needed)
    expressions = [node.expressions[index] for index in kept]
    child, moved = _some(node.child, _read(expressions), reads)
    changed = tuple(remap(expression, moved) for expression in expressions)
    return plan.Projection(child, changed), _moved(kept)


def _filter(node: plan.Filter, needed: frozenset[int], reads: Reads) -> Pruned:
    child, moved = _some(node.child, needed | _read(node.conditions), reads)
    conditions = tuple(remap(condition, moved) for condition in node.conditions)
    return plan.Filter(child, conditions), moved


def _sorted(node: plan.OrderBy | plan.TopN, needed: frozenset[int], reads: Reads) -> Pruned:
    child, moved = _some(node.child, needed | _read(node.orders), reads)
    orders = tuple(remap(order, moved) for order in node.orders)
    return replace(node, child=child, orders=orders), moved


def _limit(node: plan.Limit, needed: frozenset[int], reads: Reads) -> Pruned:
    child, moved = _some(node.child, needed, reads)
    return replace(node, child=child), moved


def _aggregation(node: plan.Aggregation, needed: frozenset[int], reads: Reads) -> Pruned:
    groups, width = len(node.groups), len(node.aggregates)
    aggregates = [index for index in range(width) if groups + index in needed]
    if not groups and not aggregates:
        aggregates = [0] if width else []
    values = [node.aggregates[index] for index in aggregates]
    child, moved = _some(node.child, _read((*node.groups, *values)), reads)
    pruned = replace(
        node,
        child=child,
        groups=tuple(remap(group, moved) for group in node.groups),
        aggregates=tuple(remap(value, moved) for value in values),
    )
    kept = [*range(groups), *(groups + index for index in aggregates)]
    return pruned, _moved([*kept, *range(groups + width, len(node.types))])


def _appending(node: plan.Windows | plan.Unnesting, needed: frozenset[int], reads: Reads) -> Pruned:
    """Operators that add columns to those of their child; all unnested lists are kept."""
    width = len(node.child.types)
    added = [
        index
        for index in range(len(node.expressions))
        if width + index in needed or isinstance(node, plan.Unnesting)
    ]
    expressions = [node.expressions[index] for index in added]
    below = {index for index in needed if index < width} | _read(expressions)
    child, moved = _some(node.child, below, reads)
    if not added:
        return child, moved
    start = len(child.types)
    places = {width + index: start + new for new, index in enumerate(added)}
    changed: Any = tuple(remap(expression, moved) for expression in expressions)
    return replace(node, child=child, expressions=changed), {**moved, **places}


def _join(node: plan.Join, needed: frozenset[int], reads: Reads) -> Pruned:
    width = len(node.left.types)
    used = needed | (_read((node.predicate,)) if node.predicate else frozenset())
    left_used = {index for index in used if index < width}
    right_used = {index - width for index in used if index >= width}
    if node.kind == "MARK":
        right_used = {index - width for index in used - needed if index >= width}
    left_used |= _read(condition.left for condition in node.conditions)
    right_used |= _read(condition.right for condition in node.conditions)
    left, left_moved = _some(node.left, left_used, reads)
    right, right_moved = _some(node.right, right_used, reads)
    start = len(left.types)
    shifted = {width + old: start + new for old, new in right_moved.items()}
    conditions = tuple(
        plan.JoinCondition(remap(c.left, left_moved), c.operator, remap(c.right, right_moved))
        for c in node.conditions
    )
    predicate = node.predicate and remap(node.predicate, {**left_moved, **shifted})
    pruned = replace(node, left=left, right=right, conditions=conditions, predicate=predicate)
    if node.kind == "MARK":
        return pruned, {**left_moved, width: start}
    return pruned, left_moved if node.kind in ("SEMI", "ANTI") else {**left_moved, **shifted}


def _distinct(node: plan.Distinct, needed: frozenset[int], reads: Reads) -> Pruned:
    if not node.on:
        return replace(node, child=_whole(node.child, reads)), _moved(range(len(node.types)))
    child, moved = _some(node.child, needed | _read((*node.on, *node.orders)), reads)
    on = tuple(remap(expression, moved) for expression in node.on)
    return plan.Distinct(child, on, tuple(remap(order, moved) for order in node.orders)), moved


def _union(node: plan.Union, needed: frozenset[int], reads: Reads) -> Pruned:
    kept = _kept(len(node.types), needed)
    children = []
    for child in node.children:
        pruned, moved = _some(child, kept, reads)
        columns = tuple(Ref(child.types[index], moved[index]) for index in kept)
        plain = [column.index for column in columns] == list(range(len(pruned.types)))
        children.append(pruned if plain else plan.Projection(pruned, columns))
    return plan.Union(tuple(children)), _moved(kept)


def _common_table(node: plan.CommonTable, needed: frozenset[int], reads: Reads) -> Pruned:
    body, moved = _some(node.body, needed, reads)
    used = reads.get(node.number, set())
    definition, places = _some(node.definition, used, reads)
    return plan.CommonTable(node.number, definition, _reading(body, node.number, places)), moved


def _common_table_ref(node: plan.CommonTableRef, needed: frozenset[int], reads: Reads) -> Pruned:
    kept = _kept(len(node.columns), needed)
    columns = tuple(node.columns[index] for index in kept)
    types = tuple(node.column_types[index] for index in kept)
    reads.setdefault(node.number, set()).update(columns)
    return replace(node, columns=columns, column_types=types), _moved(kept)


def _recursion(node: plan.Recursion, needed: frozenset[int], reads: Reads) -> Pruned:
    whole = plan.map_children(node, lambda child: _whole(child, reads))
    return whole, _moved(range(len(node.types)))


def _reading(node: plan.Node, number: int, places: Positions) -> plan.Node:
    """Return a body that reads a common table whose columns have moved."""
    if isinstance(node, plan.CommonTableRef):
        if node.number != number:
            return node
        return replace(node, columns=tuple(places[index] for index in node.columns))
    return plan.map_children(node, lambda child: _reading(child, number, places))


_METHODS: Mapping[type, Callable[[Any, frozenset[int], Reads], Pruned]] = {
    plan.Get: _get,
    plan.FunctionScan: _function,
    plan.Values: _values,
    plan.Projection: _projection,
    plan.Filter: _filter,
    plan.OrderBy: _sorted,
    plan.TopN: _sorted,
    plan.Limit: _limit,
    plan.Aggregation: _aggregation,
    plan.Windows: _appending,
    plan.Unnesting: _appending,
    plan.Join: _join,
    plan.Distinct: _distinct,
    plan.Union: _union,
    plan.CommonTable: _common_table,
    plan.CommonTableRef: _common_table_ref,
    plan.Recursion: _recursion,
}
