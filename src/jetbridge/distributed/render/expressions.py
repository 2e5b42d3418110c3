"""Expressions as SQL. Columns are named by position, so no name of a user can be in the way."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jetbridge.dialects.quoting import identifier
from jetbridge.distributed.expressions import (
    Average,
    BoundCall,
    BoundCase,
    BoundCast,
    BoundConstant,
    BoundExpression,
    Compare,
    Lambda,
    Logic,
    Operator,
    Order,
    Ref,
)
from jetbridge.distributed.render.averages import average_sql
from jetbridge.distributed.render.constants import constant_sql, struct_sql
from jetbridge.distributed.types import NotDistributed, type_sql

Columns = Sequence[str]
_SYMBOLS = frozenset("+-*/%|&^~<>=!@")
_BINARY = 2
_PARAMETER = re.compile(r"\bp([0-9]+)\b")
# Functions whose named arguments do not stand in a plan, and those of the state of a session.
_REFUSED = frozenset(("struct_update", "getvariable", "alias", "current_setting", "remap_struct"))
_SLICES = frozenset(("list_slice", "array_slice"))


def expression_sql(expression: BoundExpression, columns: Columns) -> str:
    """Return an expression over `columns` as SQL; raise `NotDistributed` if there is none."""
    write = _WRITERS.get(type(expression))
    if write is None:
        raise NotDistributed(f"the expression {type(expression).__name__}")
    return write(expression, columns)


def order_sql(order: Order, columns: Columns) -> str:
    """Return a key of ORDER BY."""
    return f"{expression_sql(order.expression, columns)} {order.direction} {order.nulls}"


def orders_sql(orders: Sequence[Order], columns: Columns) -> str:
    """Return ORDER BY and its keys, or nothing if there are none."""
    if not orders:
        return ""
    return "ORDER BY " + ", ".join(order_sql(order, columns) for order in orders)


def list_sql(expressions: Sequence[BoundExpression], columns: Columns) -> str:
    """Return expressions with commas between them."""
    return ", ".join(expression_sql(expression, columns) for expression in expressions)


def _ref(expression: Ref, columns: Columns) -> str:
    return columns[expression.index]


def _constant(expression: BoundConstant, columns: Columns) -> str:
    return constant_sql(expression)


def _cast(expression: BoundCast, columns: Columns) -> str:
    word = "TRY_CAST" if expression.is_try else "CAST"
    return f"{word}({expression_sql(expression.child, columns)} AS {type_sql(expression.type)})"


def _compare(expression: Compare, columns: Columns) -> str:
    left, right = (expression_sql(e, columns) for e in (expression.left, expression.right))
    return f"({left} {expression.operator} {right})"


def _logic(expression: Logic, columns: Columns) -> str:
    parts = [expression_sql(child, columns) for child in expression.children]
    return "(" + f" {expression.operator} ".join(parts) + ")"


def _case(expression: BoundCase, columns: Columns) -> str:
    whens = " ".join(
        f"WHEN {expression_sql(when, columns)} THEN {expression_sql(then, columns)}"
        for when, then in expression.whens
    )
    return f"CASE {whens} ELSE {expression_sql(expression.otherwise, columns)} END"


def _operator(expression: Operator, columns: Columns) -> str:
    first, *rest = (expression_sql(child, columns) for child in expression.children)
    match expression.name:
        case "IS NULL" | "IS NOT NULL":
            return f"({first} {expression.name})"
        case "NOT":
            return f"(NOT {first})"
        case "IN" | "NOT IN":
            return f"({first} {expression.name} ({', '.join(rest)}))"
    return f"{expression.name}({', '.join((first, *rest))})"


def _call(expression: BoundCall, columns: Columns) -> str:
    name = expression.name
    if name.startswith("__internal") or name in _REFUSED:
        raise NotDistributed(f"the function {name}()")
    if expression.function is not None:
        return _over_list(expression, expression.function, columns)
    if expression.type.name == "DECIMAL" and name in "+-*":
        return _decimal_arithmetic(expression, columns)
    arguments = [expression_sql(child, columns) for child in expression.children]
    special = _special(expression, arguments)
    if special is not None:
        return special
    if name and set(name) <= _SYMBOLS and 0 < len(arguments) <= _BINARY:
        left = arguments[0] + " " if len(arguments) == _BINARY else ""
        return f"({left}{name} {arguments[-1]})"
    text = f"{identifier(name)}({', '.join(arguments)})"
    if expression.type.name == "DECIMAL":
        return f"CAST({text} AS {type_sql(expression.type)})"
    return text


def _special(expression: BoundCall, arguments: list[str]) -> str | None:
    """Return the SQL of functions that have a syntax of their own."""
    name, type = expression.name, expression.type
    if name in ("struct_pack", "row"):
        return struct_sql(type, arguments)
    if name == "list_value" and not arguments:
        return f"CAST([] AS {type_sql(type)})"
    if name == "union_value":
        raise NotDistributed("the function union_value()")
    if name == "struct_insert":
        added = [field for field, _ in type.children][1 - len(arguments) :]
        pairs = zip(added, arguments[1:], strict=True)
        named = ", ".join(f"{identifier(field)} := {value}" for field, value in pairs)
        return f"struct_insert({arguments[0]}, {named})"
    if name in _SLICES:
        return _slice(expression, arguments)
    return None


def _slice(expression: BoundCall, arguments: list[str]) -> str:
    """Return a slice; a missing end of it is an empty list in the plan."""
    ends = [
        "" if child.type.name == "LIST" else text
        for child, text in zip(expression.children[1:3], arguments[1:3], strict=True)
    ]
    if len(arguments) > len(ends) + 1:
        ends = [ends[0], ends[1] or "-", *arguments[3:]]
    return f"({arguments[0]})[{':'.join(ends)}]"


def _decimal_arithmetic(expression: BoundCall, columns: Columns) -> str:
    """Return +, - or * of decimals: the binder widens operands, and would do so once more."""
    operands = [expression_sql(_narrow(child), columns) for child in expression.children]
    left = operands[0] + " " if len(operands) == _BINARY else ""
    return f"CAST(({left}{expression.name} {operands[-1]}) AS {type_sql(expression.type)})"


def _narrow(operand: BoundExpression) -> BoundExpression:
    type = operand.type
    match operand:
        case BoundConstant(value=int() as number):
            width = max(len(str(abs(number))), type.scale, 1)
            return replace(operand, type=replace(type, width=width))
        case BoundCast(child=BoundExpression(type=inner) as child, is_try=False):
            if inner.name == "DECIMAL" and inner.scale == type.scale and inner.width <= type.width:
                return child
    return operand


def _over_list(expression: BoundCall, function: Lambda, columns: Columns) -> str:
    arguments = [expression_sql(child, columns) for child in expression.children]
    split = len(arguments) - expression.captures
    captured = [f"({text})" for text in arguments[split:]]
    # Not one of those of a lambda function around this one.
    start = 1 + max(
        (int(n) for n in _PARAMETER.findall(" ".join((*columns, *arguments)))), default=0
    )
    parameters = [f"p{number}" for number in range(start, start + function.parameters)]
    body = expression_sql(function.body, [*reversed(parameters), *captured])
    text = f"lambda {', '.join(parameters)}: {body}"
    first, *rest = arguments[:split]
    return f"{identifier(expression.name)}({', '.join((first, text, *rest))})"


def _average(expression: Average, columns: Columns) -> str:
    total, count = (expression_sql(e, columns) for e in (expression.total, expression.count))
    return average_sql(total, count, expression.scale, short=expression.short)


_WRITERS: Mapping[type, Callable[[Any, Columns], str]] = {
    Ref: _ref,
    BoundConstant: _constant,
    BoundCast: _cast,
    Compare: _compare,
    Logic: _logic,
    BoundCase: _case,
    Operator: _operator,
    BoundCall: _call,
    Average: _average,
}
