"""The bytes of each value, for every layout that Arrow has."""

import pyarrow as pa
import pytest

from jetbridge.duckdb_engine.stored_expressions.row_sizes import value_sizes

TEXTS = ["", "a" * 50_000, None, "b" * 10]
ARRAYS = {
    "string": pa.array(TEXTS),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "string_view": pa.array(TEXTS, pa.string_view()),
    "binary_view": pa.array([text and text.encode() for text in TEXTS], pa.binary_view()),
    "json": pa.array(TEXTS, pa.json_()),
    "list": pa.array([[text] for text in TEXTS]),
    "large_list": pa.array([[text] for text in TEXTS], pa.large_list(pa.string())),
    "array": pa.array([[text, text] for text in TEXTS], pa.list_(pa.string(), 2)),
    "struct": pa.array([{"a": text, "b": 1} for text in TEXTS]),
    "map": pa.array([[("k", text)] for text in TEXTS], pa.map_(pa.string(), pa.string())),
    "deep": pa.array([[{"a": [text]}] for text in TEXTS]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_each_value_has_its_own_size_also_in_a_slice(name: str) -> None:
    array = ARRAYS[name]
    sizes = value_sizes(array)
    assert 50_000 <= sizes[1] <= 110_000
    assert max(sizes[[0, 2, 3]]) <= 100
    assert list(value_sizes(array.slice(1, 2))) == list(sizes[1:3])
    assert list(value_sizes(pa.chunked_array([array, array.slice(3)]))) == [*sizes, sizes[3]]


def test_values_of_fixed_size_dictionaries_and_unions() -> None:
    assert list(value_sizes(pa.array([1, None, 3], pa.int64()))) == [8, 8, 8]
    assert list(value_sizes(pa.array([True, None]))) == [1, 1]
    assert list(value_sizes(pa.array(["a" * 99, "b"]).dictionary_encode())) == [99, 99]
    codes = pa.array([0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(codes, [pa.array(["a" * 99, ""]), pa.array([1, 2])])
    assert list(value_sizes(union)) == [107, 8]
    assert len(value_sizes(pa.nulls(3))) == 3
    assert list(value_sizes(pa.chunked_array([], pa.string()))) == []
