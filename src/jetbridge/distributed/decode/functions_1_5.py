"""What functions of DuckDB 1.5 took out of their arguments when they were bound."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.types_1_5 import decode_constant
from jetbridge.distributed.expressions import BoundCall, BoundConstant, BoundExpression, Lambda
from jetbridge.distributed.types import DOUBLE, INTEGER, VARCHAR, NotDistributed, Type

_QUANTILES = ("quantile_cont", "quantile_disc", "quantile", "mad", "median")
_STRINGS = ("string_agg", "group_concat", "listagg")
_ARITHMETIC = ("+", "-", "*")
_BY_NAME = ("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate")
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
    children: tuple[BoundExpression, ...],
    data: Data,
    decode: Callable[[Any], BoundExpression],
) -> BoundExpression:
    """Return the call of a scalar function, with the arguments that its binding took."""
    if "return_type" in data and "has_index" in data:
        return _over_list(name, type, children, Fields(data, f"{name}()"), decode)
    if "bind_data" in data:
        return _list_aggregate(name, type, children, data)
    if "sequence" in data or "bind_data" in data:
        raise NotDistributed(f"{name}()")
    if name in _ARITHMETIC or set(data) == {"variable_return_type"}:
        # Types and the check for overflow, which the binder finds again.
        data = {}
    if any(value is not None for value in data.values()):
        raise NotDistributed(f"{name}() with bind data")
    return BoundCall(type, name, children)


def _over_list(
    name: str,
    type: Type,
    children: tuple[BoundExpression, ...],
    data: Fields,
    decode: Callable[[Any], BoundExpression],
) -> BoundExpression:
    data.drop("return_type")
    has_index, has_initial = data.take("has_index"), data.take_or("has_initial", default=False)
    body = data.take_or("lambda_expr", None)
    data.end()
    if body is None:
        return BoundCall(type, name, children)
    parameters = (2 if name in _REDUCING else 1) + bool(has_index)
    function = Lambda(parameters, decode(body))
    captures = len(children) - (2 if has_initial else 1)
    return BoundCall(type, name, children, function, captures)


def _list_aggregate(
    name: str, type: Type, children: tuple[BoundExpression, ...], data: Data
) -> BoundExpression:
    inner = data["bind_data"]
    if inner is None:
        return BoundCall(type, name, children)
    aggregate = inner["aggr_expr"]
    function = aggregate["name"]
    taken = decode_aggregate_data(function, type, (), aggregate.get("function_data") or {})
    if name in _BY_NAME and len(children) == 1:
        children += (BoundConstant(VARCHAR, function),)
    return BoundCall(type, name, children + taken)


def decode_aggregate_data(
    name: str, type: Type, children: tuple[BoundExpression, ...], data: Data
) -> tuple[BoundExpression, ...]:
    """Return the arguments of an aggregate, with those that its binding took."""
    if not data:
        return children
    fields = Fields(data, f"{name}()")
    taken: tuple[BoundExpression, ...] = ()
    many = type.name == "LIST" and not (children and children[0].type.name == "LIST")
    if name in _STRINGS:
        taken = (BoundConstant(VARCHAR, fields.take("separator")),)
    elif name in _QUANTILES:
        taken = _quantiles(name, fields, many=many)
    elif name == "bitstring_agg":
        bounds = (decode_constant(fields.take(key)) for key in ("min", "max"))
        taken = tuple(bound for bound in bounds if bound.value is not None)
    elif name == "approx_quantile":
        taken = (_numbers(fields.take("quantiles"), Type("FLOAT"), many=many),)
    elif name == "reservoir_quantile":
        quantiles = _numbers(fields.take("quantiles"), DOUBLE, many=many)
        taken = (quantiles, BoundConstant(INTEGER, fields.take("sample_size")))
    fields.end()
    return children + taken


def _quantiles(name: str, fields: Fields, *, many: bool) -> tuple[BoundExpression, ...]:
    """Return the quantiles; negative ones count from the largest value."""
    quantiles = [decode_constant(value) for value in fields.take("quantiles")]
    fields.drop("order")
    if fields.take("desc"):
        if any(not one.value for one in quantiles):
            raise NotDistributed(f"{name}() of 0 in descending order")
        quantiles = [replace(one, value=-one.value) for one in quantiles]
    if name in ("mad", "median"):
        return ()
    if not many:
        return (quantiles[0],)
    type = quantiles[0].type if quantiles else DOUBLE
    return (BoundConstant(Type("LIST", children=(("", type),)), tuple(quantiles)),)


def _numbers(values: list[float], type: Type, *, many: bool) -> BoundConstant:
    constants = tuple(BoundConstant(type, value) for value in values)
    if not many:
        return constants[0]
    return BoundConstant(Type("LIST", children=(("", type),)), constants)
