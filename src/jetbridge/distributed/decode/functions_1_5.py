"""What functions of DuckDB 1.5 took out of their arguments when they were bound."""

from collections.abc import Callable
from typing import Any

from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.types_1_5 import decode_constant
from jetbridge.distributed.expressions import Call, Constant, Expression, Lambda, Order, walk
from jetbridge.distributed.types import BIGINT, DOUBLE, VARCHAR, NotDistributed, Type

_QUANTILES = ("quantile_cont", "quantile_disc", "quantile", "mad", "median")
_STRINGS = ("string_agg", "group_concat", "listagg")
_ARITHMETIC = ("+", "-", "*")
Data = dict[str, Any]
# Lists whose lambda has an index: the parameter after the element.
_REDUCING = ("list_reduce", "array_reduce", "reduce")


def function_fields(fields: Fields) -> tuple[str, Data]:
    """Return the name of a function and what it keeps since it was bound."""
    name: str = fields.take("name")
    fields.drop("arguments", "original_arguments", "catalog_name", "schema_name", "has_serialize")
    return name, fields.take_or("function_data", None) or {}


def bound_call(
    name: str,
    type: Type,
    children: tuple[Expression, ...],
    data: Data,
    decode: Callable[[Any], Expression],
) -> Expression:
    """Return the call of a scalar function, with the arguments that its binding took."""
    if "return_type" in data and "has_index" in data:
        return _over_list(name, type, children, Fields(data, f"{name}()"), decode)
    if "bind_data" in data:
        return _list_aggregate(name, type, children, data)
    if "sequence" in data or "bind_data" in data:
        raise NotDistributed(f"{name}()")
    if name in _ARITHMETIC:
        # The types and the check for overflow, which the binder finds again.
        data = {}
    if any(value is not None for value in data.values()):
        raise NotDistributed(f"{name}() with bind data")
    return Call(type, name, children)


def _over_list(
    name: str,
    type: Type,
    children: tuple[Expression, ...],
    data: Fields,
    decode: Callable[[Any], Expression],
) -> Expression:
    data.drop("return_type")
    has_index, has_initial = data.take("has_index"), data.take_or("has_initial", default=False)
    body = data.take_or("lambda_expr", None)
    data.end()
    if body is None:
        return Call(type, name, children)
    if any(isinstance(child, Call) and child.function for child in children[1:]):
        raise NotDistributed("a lambda function that captures a lambda function")
    parameters = (2 if name in _REDUCING else 1) + bool(has_index)
    function = Lambda(parameters, decode(body))
    if any(isinstance(part, Call) and part.function for part in walk(function.body)):
        raise NotDistributed("a lambda function in a lambda function")
    captures = len(children) - (2 if has_initial else 1)
    return Call(type, name, children, function, captures)


def _list_aggregate(
    name: str, type: Type, children: tuple[Expression, ...], data: Data
) -> Expression:
    inner = data["bind_data"]
    if inner is None:
        return Call(type, name, children)
    aggregate = inner["aggr_expr"]
    kept = {key: value for key, value in (aggregate.get("function_data") or {}).items() if value}
    if kept and not name.startswith(("list_median", "list_mode")):
        raise NotDistributed(f"{name}() with bind data")
    named = {"list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate"}
    if name in named and len(children) == 1:
        children += (Constant(VARCHAR, aggregate["name"]),)
    return Call(type, name, children)


def decode_aggregate_data(
    name: str, children: tuple[Expression, ...], orders: tuple[Order, ...], data: Data
) -> tuple[str, tuple[Expression, ...], tuple[Order, ...]]:
    """Return the aggregate with the arguments that its binding took."""
    if not data:
        return name, children, orders
    fields = Fields(data, f"{name}()")
    if name in _STRINGS:
        children += (Constant(VARCHAR, fields.take("separator")),)
    elif name in _QUANTILES:
        name, children = _quantile(name, children, fields)
    elif name == "bitstring_agg":
        bounds = (decode_constant(fields.take(key)) for key in ("min", "max"))
        children += tuple(bound for bound in bounds if bound.value is not None)
    elif name == "approx_quantile":
        children += (_numbers(fields.take("quantiles"), Type("FLOAT")),)
    elif name == "reservoir_quantile":
        quantiles = _numbers(fields.take("quantiles"), DOUBLE)
        children += (quantiles, Constant(BIGINT, fields.take("sample_size")))
    fields.end()
    return name, children, orders


def _quantile(
    name: str, children: tuple[Expression, ...], fields: Fields
) -> tuple[str, tuple[Expression, ...]]:
    quantiles = [decode_constant(value) for value in fields.take("quantiles")]
    fields.drop("order")
    is_descending = fields.take("desc")
    if name in ("mad", "median"):
        return name, children
    if is_descending:
        raise NotDistributed(f"{name}() in descending order")
    if len(quantiles) == 1:
        return name, (*children, quantiles[0])
    many = Type("LIST", children=(("", quantiles[0].type),))
    return name, (*children, Constant(many, tuple(quantiles)))


def _numbers(values: list[float], type: Type) -> Constant:
    constants = tuple(Constant(type, value) for value in values)
    if len(constants) == 1:
        return constants[0]
    return Constant(Type("LIST", children=(("", type),)), constants)
