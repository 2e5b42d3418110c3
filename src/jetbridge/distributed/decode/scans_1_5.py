"""Scans of tables and table functions as DuckDB 1.5 writes them."""

from collections.abc import Callable, Mapping
from typing import Any

from jetbridge.distributed import plan
from jetbridge.distributed.decode.expressions_1_5 import comparison, decode_expression
from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.types_1_5 import decode_constant, decode_type
from jetbridge.distributed.expressions import (
    Call,
    Compare,
    Constant,
    Expression,
    Logic,
    Operator,
    Ref,
    remap,
)
from jetbridge.distributed.types import BIGINT, BOOLEAN, VARCHAR, NotDistributed, Type

_NO_INDEX = 2**64 - 1
_VIRTUAL = 2**63
_FUNCTIONS = frozenset(("range", "generate_series", "repeat", "repeat_row"))


def decode_get(fields: Fields) -> plan.Node:
    """Return the scan of a table, or a table function of constants."""
    name = fields.take("name")
    fields.title = f"the scan {name}()"
    if fields.take("children"):
        raise NotDistributed(f"{name}() of columns in FROM")
    _refuse_options(fields)
    names, types = fields.take("names"), fields.map("returned_types", _Lazy)
    read = [_column_index(value) for value in fields.take("column_indexes")]
    output = tuple(fields.take("projection_ids") or range(len(read)))
    filters = fields.take("table_filters")["filters"]
    fields.drop("arguments", "original_arguments", "catalog_name", "schema_name")
    if name == "seq_scan":
        data = fields.take("function_data")
        fields.drop("has_serialize", "parameters", "named_parameters")
        table = plan.TableName(data["catalog"], data["schema"], data["table"])
        return _scan(table, names, types, read, output, filters)
    if name not in _FUNCTIONS or filters:
        raise NotDistributed(f"the table function {name}()")
    return _function(name, fields, names, types, [read[index] for index in output])


class _Lazy:
    """A type that is decoded if its column is read: others may be unknown."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def type(self) -> Type:
        return decode_type(self._value)


def _refuse_options(fields: Fields) -> None:
    fields.drop("input_table_types", "input_table_names", "projected_input")
    extra = Fields(fields.take_or("extra_info", None) or {}, fields.title)
    extra.expect("sample_options", None)
    extra.expect("file_filters", "", None)
    extra.drop("total_files", "filtered_files")
    extra.end()
    if fields.take_or("ordinality_idx", _NO_INDEX) != _NO_INDEX:
        raise NotDistributed("WITH ORDINALITY")
    # Which row groups a scan with ORDER BY and LIMIT reads first: the rows are the same.
    fields.drop("row_group_order_options")


def _column_index(value: Any) -> int:
    fields = Fields(value, "the column of a scan")
    index: int = fields.take("index")
    if fields.take_or("child_indexes", ()):
        raise NotDistributed("a scan of parts of a column")
    fields.drop("index_type", "type", "field", "has_index")
    fields.end()
    return index


def _column(index: int, names: list[str], types: tuple[_Lazy, ...]) -> plan.ScanColumn:
    if index == _NO_INDEX:
        return plan.ScanColumn("rowid", BIGINT)
    if index >= _VIRTUAL:
        # The column of a scan that only counts rows.
        return plan.ScanColumn("", BOOLEAN)
    return plan.ScanColumn(names[index], types[index].type())


def _scan(
    table: plan.TableName,
    names: list[str],
    types: tuple[_Lazy, ...],
    read: list[int],
    output: tuple[int, ...],
    filters: list[Any],
) -> plan.Node:
    for one in filters:
        if one["key"] not in read:
            read.append(one["key"])
    columns = tuple(_column(index, names, types) for index in read)
    conditions = []
    for one in filters:
        position = read.index(one["key"])
        ref = Ref(columns[position].type, position)
        conditions.append(_filter(one["value"], ref))
    kept = tuple(condition for condition in conditions if condition is not None)
    return plan.Get(table, columns, output, kept)


def _filter(value: Any, column: Expression) -> Expression | None:
    fields = Fields(value, "a filter of a scan")
    kind = fields.take("filter_type")
    fields.title = f"the filter {kind} of a scan"
    if kind in ("OPTIONAL_FILTER", "DYNAMIC_FILTER"):
        return None
    decode = _FILTERS.get(kind)
    if decode is None:
        raise NotDistributed(fields.title)
    condition = decode(kind, fields, column)
    fields.end()
    return condition


def _null(kind: str, fields: Fields, column: Expression) -> Expression:
    return Operator(BOOLEAN, kind.replace("_", " "), (column,))


def _comparison(kind: str, fields: Fields, column: Expression) -> Expression:
    operator = comparison(fields.take("comparison_type"))
    return Compare(BOOLEAN, operator, column, decode_constant(fields.take("constant")))


def _in(kind: str, fields: Fields, column: Expression) -> Expression:
    return Operator(BOOLEAN, "IN", (column, *fields.map("values", decode_constant)))


def _junction(kind: str, fields: Fields, column: Expression) -> Expression | None:
    inner = fields.map("child_filters", lambda child: _filter(child, column))
    kept = tuple(condition for condition in inner if condition is not None)
    if kind.endswith("OR") and len(kept) < len(inner):
        return None
    return Logic(BOOLEAN, kind.removeprefix("CONJUNCTION_"), kept) if kept else None


def _expression_filter(kind: str, fields: Fields, column: Expression) -> Expression:
    expression = decode_expression(fields.take("expr"))
    if not isinstance(column, Ref):
        raise NotDistributed("a filter of a scan by an expression over a field")
    return remap(expression, {0: column.index})


def _struct_filter(kind: str, fields: Fields, column: Expression) -> Expression | None:
    fields.drop("child_name")
    name, type = column.type.children[fields.take("child_idx")]
    inner = fields.take("child_filter")
    return _filter(inner, Call(type, "struct_extract", (column, Constant(VARCHAR, name))))


_FILTERS: Mapping[str, Callable[[str, Fields, Expression], Expression | None]] = {
    "IS_NULL": _null,
    "IS_NOT_NULL": _null,
    "CONSTANT_COMPARISON": _comparison,
    "IN_FILTER": _in,
    "CONJUNCTION_AND": _junction,
    "CONJUNCTION_OR": _junction,
    "EXPRESSION_FILTER": _expression_filter,
    "STRUCT_EXTRACT": _struct_filter,
}


def _function(
    name: str, fields: Fields, names: list[str], types: tuple[_Lazy, ...], read: list[int]
) -> plan.Node:
    parameters = fields.map("parameters", decode_constant)
    named = fields.take("named_parameters")
    fields.drop("has_serialize", "function_data")
    if named:
        raise NotDistributed(f"the table function {name}() with named parameters")
    columns = tuple(_column(index, names, types) for index in read)
    return plan.TableFunction(name, parameters, (), len(names), columns, tuple(read))
