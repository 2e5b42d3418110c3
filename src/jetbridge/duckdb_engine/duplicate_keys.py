"""Duplicate keys, found without looking at rows one by one. A NULL in a key never clashes."""

from collections.abc import Iterable

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.duckdb_engine.sandbox import DATA, query, quoted, refusal
from jetbridge.duckdb_engine.types import is_ordinal
from jetbridge.runtime.array_sizes import array_bytes

# More does not fit into one array of strings.
_MOST_BYTES = 2**31 - 1

Integers = npt.NDArray[np.int64]


def find_duplicate_key(keys: pa.Table) -> int | None:
    """Return the first row whose key an earlier row has too."""
    if keys.num_rows < 2:  # noqa: PLR2004
        return None
    numbers = _numbers(keys)
    if numbers is not None:
        return _duplicate_number(numbers)
    if keys.num_columns == 1 and _all_differ(keys.column(0)):
        return None
    names = [f"k{i}" for i in range(keys.num_columns)]
    listed = ", ".join(names)
    rows = f"FROM {DATA} WHERE {_all_set(names)}"
    # Most often there is none, and grouping is much cheaper than numbering.
    sql = f"SELECT 1 {rows} GROUP BY {listed} HAVING count(*) > 1 LIMIT 1"
    if _query(sql, keys, names).num_rows == 0:
        return None
    sql = (
        f"SELECT min(i) FROM (SELECT i, row_number() OVER (PARTITION BY {listed} ORDER BY i) AS n "
        f"{rows}) WHERE n > 1"
    )
    return _answer(_query(sql, keys, names))


def _query(sql: str, keys: pa.Table, names: list[str], **more: pa.Table) -> pa.Table:
    try:
        return query(sql, _numbered(keys, names), **more)
    except duckdb.Error as error:
        raise refusal(error, "the search for duplicate keys") from None


def _all_differ(column: pa.ChunkedArray) -> bool:
    values = _value_set(column)
    return values is not None and len(values) == len(column) - column.null_count


def find_existing_key(keys: pa.Table, existing: Iterable[pa.Table]) -> int | None:
    """Return a row of `keys` that is in `existing`: the first one in the first table with any."""
    if keys.num_rows == 0:
        return None
    sets: list[pa.Array | None] | None = None
    for table in existing:
        if sets is None:  # only for a table with rows
            sets = [_value_set(column) for column in keys.columns]
        candidates = _candidates(table, sets)
        if candidates.num_rows:
            row = _joined(keys, candidates)
            if row is not None:
                return row
    return None


def _numbers(keys: pa.Table) -> Integers | None:
    """Return the key as int64, if it is one integer, date or timestamp column without NULLs."""
    column = keys.column(0)
    if keys.num_columns != 1 or column.null_count or not is_ordinal(column.type):
        return None
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    numbers: Integers = column.cast(pa.int64(), safe=False).to_numpy()
    return numbers


def _duplicate_number(numbers: Integers) -> int | None:
    if bool(np.all(numbers[1:] > numbers[:-1])):
        return None
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    repeated = order[1:][ordered[1:] == ordered[:-1]]
    return int(repeated.min()) if len(repeated) else None


def _value_set(column: pa.ChunkedArray) -> pa.Array | None:
    """Return the values to look for, or None where `is_in` cannot compare as DuckDB does."""
    if array_bytes(column) >= _MOST_BYTES:
        return None
    array = _storage(column)
    kind = array.type
    # Floats: DuckDB holds NaN equal to NaN and 0.0 equal to -0.0.
    if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_interval(kind):
        return None
    return pc.unique(array.drop_null())


def _storage(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _candidates(table: pa.Table, sets: list[pa.Array | None]) -> pa.Table:
    for index, values in enumerate(sets):
        if values is not None and table.num_rows:
            column = _storage(table.column(index))
            table = table.filter(_is_in(column, values))
    return table


def _is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    if len(values) == 1:  # several times as fast
        return pc.equal(column, values[0])
    return pc.is_in(column, value_set=values)


def _joined(keys: pa.Table, existing: pa.Table) -> int | None:
    names = [f"k{i}" for i in range(keys.num_columns)]
    equal = " AND ".join(f"d.{n} = e.{n}" for n in names)
    sql = f"SELECT min(d.i) FROM {DATA} d JOIN {quoted('existing')} e ON {equal}"
    other = existing.rename_columns(names)
    return _answer(_query(sql, keys, names, existing=other))


def _numbered(keys: pa.Table, names: list[str]) -> pa.Table:
    positions = pa.array(np.arange(keys.num_rows, dtype=np.int64))
    return keys.rename_columns(names).append_column("i", positions)


def _all_set(names: list[str]) -> str:
    return " AND ".join(f"{name} IS NOT NULL" for name in names)


def _answer(table: pa.Table) -> int | None:
    value = table.column(0)[0].as_py()
    return None if value is None else int(value)
