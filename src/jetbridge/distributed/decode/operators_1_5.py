"""Operators as DuckDB 1.5 writes them in `json_serialize_plan`."""

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from jetbridge.distributed import plan
from jetbridge.distributed.decode import scans_1_5
from jetbridge.distributed.decode.expressions_1_5 import (
    comparison,
    decode_expression,
    decode_order,
)
from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.types_1_5 import decode_constant, decode_type
from jetbridge.distributed.expressions import Aggregate, BoundConstant, Ref, Unnest, Window
from jetbridge.distributed.types import ODD_SHAPES, NotDistributed, Type


def decode_plan(tree: Any) -> plan.Node:
    """Return the plan of one query; raise `NotDistributed` for what is unknown in it."""
    try:
        return _decoded(tree)
    except ODD_SHAPES as error:
        raise NotDistributed("a plan of another shape than DuckDB 1.5 writes") from error


def _decoded(tree: Any) -> plan.Node:
    fields = Fields(tree, "a plan")
    fields.expect("error", False)
    plans = fields.take("plans")
    fields.end()
    if len(plans) != 1:
        raise NotDistributed(f"{len(plans)} statements")
    return _Decoder().node(plans[0])


class _Decoder:
    """Knows the delimiter joins around the operator that is decoded."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(-1, -1)
        self._delimiters: list[tuple[int, plan.Types]] = []

    def node(self, value: Any) -> plan.Node:
        fields = Fields(value, "an operator")
        kind: str = fields.take("type")
        fields.title = kind
        decode = _OPERATORS.get(kind)
        if decode is None:
            raise NotDistributed(f"the operator {kind}")
        node = decode(self, fields)
        fields.drop("children", "table_index")
        fields.end()
        return node

    def _child(self, fields: Fields) -> plan.Node:
        (child,) = fields.take("children")
        return self.node(child)

    def _both(self, fields: Fields) -> tuple[plan.Node, plan.Node]:
        left, right = fields.take("children")
        return self.node(left), self.node(right)

    def get(self, fields: Fields) -> plan.Node:
        return scans_1_5.decode_get(fields, self.node)

    def dummy_scan(self, fields: Fields) -> plan.Node:
        return plan.Values(((BoundConstant(Type("INTEGER"), 1),),), (Type("INTEGER"),))

    def empty_result(self, fields: Fields) -> plan.Node:
        fields.drop("bindings")
        return plan.Values((), fields.map("return_types", decode_type))

    def chunk_get(self, fields: Fields) -> plan.Node:
        types = fields.map("chunk_types", decode_type)
        columns = [map(decode_constant, values) for values in fields.take("collection")["values"]]
        return plan.Values(tuple(zip(*columns, strict=True)), types)

    def expression_get(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        types = fields.map("expr_types", decode_type)
        rows = fields.map("expressions", lambda row: tuple(map(decode_expression, row)))
        if isinstance(child, plan.Values) and len(child.rows) == 1:
            return plan.Values(rows, types)
        return plan.Union(tuple(plan.Projection(child, row) for row in rows))

    def projection(self, fields: Fields) -> plan.Node:
        (below,) = fields.take("children")
        child = self.node(below)
        expressions = _with_positions(fields.take("expressions"), below.get("table_index"))
        return plan.Projection(child, tuple(map(decode_expression, expressions)))

    def filter(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        node = plan.Filter(child, fields.map("expressions", decode_expression))
        return _kept(node, fields.take_or("projection_map", ()))

    def aggregate_and_group_by(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        fields.drop("group_index", "aggregate_index", "groupings_index", "distinct_validity")
        aggregates = fields.map("expressions", decode_expression)
        groups = fields.map("groups", decode_expression)
        sets = fields.map("grouping_sets", lambda positions: tuple(sorted(positions)))
        grouping = fields.map("grouping_functions", tuple)
        if sets == (tuple(range(len(groups))),) and not grouping:
            sets = ()
        values = tuple(value for value in aggregates if isinstance(value, Aggregate))
        return plan.Aggregation(child, groups, values, sets, grouping)

    def window(self, fields: Fields) -> plan.Node:
        fields.drop("window_index")
        child = self._child(fields)
        windows = fields.map("expressions", decode_expression)
        return plan.Windows(child, tuple(value for value in windows if isinstance(value, Window)))

    def unnest(self, fields: Fields) -> plan.Node:
        fields.drop("unnest_index")
        child = self._child(fields)
        lists = fields.map("expressions", decode_expression)
        return plan.Unnesting(child, tuple(value for value in lists if isinstance(value, Unnest)))

    def order_by(self, fields: Fields) -> plan.Node:
        node = plan.OrderBy(self._child(fields), fields.map("orders", decode_order))
        return _kept(
            node, fields.take_or("projection_map", ()) or fields.take_or("projections", ())
        )

    def top_n(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        orders = fields.map("orders", decode_order)
        return plan.TopN(child, orders, fields.take("limit"), fields.take("offset"))

    def limit(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        limit, percent = _limit_value(fields.take("limit_val"))
        offset, share = _limit_value(fields.take("offset_val"))
        if share:
            raise NotDistributed("OFFSET by percent")
        return plan.Limit(child, limit, int(offset or 0), percent)

    def distinct(self, fields: Fields) -> plan.Node:
        child = self._child(fields)
        on = fields.map("distinct_targets", decode_expression)
        kind = fields.take("distinct_type")
        modifier = fields.take_or("order_by", None) or {}
        orders = tuple(map(decode_order, modifier.get("orders", ())))
        plain = tuple(Ref(type, index) for index, type in enumerate(child.types))
        if kind == "DISTINCT" and not orders and set(on) <= set(plain):
            on = () if set(on) == set(plain) or not on else on
        if isinstance(child, plan.Distinct) and not (on or child.on):
            return child
        return plan.Distinct(child, on, orders)

    def union(self, fields: Fields) -> plan.Node:
        fields.drop("column_count", "allow_out_of_order")
        rows = plan.Union(tuple(map(self.node, fields.take("children"))))
        return rows if fields.take_or("setop_all", default=False) else plan.Distinct(rows)

    def except_rows(self, fields: Fields) -> plan.Node:
        return self._set_operation(fields, "EXCEPT")

    def intersect(self, fields: Fields) -> plan.Node:
        return self._set_operation(fields, "INTERSECT")

    def _set_operation(self, fields: Fields, kind: str) -> plan.Node:
        fields.drop("column_count", "allow_out_of_order")
        left, right = self._both(fields)
        return plan.SetOperation(
            kind, left, right, bool(fields.take_or("setop_all", default=False))
        )

    def materialized_cte(self, fields: Fields) -> plan.Node:
        fields.drop("column_count", "ctename", "materialize")
        definition, body = self._both(fields)
        return plan.CommonTable(fields.take("table_index"), definition, body)

    def cte_ref(self, fields: Fields) -> plan.Node:
        fields.drop("bound_columns", "materialized_cte")
        types = fields.map("chunk_types", decode_type)
        number, recurring = fields.take("cte_index"), bool(fields.take("is_recurring"))
        return plan.CommonTableRef(number, tuple(range(len(types))), types, recurring)

    def recursive_cte(self, fields: Fields) -> plan.Node:
        fields.drop("ctename", "column_count", "ref_recurring")
        first, step = self._both(fields)
        keys = fields.map("key_targets", decode_expression)
        return plan.Recursion(
            fields.take("table_index"), first, step, fields.take("union_all"), keys
        )

    def cross_product(self, fields: Fields) -> plan.Node:
        return plan.Join("INNER", *self._both(fields))

    def positional_join(self, fields: Fields) -> plan.Node:
        return plan.Positional(*self._both(fields))

    def any_join(self, fields: Fields) -> plan.Node:
        left, right = self._both(fields)
        predicate = decode_expression(fields.take("condition"))
        return _joined(fields, left, right, (), predicate)

    def comparison_join(self, fields: Fields) -> plan.Node:
        left, right = self._both(fields)
        return _compared(fields, left, right)

    def asof_join(self, fields: Fields) -> plan.Node:
        left, right = self._both(fields)
        return _compared(fields, left, right, is_asof=True)

    def delim_join(self, fields: Fields) -> plan.Node:
        """Read one side twice: for the join, and its distinct keys in the other side."""
        flipped = bool(fields.take_or("delim_flipped", default=False))
        sides = fields.take("children")
        source = self.node(sides[1 if flipped else 0])
        keys = fields.map("duplicate_eliminated_columns", decode_expression)
        number = next(self._numbers)
        reader = plan.CommonTableRef(number, tuple(range(len(source.types))), source.types)
        distinct = plan.Distinct(plan.Projection(reader, keys))
        other = self._with_delimiter(sides[0 if flipped else 1], distinct)
        left, right = (other, reader) if flipped else (reader, other)
        return plan.CommonTable(number, source, _compared(fields, left, right))

    def _with_delimiter(self, side: Any, distinct: plan.Node) -> plan.Node:
        number = next(self._numbers)
        self._delimiters.append((number, distinct.types))
        body = self.node(side)
        self._delimiters.pop()
        return plan.CommonTable(number, distinct, body)

    def delim_get(self, fields: Fields) -> plan.Node:
        types = fields.map("chunk_types", decode_type)
        for number, columns in reversed(self._delimiters):
            if columns == types:
                return plan.CommonTableRef(number, tuple(range(len(types))), types)
        raise NotDistributed("DELIM_GET without its join")


_OPERATORS: Mapping[str, Callable[[_Decoder, Fields], plan.Node]] = {
    "LOGICAL_GET": _Decoder.get,
    "LOGICAL_DUMMY_SCAN": _Decoder.dummy_scan,
    "LOGICAL_EMPTY_RESULT": _Decoder.empty_result,
    "LOGICAL_CHUNK_GET": _Decoder.chunk_get,
    "LOGICAL_EXPRESSION_GET": _Decoder.expression_get,
    "LOGICAL_PROJECTION": _Decoder.projection,
    "LOGICAL_FILTER": _Decoder.filter,
    "LOGICAL_AGGREGATE_AND_GROUP_BY": _Decoder.aggregate_and_group_by,
    "LOGICAL_WINDOW": _Decoder.window,
    "LOGICAL_UNNEST": _Decoder.unnest,
    "LOGICAL_ORDER_BY": _Decoder.order_by,
    "LOGICAL_TOP_N": _Decoder.top_n,
    "LOGICAL_LIMIT": _Decoder.limit,
    "LOGICAL_DISTINCT": _Decoder.distinct,
    "LOGICAL_UNION": _Decoder.union,
    "LOGICAL_EXCEPT": _Decoder.except_rows,
    "LOGICAL_INTERSECT": _Decoder.intersect,
    "LOGICAL_MATERIALIZED_CTE": _Decoder.materialized_cte,
    "LOGICAL_CTE_REF": _Decoder.cte_ref,
    "LOGICAL_RECURSIVE_CTE": _Decoder.recursive_cte,
    "LOGICAL_CROSS_PRODUCT": _Decoder.cross_product,
    "LOGICAL_POSITIONAL_JOIN": _Decoder.positional_join,
    "LOGICAL_ANY_JOIN": _Decoder.any_join,
    "LOGICAL_COMPARISON_JOIN": _Decoder.comparison_join,
    "LOGICAL_ASOF_JOIN": _Decoder.asof_join,
    "LOGICAL_DELIM_JOIN": _Decoder.delim_join,
    "LOGICAL_DELIM_GET": _Decoder.delim_get,
}


def _with_positions(value: Any, table: int | None) -> Any:
    """Return expressions with positions: below some functions in FROM, DuckDB left out to add them.

    That is so over operators with one number for all of their columns.
    """
    match value:
        case list():
            return [_with_positions(part, table) for part in value]
        case {"expression_class": "BOUND_COLUMN_REF", "binding": binding, "depth": 0, **rest}:
            if binding["table_index"] != table:
                raise NotDistributed("a reference to another operator")
            rest["index"] = binding["column_index"]
            return {**rest, "expression_class": "BOUND_REF"}
        case dict():
            return {key: _with_positions(part, table) for key, part in value.items()}
    return value


def _limit_value(value: Any) -> tuple[int | float | None, bool]:
    fields = Fields(value or {"type": "UNSET"}, "a LIMIT")
    kind = fields.take("type")
    match kind:
        case "UNSET":
            return None, False
        case "CONSTANT_VALUE":
            return int(fields.take("constant_integer")), False
        case "CONSTANT_PERCENTAGE":
            return float(fields.take("constant_percentage")), True
    raise NotDistributed(f"LIMIT by {kind}")


def _kept(node: plan.Node, positions: Any) -> plan.Node:
    """Leave out the columns that are not among `positions`, if there are any."""
    if not positions:
        return node
    return plan.Projection(node, tuple(Ref(node.types[index], index) for index in positions))


def _condition(value: Any) -> plan.JoinCondition:
    fields = Fields(value, "the condition of a join")
    left, right = decode_expression(fields.take("left")), decode_expression(fields.take("right"))
    operator = comparison(fields.take("comparison"))
    fields.end()
    return plan.JoinCondition(left, operator, right)


def _compared(
    fields: Fields, left: plan.Node, right: plan.Node, *, is_asof: bool = False
) -> plan.Node:
    fields.drop("duplicate_eliminated_columns", "delim_flipped", "mark_types")
    conditions = fields.map("conditions", _condition)
    value = fields.take_or("predicate", None)
    predicate = None if value is None else decode_expression(value)
    if is_asof and (predicate or any(c.left.type != c.right.type for c in conditions)):
        raise NotDistributed("an ASOF join with a predicate")
    return _joined(fields, left, right, conditions, predicate, is_asof=is_asof)


def _joined(
    fields: Fields,
    left: plan.Node,
    right: plan.Node,
    conditions: tuple[plan.JoinCondition, ...],
    predicate: Any,
    *,
    is_asof: bool = False,
) -> plan.Node:
    kind = fields.take("join_type")
    fields.drop("mark_index")
    maps = fields.take_or("left_projection_map", ()), fields.take_or("right_projection_map", ())
    if kind.startswith("RIGHT_"):
        conditions = tuple(_flipped(condition) for condition in conditions)
        kind, left, right, maps = kind.removeprefix("RIGHT_"), right, left, maps[::-1]
        if predicate is not None:
            raise NotDistributed(f"a RIGHT {kind} join with a predicate")
    kind = "FULL" if kind == "OUTER" else kind
    node = plan.Join(kind, left, right, conditions, predicate, is_asof)
    return _join_columns(node, maps)


_FLIPPED: Mapping[str, str] = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _flipped(condition: plan.JoinCondition) -> plan.JoinCondition:
    operator = _FLIPPED.get(condition.operator, condition.operator)
    return plan.JoinCondition(condition.right, operator, condition.left)


def _join_columns(node: plan.Join, maps: tuple[Any, Any]) -> plan.Node:
    left, right = maps
    if not left and not right:
        return node
    width = len(node.left.types)
    positions = list(left or range(width))
    if node.kind == "MARK":
        positions.append(width)
    elif node.kind not in ("SEMI", "ANTI"):
        count = len(node.right.types)
        positions += [width + index for index in (right or range(count))]
    return _kept(node, positions)
