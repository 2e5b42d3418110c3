"""Arrow arrays to another Arrow type by value.

What a DuckDB client sends for one of its types depends on its `arrow_lossless_conversion`, so the
same value arrives as `bool` or `arrow.bool8`, `string` or `arrow.uuid`, and so on. Three ways are
tried: the bytes as they are, a safe cast of pyarrow, and a cast of DuckDB.
"""

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.sandbox import DATA, first_line, query
from jetbridge.duckdb_engine.types import duckdb_type, is_text
from jetbridge.errors import BadRequest

_HUGE = pa.decimal128(38, 0)
_LONGEST_VALUE = 60
_LONGEST_TIMESTAMP = 1000


def cast(array: pa.Array, target: pa.Field, first_row: int = 0) -> pa.Array:
    """Return the same values with the type of the field; raise BadRequest with column and row."""
    if array.type == target.type:
        return array
    try:
        return _cast(array, target)
    except (pa.ArrowException, duckdb.Error) as error:
        row = first_row + _first_failure(array, target)
        raise BadRequest(
            f"column {target.name!r}, row {row}: {format_value(array[row - first_row])} "
            f"does not fit {target.type}: {first_line(error)}"[:450]
        ) from None


def explicit_cast(array: pa.Array, source: pa.Field, target: pa.Field) -> pa.Array:
    """Cast values as DuckDB's CAST does, as in ALTER COLUMN ... TYPE; raise BadRequest."""
    if duckdb_type(source) == duckdb_type(target):
        return cast(array, target)
    data = pa.Table.from_arrays([array], schema=pa.schema([source.with_name("c")]))
    try:
        return _by_duckdb(data, target)
    except (pa.ArrowException, duckdb.Error) as error:
        raise BadRequest(f"column {target.name!r}: {first_line(error)}") from None


def _cast(array: pa.Array, target: pa.Field) -> pa.Array:
    try:
        return conform(array, target.type)
    except pa.ArrowNotImplementedError:
        pass
    except pa.ArrowInvalid:
        # pyarrow refuses 2**60 as a double and reads fewer spellings of a text than DuckDB;
        # but DuckDB would round 1.5 to an integer, which is not the same value.
        if not (is_text(array.type) or _widens(array.type, target.type)):
            raise
    return _by_duckdb(pa.table({"c": array}), target)


def _by_duckdb(data: pa.Table, target: pa.Field) -> pa.Array:
    if _has_zone(target.type) and _longest_text(data.column(0)) > _LONGEST_TIMESTAMP:
        # DuckDB compares it with all zones that there are: eight seconds for a megabyte.
        raise pa.ArrowInvalid(f"a timestamp has at most {_LONGEST_TIMESTAMP} characters")
    answer = query(f"SELECT CAST(c AS {duckdb_type(target)}) AS c FROM {DATA}", data)
    return conform(answer.column(0).combine_chunks(), target.type)


def _has_zone(kind: pa.DataType) -> bool:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return (pa.types.is_timestamp(kind) and kind.tz is not None) or any(map(_has_zone, inner))


def _longest_text(array: Any) -> int:
    """Return the size of the values in bytes, at any depth."""
    parts = array.chunks if isinstance(array, pa.ChunkedArray) else _inner(array)
    longest = 0
    if is_text(array.type) and not isinstance(array.type, pa.BaseExtensionType):
        longest = pc.max(pc.binary_length(array)).as_py() or 0
    return max([longest, *map(_longest_text, parts)])


def _inner(array: Any) -> list[Any]:
    if isinstance(array, pa.ExtensionArray):
        return [array.storage]
    if isinstance(array, pa.DictionaryArray):
        return [array.dictionary]
    if pa.types.is_struct(array.type):
        return [array.field(index) for index in range(array.type.num_fields)]
    if isinstance(array, pa.MapArray):
        return [array.keys, array.items]
    return [array.values] if hasattr(array, "values") else []


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(pa.types.is_integer(source) and pa.types.is_floating(target))


def _first_failure(array: pa.Array, target: pa.Field) -> int:
    low, high = 0, len(array) - 1  # some row of low..high fails, none before low
    while low < high:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low + 1), target)
            low = middle + 1
        except (pa.ArrowException, duckdb.Error):
            high = middle
    return low


def format_value(value: pa.Scalar) -> str:
    """Return a value for an error message, cut to a length a human reads."""
    try:
        plain = value.as_py()
        text = repr(plain) if isinstance(plain, str | bytes) else str(plain)
    except (ValueError, ArithmeticError, ImportError, NotImplementedError, IndexError):
        return f"a value of type {value.type}"
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def conform(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Return the same values as `target_type`, without DuckDB; raise `pa.ArrowException`."""
    if array.type == target_type:
        return array
    same_bytes = _reinterpreted(array, target_type)
    if same_bytes is not None:
        return same_bytes
    return _converter(array.type, target_type)(array, target_type)


def _converter(source: pa.DataType, target_type: pa.DataType) -> Callable[[Any, Any], pa.Array]:
    nested = _NESTED.get((_shape(source), _shape(target_type)))
    if nested is not None:
        return nested
    if isinstance(target_type, pa.BaseExtensionType):
        return _extended
    if isinstance(source, pa.BaseExtensionType):
        return _plain
    return _flat


def _flat(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    # pyarrow would take the number of days for a date, and back; DuckDB has no such cast.
    for one, other in ((array.type, target_type), (target_type, array.type)):
        if pa.types.is_temporal(one) and _is_number(other):
            raise pa.ArrowInvalid(f"no cast from {array.type} to {target_type}")
    return array.cast(target_type)


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _reinterpreted(array: pa.Array, target_type: pa.DataType) -> pa.Array | None:
    """DuckDB writes HUGEINT and BIT with the same bytes, lossless or not."""
    source, target = _opaque_name(array.type), _opaque_name(target_type)
    if source in {"hugeint", "uhugeint"} and target_type == _HUGE:
        return _with_bytes(array.storage, target_type)
    if target in {"hugeint", "uhugeint"} and array.type == _HUGE:
        return target_type.wrap_array(_with_bytes(array, target_type.storage_type))
    if source == "bit" and target_type == pa.binary():
        return array.storage
    if target == "bit" and array.type == pa.binary():
        return target_type.wrap_array(array)
    return None


def _opaque_name(kind: pa.DataType) -> str:
    return kind.type_name if isinstance(kind, pa.OpaqueType) else ""


def _with_bytes(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers(), offset=array.offset)


def _extended(array: pa.Array, target_type: Any) -> pa.Array:
    if array.type == pa.null():
        return pa.nulls(len(array), target_type)
    if target_type.extension_name == "arrow.bool8" and pa.types.is_boolean(array.type):
        return target_type.wrap_array(array.cast(pa.int8()))
    if isinstance(array.type, pa.JsonType) and isinstance(target_type, pa.JsonType):
        return target_type.wrap_array(array.storage.cast(target_type.storage_type))
    # A text must be proved to be JSON or a UUID, and a TIME gets its offset: that is DuckDB's.
    raise pa.ArrowNotImplementedError(f"no cast from {array.type} to {target_type}")


def _plain(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    if isinstance(array.type, pa.JsonType):
        return array.storage.cast(target_type)
    if isinstance(array.type, pa.Bool8Type):
        return pc.not_equal(array.storage, pa.scalar(0, pa.int8())).cast(target_type)
    raise pa.ArrowNotImplementedError(f"no cast from {array.type} to {target_type}")


_SHAPES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_list, "list"),
    (pa.types.is_large_list, "list"),
    (pa.types.is_list_view, "view"),
    (pa.types.is_large_list_view, "view"),
    (pa.types.is_fixed_size_list, "array"),
    (pa.types.is_struct, "struct"),
    (pa.types.is_map, "map"),
    (pa.types.is_union, "union"),
)


def _shape(kind: pa.DataType) -> str:
    return next((name for test, name in _SHAPES if test(kind)), "flat")


def _list(array: Any, target_type: Any) -> pa.Array:
    large = pa.types.is_large_list(target_type)
    if pa.types.is_large_list(array.type) != large:
        cast_type = (pa.large_list if large else pa.list_)(array.type.value_field)
        array = array.cast(cast_type)
    array = _trimmed(array)
    kind = pa.LargeListArray if large else pa.ListArray
    values = conform(array.values, target_type.value_type)
    return kind.from_arrays(array.offsets, values, type=target_type, mask=_nulls(array))


def _view(array: Any, target_type: Any) -> pa.Array:
    # pyarrow's own cast makes too few offsets where there are NULLs.
    large = pa.types.is_large_list(target_type)
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(array), 0))
    start = pa.array([0], ends.type)
    offsets = pa.concat_arrays([start, ends]).cast(pa.int64() if large else pa.int32())
    values = conform(array.flatten(), target_type.value_type)
    kind = pa.LargeListArray if large else pa.ListArray
    return kind.from_arrays(offsets, values, type=target_type, mask=_nulls(array))


def _array(array: Any, target_type: Any) -> pa.Array:
    size = target_type.list_size
    if array.type.list_size != size:
        raise pa.ArrowNotImplementedError(f"no cast from {array.type} to {target_type}")
    values = array.values.slice(array.offset * size, len(array) * size)
    inner = conform(values, target_type.value_type)
    return pa.FixedSizeListArray.from_arrays(inner, type=target_type, mask=_nulls(array))


def _struct(array: Any, target_type: Any) -> pa.Array:
    # pyarrow's own cast fills a field of another name with NULL, silently.
    names = {fold(field.name): index for index, field in enumerate(array.type)}
    if sorted(names) != sorted(fold(field.name) for field in target_type):
        raise pa.ArrowInvalid(f"the fields of {array.type} are not those of {target_type}")
    children = [conform(array.field(names[fold(f.name)]), f.type) for f in target_type]
    return pa.StructArray.from_arrays(children, fields=list(target_type), mask=_nulls(array))


def _map(array: Any, target_type: Any) -> pa.Array:
    array = _trimmed(array)
    keys = conform(array.keys, target_type.key_type)
    items = conform(array.items, target_type.item_type)
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=target_type, mask=_nulls(array))


def _union(array: Any, target_type: Any) -> pa.Array:
    if array.offset:  # which `type_codes` would pass over
        array = pa.concat_arrays([array, array.slice(0, 0)])
    fields = [array.type.field(i) for i in range(array.type.num_fields)]
    names = [target_type.field(i).name for i in range(target_type.num_fields)]
    if [f.name for f in fields] != names or {array.type.mode, target_type.mode} != {"sparse"}:
        raise pa.ArrowNotImplementedError(f"no cast from {array.type} to {target_type}")
    children = [
        conform(array.field(i), target_type.field(i).type) for i in range(target_type.num_fields)
    ]
    return pa.UnionArray.from_sparse(array.type_codes, children, names, target_type.type_codes)


_NESTED: dict[tuple[str, str], Callable[[Any, Any], pa.Array]] = {
    ("list", "list"): _list,
    ("view", "list"): _view,
    ("array", "array"): _array,
    ("struct", "struct"): _struct,
    ("map", "map"): _map,
    ("union", "union"): _union,
}


def _trimmed(array: Any) -> Any:
    """Remove the values of rows that were sliced off: they must not fail the cast."""
    whole = not array.offset and (not len(array) or array.offsets[-1].as_py() == len(array.values))
    return array if whole else pa.concat_arrays([array, array.slice(0, 0)])


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
