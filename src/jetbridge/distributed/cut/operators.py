"""Where a plan is cut: each operator says which rows must be in one task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jetbridge.distributed import plan
from jetbridge.distributed.cut.aggregates import two_steps
from jetbridge.distributed.cut.joins import Side, cut_join
from jetbridge.distributed.cut.pieces import CheckTypes, PieceRows, PlanPiece, StageBuilder, single
from jetbridge.distributed.expressions import BoundExpression, Ref, Window
from jetbridge.distributed.stages import RowExchange, Stage
from jetbridge.distributed.types import NotDistributed, can_be_key

_LARGEST_LIMIT = 2**62
_STEADY_AGGREGATES = frozenset(
    [
        "count",
        "count_star",
        "sum",
        "sum_no_overflow",
        "avg",
        "mean",
        "min",
        "max",
        "bool_and",
        "bool_or",
        "bit_and",
        "bit_or",
        "bit_xor",
    ]
)


@dataclass(frozen=True)
class CutOptions:
    """Say what is known of tables: `table_rows` estimates rows, None if unknown.

    A side of a join whose tables have at most `broadcast_rows` rows together goes to every task.
    """

    table_rows: Callable[[plan.TableName], int | None]
    broadcast_rows: int


@dataclass(frozen=True)
class CutPlan:
    """Holds the stages of a plan; the rows of `results` are the answer."""

    stages: tuple[Stage, ...]
    results: tuple[int, ...]
    is_ordered: bool
    is_steady: bool


def cut_plan(node: plan.Node, options: CutOptions, check_types: CheckTypes) -> CutPlan:
    """Return the stages of a plan; raise `NotDistributed` for what has no SQL."""
    cutter = _Cutter(options, StageBuilder(check_types))
    rows = cutter.rows(node)
    results = cutter.builder.close(rows, RowExchange("result"))
    return CutPlan(tuple(cutter.builder.stages), results, rows.ordered, cutter.is_steady)


def one_stage(node: plan.Node, check_types: CheckTypes) -> CutPlan:
    """Return a plan as one stage in one task."""
    builder = StageBuilder(check_types)
    whole = _Cutter(CutOptions(lambda table: None, 0), builder).whole(node)
    results = builder.close(single(whole), RowExchange("result"))
    return CutPlan(tuple(builder.stages), results, is_ordered=True, is_steady=True)


class _Cutter:
    """Cuts a plan: each method returns the rows of an operator, in pieces that may grow."""

    def __init__(self, options: CutOptions, builder: StageBuilder) -> None:
        self._options = options
        self.builder = builder
        self.is_steady = True
        # The stages that keep the rows of common tables, and whether these are steady.
        self._kept: dict[int, tuple[tuple[int, ...], plan.Types, bool]] = {}

    def rows(self, node: plan.Node) -> PieceRows:
        method = _METHODS.get(type(node))
        if method is None:
            raise NotDistributed(f"the operator {type(node).__name__}")
        return method(self, node)

    def whole(self, node: plan.Node) -> plan.Node:
        """Return operators that read all of their tables in one task."""
        if isinstance(node, plan.Get):
            return replace(node, whole=True)
        if isinstance(node, plan.CommonTableRef) and node.number in self._kept:
            return self._kept_input(node, "all")
        return plan.map_children(node, self.whole)

    def depends_on_order(self, rows: PieceRows) -> None:
        """Note that the answer depends on the order of these rows."""
        self.is_steady = self.is_steady and (rows.steady or rows.ordered)

    def leaf(self, node: plan.Node) -> PieceRows:
        return single(node)

    def get(self, node: plan.Get) -> PieceRows:
        return PieceRows((PlanPiece(node, "split"),))

    def row_by_row(self, node: plan.Filter | plan.Unnesting) -> PieceRows:
        return self.rows(node.child).map(lambda child: replace(node, child=child))

    def projection(self, node: plan.Projection) -> PieceRows:
        moved = {
            expression.index: index
            for index, expression in enumerate(node.expressions)
            if isinstance(expression, Ref)
        }
        rows = self.rows(node.child)
        return rows.map(lambda child: plan.Projection(child, node.expressions), moved)

    def aggregation(self, node: plan.Aggregation) -> PieceRows:
        rows = self._aggregated(node)
        # One row has only one order.
        return rows if node.groups or node.sets else replace(rows, steady=True)

    def _aggregated(self, node: plan.Aggregation) -> PieceRows:
        rows = self.rows(node.child)
        if any(value.name not in _STEADY_AGGREGATES for value in node.aggregates):
            self.depends_on_order(rows)
        if rows.is_single:
            return single(replace(node, child=rows.node), steady=False)
        if node.groups and not node.sets and _lies_by(rows, node.groups):
            keys = tuple(_position(node.groups, key) for key in rows.pieces[0].keys)
            return PieceRows(
                (PlanPiece(replace(node, child=rows.node), "partition", keys),), steady=False
            )
        if two_steps(node, rows.pieces[0].node) is not None:
            return self._two_steps(node, rows)
        if node.groups and not node.sets and _may_be_keys(node.groups):
            rows = self.builder.by_hash(rows, node.groups)
        else:
            rows = self.builder.gather(rows)
        return rows.map(lambda child: replace(node, child=child), {}).unsteady()

    def _two_steps(self, node: plan.Aggregation, rows: PieceRows) -> PieceRows:
        steps = [two_steps(node, piece.node) for piece in rows.pieces]
        known = [step for step in steps if step is not None]
        partial = PieceRows(
            tuple(
                PlanPiece(step.partial, piece.tasks)
                for step, piece in zip(known, rows.pieces, strict=True)
            ),
            steady=False,
        )
        keys = [Ref(partial.types[index], index) for index in range(known[0].keys)]
        if keys and _may_be_keys(keys):
            exchanged = self.builder.by_hash(partial, keys)
        else:
            exchanged = self.builder.gather(partial)
        moved = {index: index for index in range(len(keys))}
        return exchanged.map(known[0].final, moved)

    def join(self, node: plan.Join) -> PieceRows:
        left = Side(self.rows(node.left), self._is_small(node.left))
        right = Side(self.rows(node.right), self._is_small(node.right))
        return cut_join(self.builder, node, left, right)

    def _is_small(self, node: plan.Node) -> bool:
        total = 0
        for below in plan.walk(node):
            if isinstance(below, plan.CommonTableRef):
                return False
            if isinstance(below, plan.Get):
                rows = self._options.table_rows(below.table)
                if rows is None:
                    return False
                total += rows
        return total <= self._options.broadcast_rows

    def windows(self, node: plan.Windows) -> PieceRows:
        rows = self.rows(node.child)
        self.depends_on_order(rows)
        if rows.is_single:
            return single(replace(node, child=rows.node), steady=False)
        common = _common(node.expressions)
        if common and _may_be_keys(common):
            return self._window(rows, node.expressions, common)
        order: list[Window] = []
        sets = {window.partitions for window in node.expressions}
        for partitions in sorted(sets, key=len, reverse=True):
            own = [one for one in node.expressions if one.partitions == partitions]
            rows = self._window(rows, tuple(own), partitions)
            order += own
        return rows.map(lambda child: _reordered(node, child, order), {})

    def _window(
        self, rows: PieceRows, windows: tuple[Window, ...], keys: Sequence[BoundExpression]
    ) -> PieceRows:
        if keys and _may_be_keys(keys):
            if not _lies_by(rows, keys):
                rows = self.builder.by_hash(rows, keys)
        else:
            rows = self.builder.gather(rows)
        return rows.map(lambda child: plan.Windows(child, windows)).unsteady()

    def order_by(self, node: plan.OrderBy) -> PieceRows:
        rows = self.rows(node.child)
        if not rows.is_single:
            rows = self.builder.by_range(rows, node.orders)
        return replace(rows.map(lambda child: plan.OrderBy(child, node.orders)), ordered=True)

    def top_n(self, node: plan.TopN) -> PieceRows:
        rows = self.rows(node.child)
        if not rows.is_single:
            rows = rows.map(
                lambda child: plan.TopN(child, node.orders, node.limit + node.offset, 0)
            )
            rows = self.builder.gather(rows)
        return single(replace(node, child=rows.node), ordered=True, steady=False)

    def limit(self, node: plan.Limit) -> PieceRows:
        rows = self.rows(node.child)
        self.depends_on_order(rows)
        if isinstance(node.limit, int) and not node.percent and not rows.is_single:
            first = min(node.limit + node.offset, _LARGEST_LIMIT)
            rows = rows.map(lambda child: plan.Limit(child, first, 0))
        rows = self.builder.gather(rows)
        return single(replace(node, child=rows.node), ordered=rows.ordered, steady=rows.steady)

    def distinct(self, node: plan.Distinct) -> PieceRows:
        rows = self.rows(node.child)
        if node.on:
            self.depends_on_order(rows)
        if rows.is_single:
            return single(replace(node, child=rows.node), steady=False)
        keys: Sequence[BoundExpression] = node.on or _columns(rows.types)
        if not node.on:
            rows = rows.map(plan.Distinct)
        if not _may_be_keys(keys):
            rows = self.builder.gather(rows)
        elif not _lies_by(rows, keys):
            rows = self.builder.by_hash(rows, keys)
        return rows.map(lambda child: replace(node, child=child)).unsteady()

    def union(self, node: plan.Union) -> PieceRows:
        children = [self.rows(child) for child in node.children]
        steady = all(child.steady for child in children)
        if all(child.is_single for child in children):
            return single(plan.Union(tuple(child.node for child in children)), steady=steady)
        pieces = tuple(
            PlanPiece(piece.node, piece.tasks) for child in children for piece in child.pieces
        )
        return PieceRows(pieces, steady=steady)

    def set_operation(self, node: plan.SetOperation) -> PieceRows:
        left, right = self.rows(node.left), self.rows(node.right)
        keys = _columns(left.types)
        if left.is_single and right.is_single or not _may_be_keys(keys):
            both = self.builder.gather(left).node, self.builder.gather(right).node
            return single(replace(node, left=both[0], right=both[1]), steady=False)
        left, right = self.builder.by_hash(left, keys), self.builder.by_hash(right, keys)
        joined = replace(node, left=left.node, right=right.node)
        return PieceRows((PlanPiece(joined, "partition", left.pieces[0].keys),), steady=False)

    def common_table(self, node: plan.CommonTable) -> PieceRows:
        rows = self.rows(node.definition)
        stages = self.builder.close(rows, RowExchange("keep"))
        self._kept[node.number] = stages, rows.types, rows.steady
        return self.rows(node.body)

    def common_table_ref(self, node: plan.CommonTableRef) -> PieceRows:
        if node.number not in self._kept:
            raise NotDistributed("a common table outside of its body")
        steady = self._kept[node.number][2]
        return PieceRows((PlanPiece(self._kept_input(node, "split"), "split"),), steady=steady)

    def _kept_input(self, node: plan.CommonTableRef, share: plan.Share) -> plan.Node:
        stages, types, _ = self._kept[node.number]
        read = plan.Input(stages, types, share)
        if node.columns == tuple(range(len(types))):
            return read
        return plan.Projection(read, tuple(Ref(types[index], index) for index in node.columns))

    def one_task(self, node: plan.Node) -> PieceRows:
        """Operators that need all rows of all tables below them, in their order."""
        return single(self.whole(node), steady=True)


def _columns(types: plan.Types) -> tuple[Ref, ...]:
    return tuple(Ref(type, index) for index, type in enumerate(types))


def _may_be_keys(keys: Sequence[BoundExpression]) -> bool:
    return all(can_be_key(key.type) for key in keys)


def _position(keys: Sequence[BoundExpression], column: int) -> int:
    return next(
        index for index, key in enumerate(keys) if isinstance(key, Ref) and key.index == column
    )


def _lies_by(rows: PieceRows, keys: Sequence[BoundExpression]) -> bool:
    """Return whether rows of equal keys are in one task already."""
    columns = {key.index for key in keys if isinstance(key, Ref)}
    if len(rows.pieces) > 1 or not rows.pieces[0].keys:
        return False
    return columns.issuperset(rows.pieces[0].keys)


def _common(windows: Sequence[Window]) -> tuple[BoundExpression, ...]:
    """Return the expressions by which all windows are partitioned."""
    first, *others = windows
    return tuple(
        key for key in first.partitions if all(key in other.partitions for other in others)
    )


def _reordered(node: plan.Windows, child: plan.Node, order: list[Window]) -> plan.Node:
    """Return the columns of windows in the order of the plan."""
    start = len(child.types) - len(order)
    kept = [*range(start), *(start + order.index(window) for window in node.expressions)]
    return plan.Projection(child, tuple(Ref(child.types[index], index) for index in kept))


_METHODS: Mapping[type, Callable[[Any, Any], PieceRows]] = {
    plan.Get: _Cutter.get,
    plan.FunctionScan: _Cutter.leaf,
    plan.Values: _Cutter.leaf,
    plan.Projection: _Cutter.projection,
    plan.Filter: _Cutter.row_by_row,
    plan.Unnesting: _Cutter.row_by_row,
    plan.Aggregation: _Cutter.aggregation,
    plan.Join: _Cutter.join,
    plan.Windows: _Cutter.windows,
    plan.OrderBy: _Cutter.order_by,
    plan.TopN: _Cutter.top_n,
    plan.Limit: _Cutter.limit,
    plan.Distinct: _Cutter.distinct,
    plan.Union: _Cutter.union,
    plan.SetOperation: _Cutter.set_operation,
    plan.CommonTable: _Cutter.common_table,
    plan.CommonTableRef: _Cutter.common_table_ref,
    plan.Recursion: _Cutter.one_task,
    plan.Positional: _Cutter.one_task,
}
