"""Where joins are cut: which side is broadcast, or by which keys both are exchanged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jetbridge.distributed import plan
from jetbridge.distributed.cut.pieces import PieceRows, PlanPiece, StageBuilder, single
from jetbridge.distributed.types import can_be_key

# The side to broadcast, or an exchange of both by keys, or all rows in one task.
JoinWay = Literal["left", "right", "keys", "single"]
# Kinds in which each row of one side stands for itself: the other one may be in every task.
_LEFT_ALONE = ("INNER", "LEFT", "SEMI", "ANTI", "MARK", "SINGLE")
_RIGHT_ALONE = ("INNER", "RIGHT")


@dataclass(frozen=True)
class Side:
    """Holds one input of a join; a small one may be broadcast."""

    rows: PieceRows
    is_small: bool

    @property
    def is_free(self) -> bool:
        """Return whether it costs nothing to have it in every task."""
        return len(self.rows.pieces) == 1 and self.rows.pieces[0].is_constant


def cut_join(builder: StageBuilder, node: plan.Join, left: Side, right: Side) -> PieceRows:
    """Return the rows of a join of cut inputs."""
    if left.rows.is_single and right.rows.is_single:
        return single(_joined(node, left.rows.node, right.rows.node), steady=False)
    way = _way(node, left, right)
    if way == "right":
        rows = right.rows
        if node.kind == "MARK" and not right.is_free:
            # It may be large, and only asks which values there are.
            rows = rows.map(plan.Distinct)
        other = builder.broadcast(rows)
        return left.rows.map(lambda own: _joined(node, own, other)).unsteady()
    if way == "left":
        other = builder.broadcast(left.rows)
        # The keys of the right columns are not where they were.
        return right.rows.map(lambda own: _joined(node, other, own), {}).unsteady()
    if way == "keys":
        return _by_keys(builder, node, left.rows, right.rows)
    both = builder.gather(left.rows).node, builder.gather(right.rows).node
    return single(_joined(node, *both), steady=False)


def _joined(node: plan.Join, left: plan.Node, right: plan.Node) -> plan.Node:
    return plan.Join(node.kind, left, right, node.conditions, node.predicate, node.is_asof)


def _way(node: plan.Join, left: Side, right: Side) -> JoinWay:
    """Return how the rows of both sides meet."""
    allowed: list[tuple[JoinWay, Side]] = []
    if node.kind in _LEFT_ALONE:
        allowed.append(("right", right))
    if node.kind in _RIGHT_ALONE and not node.is_asof:
        allowed.append(("left", left))
    for name, side in allowed:
        if side.is_free:
            return name
    for name, side in allowed:
        if side.is_small or side.rows.is_single:
            return name
    if keys_of(node):
        return "keys"
    return allowed[0][0] if allowed else "single"


def keys_of(node: plan.Join) -> Sequence[plan.JoinCondition]:
    """Return the conditions by whose sides both inputs may be exchanged.

    A MARK join by `=` must know whether any right row is NULL, so its sides stay together.
    """
    operators = ("IS NOT DISTINCT FROM",) if node.kind == "MARK" else ("=", "IS NOT DISTINCT FROM")
    return [
        condition
        for condition in node.conditions
        if condition.operator in operators
        and condition.left.type == condition.right.type
        and can_be_key(condition.left.type)
    ]


def _by_keys(
    builder: StageBuilder, node: plan.Join, left: PieceRows, right: PieceRows
) -> PieceRows:
    keys = keys_of(node)
    lefts = builder.by_hash(left, [condition.left for condition in keys])
    rights = builder.by_hash(right, [condition.right for condition in keys])
    joined = _joined(node, lefts.node, rights.node)
    kept = lefts.pieces[0].keys if node.kind in _LEFT_ALONE else ()
    return PieceRows((PlanPiece(joined, "partition", kept),), steady=False)
