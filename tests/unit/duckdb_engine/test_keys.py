import numpy as np
import pyarrow as pa
import pytest

from jetbridge.duckdb_engine import find_duplicate_key, find_existing_key

CASES = [
    (pa.int64(), [3, 1, None, None, 1, 3], 4),
    (pa.uint64(), [2**64 - 1, 0, 2**64 - 1], 2),
    (pa.int8(), [1, 2, 3], None),
    (pa.date32(), [1, 2, 2], 2),
    (pa.timestamp("ns"), [5, 4, 5], 2),
    (pa.string(), ["a", "b", "a"], 2),
    (pa.large_string(), ["a", None, None], None),
    (pa.float64(), [0.0, -0.0], 1),
    (pa.float64(), [float("nan"), float("nan")], 1),
    (pa.bool8(), [True, False, True], 2),
    (pa.list_(pa.int8()), [[1], [2], [1]], 2),
    (pa.struct([("a", pa.int8())]), [{"a": 1}, {"a": 2}], None),
]


@pytest.mark.parametrize(("kind", "values", "found"), CASES)
def test_the_first_repeated_key_is_found(kind, values, found):
    keys = pa.table({"odd name": _array(values, kind)})
    assert find_duplicate_key(keys) == found
    assert find_duplicate_key(keys.slice(0, 1)) is None
    assert find_duplicate_key(keys.slice(0, 0)) is None


@pytest.mark.parametrize(("kind", "values", "found"), CASES)
def test_a_key_that_exists_is_found(kind, values, found):
    keys = pa.table({"k": _array(values, kind)})
    if found is not None:
        assert find_existing_key(keys.slice(found), [keys.slice(0, found)]) == 0
    assert find_existing_key(keys.slice(0, 1), [keys.slice(1, 1), keys.slice(0, 0)]) in {None, 0}
    assert find_existing_key(keys.slice(0, 0), [keys]) is None


def test_all_columns_of_a_key_must_be_equal():
    keys = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "x"]})
    other = pa.table({"a": [2, 1, None], "b": ["y", None, "x"]})
    assert find_duplicate_key(keys) is None
    assert find_existing_key(keys, [other]) is None
    assert find_existing_key(keys, [other, pa.table({"a": [9, 2], "b": ["x", "x"]})]) == 2
    assert find_duplicate_key(pa.concat_tables([keys, keys])) == 4


def test_large_keys_agree_with_numpy():
    numbers = np.random.default_rng(1).integers(0, 10_000, 5_000)
    seen: set[int] = set()
    first = next(i for i, n in enumerate(numbers.tolist()) if n in seen or seen.add(n))  # type: ignore[func-returns-value]
    assert find_duplicate_key(pa.table({"k": numbers})) == first
    assert find_duplicate_key(pa.table({"k": pa.array(numbers).cast(pa.string())})) == first


def _array(values, kind):
    if isinstance(kind, pa.BaseExtensionType):
        return pa.array(values).cast(kind)
    return pa.array(values, kind)
