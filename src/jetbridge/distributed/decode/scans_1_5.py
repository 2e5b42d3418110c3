"""Scans of tables and table functions as DuckDB 1.5 writes them."""

from collections.abc import Callable, Mapping
from typing import Any

from jetbridge.distributed import plan
from jetbridge.distributed.decode.expressions_1_5 import comparison, decode_expression
from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.decode.types_1_5 import decode_constant, decode_type
from jetbridge.distributed.expressions import (
    BoundCall,
    BoundConstant,
    BoundExpression,
    Compare,
    Logic,
    Operator,
    Ref,
    Unnest,
    remap,
)
from jetbridge.distributed.types import BIGINT, BOOLEAN, VARCHAR, NotDistributed, Type

_NO_INDEX = 2**64 - 1
_EMPTY = 2**64 - 2
_VIRTUAL = 2**63
_FUNCTIONS = frozenset(("range", "generate_series", "repeat", "repeat_row"))


def decode_get(fields: Fields, decode_child: Callable[[Any], plan.Node]) -> plan.Node:
    """Return the scan of a table or a file, or a table function."""
    name = fields.take("name")
    fields.title = f"the scan {name}()"
    children = tuple(map(decode_child, fields.take("children")))
    projected = tuple(fields.take("projected_input"))
    _refuse_options(fields)
    names, types = fields.take("names"), fields.map("returned_types", _Lazy)
    read = [_column_index(value) for value in fields.take("column_indexes")]
    output = tuple(fields.take("projection_ids") or range(len(read)))
    filters = fields.take("table_filters")["filters"]
    fields.drop("arguments", "original_arguments", "catalog_name", "schema_name")
    fields.drop("has_serialize", "named_parameters")
    parameters, data = fields.take_or("parameters", None) or (), fields.take_or("function_data", {})
    if name in ("seq_scan", "read_parquet", "parquet_scan"):
        table = _table(data) if name == "seq_scan" else _file(data, fields.title)
        # Of a file, the plan has the names that the query gives to its columns.
        return _scan(table, data.get("names", names), types, read, output, filters)
    if filters or data:
        raise NotDistributed(f"the table function {name}()")
    columns = [_column(read[index], names, types) for index in output]
    if children:
        return _lateral(name, children[0], columns, projected)
    return _function(name, parameters, len(names), columns, [read[index] for index in output])


def _table(data: dict[str, Any]) -> plan.TableName:
    return plan.TableName(data["catalog"], data["schema"], data["table"])


def _file(data: dict[str, Any], title: str) -> plan.TableName:
    """Return one Parquet file, read without options, as a table: its path, in no catalog."""
    options = Fields(data["parquet_options"], title)
    options.drop("explicit_cardinality")
    options.expect("binary_as_string", False)
    options.expect("can_have_nan", False)
    options.expect("file_row_number", False)
    options.expect("encryption_config", None)
    options.expect("schema", [])
    files = Fields(options.take("file_options"), title)
    files.drop("auto_detect_hive_partitioning", "hive_types_autocast", "filename_column")
    files.expect("hive_types_schema", [])
    for name in ("filename", "hive_partitioning", "union_by_name"):
        files.expect(name, False)
    files.end()
    options.end()
    if len(data["files"]) != 1:
        raise NotDistributed(f"{title} of {len(data['files'])} files")
    return plan.TableName("", "", data["files"][0])


class _Lazy:
    """Decodes a type if its column is read: others may be unknown."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def type(self) -> Type:
        return decode_type(self._value)


def _refuse_options(fields: Fields) -> None:
    fields.drop("input_table_types", "input_table_names")
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
    if index == _EMPTY:
        # The column of a scan that only counts rows.
        return plan.ScanColumn("", BOOLEAN)
    if index >= _VIRTUAL:
        raise NotDistributed("a virtual column of a scan")
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


def _filter(value: Any, column: BoundExpression) -> BoundExpression | None:
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


def _null(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression:
    return Operator(BOOLEAN, kind.replace("_", " "), (column,))


def _comparison(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression:
    operator = comparison(fields.take("comparison_type"))
    return Compare(BOOLEAN, operator, column, decode_constant(fields.take("constant")))


def _in(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression:
    return Operator(BOOLEAN, "IN", (column, *fields.map("values", decode_constant)))


def _junction(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression | None:
    inner = fields.map("child_filters", lambda child: _filter(child, column))
    kept = tuple(condition for condition in inner if condition is not None)
    if kind.endswith("OR") and len(kept) < len(inner):
        return None
    return Logic(BOOLEAN, kind.removeprefix("CONJUNCTION_"), kept) if kept else None


def _expression_filter(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression:
    expression = decode_expression(fields.take("expr"))
    if not isinstance(column, Ref):
        raise NotDistributed("a filter of a scan by an expression over a field")
    return remap(expression, {0: column.index})


def _struct_filter(kind: str, fields: Fields, column: BoundExpression) -> BoundExpression | None:
    fields.drop("child_name")
    name, type = column.type.children[fields.take("child_idx")]
    inner = fields.take("child_filter")
    return _filter(inner, BoundCall(type, "struct_extract", (column, BoundConstant(VARCHAR, name))))


_FILTERS: Mapping[str, Callable[[str, Fields, BoundExpression], BoundExpression | None]] = {
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
    name: str, parameters: Any, width: int, columns: list[plan.ScanColumn], positions: list[int]
) -> plan.Node:
    if name not in _FUNCTIONS:
        raise NotDistributed(f"the table function {name}()")
    constants = tuple(map(decode_constant, parameters))
    return plan.FunctionScan(name, constants, width, tuple(columns), tuple(positions))


def _lateral(
    name: str, child: plan.Node, columns: list[plan.ScanColumn], projected: tuple[int, ...]
) -> plan.Node:
    """Return a function over columns of a row, in FROM, as unnest() of a list in SELECT."""
    arguments = tuple(
        Ref(type, index) for index, type in enumerate(child.types) if index not in projected
    )
    if name in ("range", "generate_series") and len(columns) == 1 and columns[0].name:
        element = columns[0].type
        values: BoundExpression = BoundCall(
            Type("LIST", children=(("", element),)), name, arguments
        )
    elif name == "unnest" and len(columns) == len(arguments) == 1 and columns[0].name:
        element, values = columns[0].type, arguments[0]
    else:
        raise NotDistributed(f"{name}() of columns in FROM")
    unnested = plan.Unnesting(child, (Unnest(element, values),))
    kept = [len(child.types), *projected]
    return plan.Projection(unnested, tuple(Ref(unnested.types[i], i) for i in kept))
