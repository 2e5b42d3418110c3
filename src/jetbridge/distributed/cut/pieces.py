"""Stages that are not finished yet, and the records of those that are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jetbridge.distributed import plan
from jetbridge.distributed.expressions import BoundExpression, Order, Ref
from jetbridge.distributed.render import expression_sql, render_stage
from jetbridge.distributed.render.stage import RenderedStage, column_names
from jetbridge.distributed.stages import RowExchange, Stage, StageInput, StageScan, Tasks
from jetbridge.distributed.types import NotDistributed, has_unnamed

CheckTypes = Callable[[RenderedStage, plan.Types], None]


@dataclass(frozen=True)
class PlanPiece:
    """Operators of a stage that may grow; `keys` are the columns by whose hash its rows lie."""

    node: plan.Node
    tasks: Tasks
    keys: tuple[int, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Return whether it reads nothing, so that each task may compute it for itself."""
        leaves = (plan.Get, plan.Input)
        return not any(isinstance(node, leaves) for node in plan.walk(self.node))


@dataclass(frozen=True)
class PieceRows:
    """Holds the rows of pieces, one after the other.

    They are `ordered` as ORDER BY asks, and `steady` if they come in the order in which one thread
    of DuckDB would give them.
    """

    pieces: tuple[PlanPiece, ...]
    ordered: bool = False
    steady: bool = True

    @property
    def is_single(self) -> bool:
        """Return whether one task has them all."""
        return len(self.pieces) == 1 and self.pieces[0].tasks == "single"

    @property
    def node(self) -> plan.Node:
        """Return the operators of the only piece."""
        (piece,) = self.pieces
        return piece.node

    @property
    def types(self) -> plan.Types:
        return self.pieces[0].node.types

    def map(
        self,
        change: Callable[[plan.Node], plan.Node],
        moved: Mapping[int, int] | None = None,
    ) -> "PieceRows":
        """Return the rows of pieces with one more operator; `moved` says where columns are now."""
        pieces = []
        for piece in self.pieces:
            keys = piece.keys
            if moved is not None:
                known = all(key in moved for key in keys)
                keys = tuple(moved[key] for key in keys) if known else ()
            pieces.append(PlanPiece(change(piece.node), piece.tasks, keys))
        return replace(self, pieces=tuple(pieces))

    def unsteady(self) -> "PieceRows":
        return replace(self, steady=False, ordered=False)


def single(node: plan.Node, *, ordered: bool = False, steady: bool = True) -> PieceRows:
    """Return the rows of a stage with one task."""
    return PieceRows((PlanPiece(node, "single"),), ordered, steady)


class StageBuilder:
    """Finishes stages: renders them, and has their columns compared with those of the plan."""

    def __init__(self, check_types: CheckTypes) -> None:
        self._check_types = check_types
        self.stages: list[Stage] = []

    def close(self, rows: PieceRows, exchange: RowExchange) -> tuple[int, ...]:
        """Finish the stages of all pieces; return their numbers."""
        return tuple(self._close(piece, exchange) for piece in rows.pieces)

    def _close(self, piece: PlanPiece, exchange: RowExchange) -> int:
        if any(map(has_unnamed, piece.node.types)):
            raise NotDistributed("a stage that gives a STRUCT without names")
        rendered = render_stage(piece.node)
        self._check_types(rendered, piece.node.types)
        number = len(self.stages)
        scans = tuple(
            StageScan(
                name, get.table, tuple(column for column in get.columns if column.name), get.whole
            )
            for name, get in rendered.scans
        )
        inputs = tuple(
            StageInput(name, one.stages, one.columns, one.share) for name, one in rendered.inputs
        )
        types = piece.node.types
        stage = Stage(number, rendered.sql, scans, inputs, types, exchange, piece.tasks)
        self.stages.append(stage)
        return number

    def gather(self, rows: PieceRows) -> PieceRows:
        """Return the same rows in one task, in the order in which they were."""
        if rows.is_single:
            return rows
        node = plan.Input(self.close(rows, RowExchange("all")), rows.types, "all")
        return single(node, ordered=rows.ordered, steady=rows.steady)

    def broadcast(self, rows: PieceRows) -> plan.Node:
        """Return operators that read all rows in each task."""
        if len(rows.pieces) == 1 and rows.pieces[0].is_constant:
            return rows.node
        return plan.Input(self.close(rows, RowExchange("all")), rows.types, "all")

    def by_hash(self, rows: PieceRows, keys: Sequence[BoundExpression]) -> PieceRows:
        """Return the same rows, where those of equal keys are in one task."""
        columns = column_names(len(rows.types))
        texts = tuple(expression_sql(key, columns) for key in keys)
        places = tuple(key.index for key in keys if isinstance(key, Ref))
        plain = places if len(places) == len(keys) else ()
        if plain and len(rows.pieces) == 1 and rows.pieces[0].keys == plain:
            return rows
        stages = self.close(rows, RowExchange("hash", texts))
        node = plan.Input(stages, rows.types, "partition")
        return PieceRows((PlanPiece(node, "partition", plain),), steady=False)

    def by_range(self, rows: PieceRows, orders: Sequence[Order]) -> PieceRows:
        """Return the same rows, where each task has a range of the order, one after the other."""
        columns = column_names(len(rows.types))
        keys = ", ".join(
            f"{expression_sql(order.expression, columns)}, '{order.direction} {order.nulls}'"
            for order in orders
        )
        exchange = RowExchange("range", sort_key=f"create_sort_key({keys})")
        node = plan.Input(self.close(rows, exchange), rows.types, "partition")
        return PieceRows((PlanPiece(node, "partition"),), steady=False)
