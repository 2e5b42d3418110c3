"""Bound expressions as DuckDB 1.5 writes them."""

from collections.abc import Callable, Mapping
from typing import Any

from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.functions_1_5 import (
    bound_call,
    decode_aggregate_data,
    function_fields,
)
from jetbridge.distributed.decode.types_1_5 import decode_constant, decode_type
from jetbridge.distributed.expressions import (
    Aggregate,
    Bound,
    BoundCall,
    BoundCase,
    BoundCast,
    BoundExpression,
    Compare,
    Logic,
    Operator,
    Order,
    Ref,
    Unnest,
    Window,
)
from jetbridge.distributed.types import BOOLEAN, NotDistributed

COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
_OPERATORS = {
    "OPERATOR_IS_NULL": "IS NULL",
    "OPERATOR_IS_NOT_NULL": "IS NOT NULL",
    "OPERATOR_NOT": "NOT",
    "OPERATOR_COALESCE": "COALESCE",
    "OPERATOR_TRY": "TRY",
    "COMPARE_IN": "IN",
    "COMPARE_NOT_IN": "NOT IN",
}


def comparison(name: str) -> str:
    """Return a comparison as SQL writes it."""
    if name not in COMPARISONS:
        raise NotDistributed(f"the comparison {name}")
    return COMPARISONS[name]


def decode_expression(value: Any) -> BoundExpression:
    """Return an expression; raise `NotDistributed` for what is unknown."""
    fields = Fields(value, "an expression")
    kind, name = fields.take("expression_class"), fields.take("type")
    fields.title = f"{name} ({kind})"
    alias = fields.take_or("alias", "")
    fields.drop("query_location")
    decode = _KINDS.get(kind)
    if decode is None:
        raise NotDistributed(f"the expression {kind}")
    expression = decode(fields, name, alias)
    fields.end()
    return expression


def _ref(fields: Fields, name: str, alias: str) -> BoundExpression:
    return Ref(decode_type(fields.take("return_type")), fields.take("index"))


def _constant(fields: Fields, name: str, alias: str) -> BoundExpression:
    return decode_constant(fields.take("value"))


def _cast(fields: Fields, name: str, alias: str) -> BoundExpression:
    type = decode_type(fields.take("return_type"))
    return BoundCast(type, decode_expression(fields.take("child")), fields.take("try_cast"))


def _compare(fields: Fields, name: str, alias: str) -> BoundExpression:
    left, right = decode_expression(fields.take("left")), decode_expression(fields.take("right"))
    return Compare(BOOLEAN, comparison(name), left, right)


def _between(fields: Fields, name: str, alias: str) -> BoundExpression:
    value, lower, upper = (decode_expression(fields.take(k)) for k in ("input", "lower", "upper"))
    low = ">=" if fields.take("lower_inclusive") else ">"
    high = "<=" if fields.take("upper_inclusive") else "<"
    bounds = (Compare(BOOLEAN, low, value, lower), Compare(BOOLEAN, high, value, upper))
    return Logic(BOOLEAN, "AND", bounds)


def _logic(fields: Fields, name: str, alias: str) -> BoundExpression:
    word = {"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR"}[name]
    return Logic(BOOLEAN, word, fields.map("children", decode_expression))


def _case(fields: Fields, name: str, alias: str) -> BoundExpression:
    def check(value: Any) -> tuple[BoundExpression, BoundExpression]:
        one = Fields(value, "a WHEN")
        pair = decode_expression(one.take("when_expr")), decode_expression(one.take("then_expr"))
        one.end()
        return pair

    type = decode_type(fields.take("return_type"))
    whens = fields.map("case_checks", check)
    return BoundCase(type, whens, decode_expression(fields.take("else_expr")))


def _operator(fields: Fields, name: str, alias: str) -> BoundExpression:
    if name not in _OPERATORS:
        raise NotDistributed(f"the operator {name}")
    type = decode_type(fields.take("return_type"))
    return Operator(type, _OPERATORS[name], fields.map("children", decode_expression))


def _function(fields: Fields, name: str, alias: str) -> BoundExpression:
    type = decode_type(fields.take("return_type"))
    children = fields.map("children", decode_expression)
    fields.drop("is_operator")
    function, data = function_fields(fields)
    return bound_call(function, type, children, data, decode_expression)


def _unnest(fields: Fields, name: str, alias: str) -> BoundExpression:
    type = decode_type(fields.take("return_type"))
    return Unnest(type, decode_expression(fields.take("child")))


def decode_order(value: Any) -> Order:
    """Return a key of a sort."""
    fields = Fields(value, "an ORDER BY")
    direction = {"ASCENDING": "ASC", "DESCENDING": "DESC"}[fields.take("type")]
    nulls = fields.take("null_order").replace("_", " ")
    expression = decode_expression(fields.take("expression"))
    fields.end()
    return Order(expression, direction, nulls)


def _optional(value: Any) -> BoundExpression | None:
    return None if value is None else decode_expression(value)


def _aggregate(fields: Fields, name: str, alias: str) -> BoundExpression:
    type = decode_type(fields.take("return_type"))
    children = fields.map("children", decode_expression)
    distinct = fields.take("aggregate_type") == "DISTINCT"
    condition = _optional(fields.take_or("filter", None))
    orders = _modifier(fields.take_or("order_bys", None))
    function, data = function_fields(fields)
    children = decode_aggregate_data(function, type, children, data)
    return Aggregate(type, function, children, distinct, condition, orders)


def _modifier(value: Any) -> tuple[Order, ...]:
    if value is None:
        return ()
    fields = Fields(value, "an ORDER BY of an aggregate")
    orders = fields.map("orders", decode_order)
    fields.drop("type")
    fields.end()
    return orders


def _bound(name: str, offset: Any) -> tuple[Bound, str]:
    match name.split("_"):
        case ["UNBOUNDED", side]:
            return Bound(f"UNBOUNDED {side}"), ""
        case ["CURRENT", "ROW", unit]:
            return Bound("CURRENT ROW"), unit
        case ["EXPR", side, "RANGE"]:
            return Bound(side, _range_offset(decode_expression(offset))), "RANGE"
        case ["EXPR", side, unit]:
            return Bound(side, decode_expression(offset)), unit
    raise NotDistributed(f"the frame {name}")


def _range_offset(bound: BoundExpression) -> BoundExpression:
    """Return the offset of a RANGE frame, which the binder added to the key of the order."""
    while isinstance(bound, BoundCast):
        bound = bound.child
    match bound:
        case BoundCall(name="+" | "-", children=(_, offset)):
            return offset
    raise NotDistributed("the offset of a RANGE frame")


def _window(fields: Fields, name: str, alias: str) -> BoundExpression:
    type = decode_type(fields.take("return_type"))
    children = fields.map("children", decode_expression)
    function = name.removeprefix("WINDOW_").lower()
    if name == "WINDOW_AGGREGATE":
        function, data = function_fields(fields)
        children = decode_aggregate_data(function, type, children, data)
    extras = (_optional(fields.take_or(key, None)) for key in ("offset_expr", "default_expr"))
    children += tuple(extra for extra in extras if extra is not None)
    start, unit = _bound(fields.take("start"), fields.take_or("start_expr", None))
    end, other = _bound(fields.take("end"), fields.take_or("end_expr", None))
    return Window(
        type,
        function,
        children,
        fields.map("partitions", decode_expression),
        fields.map("orders", decode_order),
        _optional(fields.take_or("filters", None)),
        unit or other or "ROWS",
        start,
        end,
        fields.take("exclude_clause"),
        fields.take("distinct"),
        fields.take("ignore_nulls"),
        fields.map("arg_orders", decode_order),
    )


_KINDS: Mapping[str, Callable[[Fields, str, str], BoundExpression]] = {
    "BOUND_REF": _ref,
    "BOUND_CONSTANT": _constant,
    "BOUND_CAST": _cast,
    "BOUND_COMPARISON": _compare,
    "BOUND_BETWEEN": _between,
    "BOUND_CONJUNCTION": _logic,
    "BOUND_CASE": _case,
    "BOUND_OPERATOR": _operator,
    "BOUND_FUNCTION": _function,
    "BOUND_UNNEST": _unnest,
    "BOUND_AGGREGATE": _aggregate,
    "BOUND_WINDOW": _window,
}
