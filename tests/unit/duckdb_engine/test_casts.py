import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.duckdb_engine import cast, explicit_cast
from jetbridge.errors import BadRequest


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    done = cast(array, pa.field("c", kind))
    assert done.type == kind
    assert len(done) == len(array)
    done.validate(full=True)
    return done


def _opaque(storage, name):
    return pa.opaque(storage, name, "DuckDB")


def test_the_same_type_is_not_touched():
    array = pa.array([1])
    assert cast(array, pa.field("c", pa.int64())) is array


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (pa.array([True, None]), pa.bool8(), [True, None]),
        (pa.array([1, 0]).cast(pa.int8()).cast(pa.bool8()), pa.bool_(), [True, False]),
        (pa.array(["[1]", None]), pa.json_(), ["[1]", None]),
        (pa.array(["[1]"]).cast(pa.json_()), pa.large_string(), ["[1]"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array(["2020-01-01 00:00:00+02"]), pa.timestamp("us", "UTC"), None),
        (pa.array([2**60]), pa.float64(), [float(2**60)]),
        (pa.array([1, None]), pa.decimal128(38, 2), [Decimal("1.00"), None]),
        (pa.array([datetime.time(1, 2)]), pa.time64("ns"), None),
    ],
)
def test_values_survive(array, kind, values):
    done = _cast(array, kind)
    if values is not None:
        assert done.to_pylist() == values


def test_slices_of_nested_arrays_keep_their_values():
    nested = pa.array(
        [[{"a": 1, "b": True}], None, [], [{"a": None, "b": None}, None]],
        pa.list_(pa.field("l", pa.struct([("a", pa.int32()), ("b", pa.bool_())]))),
    )
    wanted = pa.large_list(pa.struct([("B", pa.bool8()), ("A", pa.int64())]))
    for start in range(4):
        part = nested.slice(start)
        found = _cast(part, wanted).to_pylist()
        plain = [
            None if row is None else [item and {"B": item["b"], "A": item["a"]} for item in row]
            for row in part.to_pylist()
        ]
        assert found == plain


def test_slices_of_arrays_maps_and_unions_keep_their_values():
    fixed = pa.array([[1, 2], None, [3, None]], pa.list_(pa.field("", pa.int8()), 2)).slice(1)
    assert _cast(fixed, pa.list_(pa.int64(), 2)).to_pylist() == [None, [3, None]]
    maps = pa.array([[("a", True)], None, [("b", None)]], pa.map_(pa.string(), pa.bool_())).slice(1)
    assert _cast(maps, pa.map_(pa.large_string(), pa.bool8())).to_pylist() == [None, [("b", None)]]
    codes = pa.array([0, 1, 0], pa.int8())
    children = [pa.array([True, None, False]), pa.array([None, "x", None])]
    union = pa.UnionArray.from_sparse(codes, children, ["b", "s"]).slice(1)
    fields = [pa.field("b", pa.bool8()), pa.field("s", pa.large_string())]
    assert _cast(union, pa.sparse_union(fields)).to_pylist() == ["x", False]


@pytest.mark.parametrize("name", ["hugeint", "uhugeint"])
def test_huge_integers_are_their_decimals(name):
    numbers = pa.array([Decimal(7), None, Decimal(10**37)], pa.decimal128(38, 0))
    huge = _cast(numbers.slice(1), _opaque(pa.binary(16), name))
    assert _cast(huge, pa.decimal128(38, 0)).equals(numbers.slice(1))


def test_bits_keep_their_bytes():
    bits = _cast(pa.array([b"\x04\xf5", None]), _opaque(pa.binary(), "bit"))
    assert _cast(bits, pa.binary()).to_pylist() == [b"\x04\xf5", None]


@pytest.mark.parametrize(
    ("array", "kind", "row"),
    [
        (pa.array(["1", "2", "x", "y"]), pa.int32(), 2),
        (pa.array([1.0, 2.5]), pa.int32(), 1),
        (pa.array([1, 300]), pa.int8(), 1),
        (pa.array(["{}", "{"]), pa.json_(), 1),
        (pa.array(["zz"]), pa.uuid(), 0),
        (pa.array([b"ok", b"\xff"]), pa.string(), 1),
        (pa.array([1_000, 1_001], pa.timestamp("ms")), pa.timestamp("s"), 1),
        (pa.array([{"a": 1}]), pa.struct([("b", pa.int64())]), 0),
        (pa.array([[1, 2, 3]], pa.list_(pa.int8(), 3)), pa.list_(pa.int8(), 2), 0),
    ],
)
def test_values_that_do_not_fit_are_named_by_column_and_row(array, kind, row):
    with pytest.raises(BadRequest, match=f"column 'c', row {row + 10}: ") as error:
        cast(array, pa.field("c", kind), first_row=10)
    assert len(str(error.value)) < 500
    assert "\n" not in str(error.value)


def test_an_explicit_cast_rounds_as_duckdb_does():
    source = pa.field("c", pa.float64())
    done = explicit_cast(pa.array([1.5, 2.4, None]), source, pa.field("c", pa.int32()))
    assert done.to_pylist() == [2, 2, None]
    with pytest.raises(BadRequest, match="c"):
        explicit_cast(pa.array([1e300]), source, pa.field("c", pa.int32()))


@pytest.mark.parametrize("view", [pa.list_view, pa.large_list_view])
@pytest.mark.parametrize("plain", [pa.list_, pa.large_list])
def test_list_views_become_lists(view, plain):
    values = [[1, None], None, [], [2, 3]]
    array = pa.array(values, view(pa.int8()))
    assert _cast(array, plain(pa.int32())).to_pylist() == values
    assert _cast(array.slice(1, 2), plain(pa.int32())).to_pylist() == values[1:3]
    assert _cast(pa.nulls(2, view(pa.string())), plain(pa.string())).to_pylist() == [None, None]
