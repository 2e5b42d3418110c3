"""Arrays of every layout have the same values in the plain layout."""

import random

import pyarrow as pa
import pytest

from jetbridge.runtime.array_sizes import plain_bytes
from jetbridge.runtime.plain_layout import is_plain, plain_rows, plain_type, write_plain
from tests.security.input import corpus
from tests.security.input.layouts import FLAT, NESTED, anything

SEEDS = 600


def check(array: pa.Array) -> None:
    array.validate(full=True)
    plain = write_plain(array)
    plain.validate(full=True)
    assert plain.type == plain_type(array.type)
    assert is_plain(plain.type)
    assert plain.to_pylist() == array.to_pylist()
    assert plain_bytes(array, plain.type) >= 0


@pytest.mark.parametrize("make", [*FLAT, *NESTED], ids=lambda make: make.__name__)
@pytest.mark.parametrize("count", [0, 1, 5, 2_500])
def test_every_layout_keeps_its_values(make, count):
    for seed in range(5):
        check(make(random.Random(seed), count, 2))


@pytest.mark.parametrize("first", range(0, SEEDS, 100))
def test_random_layouts_keep_their_values(first):
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        check(anything(rng, rng.choice([0, 1, 2, 9, 40]), 3))


@pytest.mark.soak
def test_many_random_layouts_keep_their_values():
    for seed in range(SEEDS, 60_000):
        rng = random.Random(seed)
        check(anything(rng, rng.choice([0, 1, 2, 9, 40, 3_000]), 4))


def test_what_no_row_refers_to_is_not_written():
    long = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000), pa.array(["x" * 100_000]))
    one = pa.array([0, 1, 100_000], pa.int32())
    rows = pa.ListArray.from_arrays(one, long, mask=pa.array([False, True]))
    assert write_plain(rows).nbytes < 1_000_000
    assert write_plain(rows.slice(1)).nbytes < 1_000
    codes = pa.array([1] * 100_000, pa.int8())
    members = [long, pa.nulls(100_000, pa.string())]
    assert write_plain(pa.UnionArray.from_sparse(codes, members)).nbytes < 3_000_000


def test_a_plain_array_is_not_copied():
    rows = pa.array([{"a": [1, None]}, None])
    assert write_plain(rows) is rows
    table = pa.table({"r": [1], "s": ["a"]})
    assert plain_rows(table) is table


def test_metadata_and_nullability_stay():
    kind = pa.list_view(pa.field("e", pa.dictionary(pa.int8(), pa.string()), False, {"k": "v"}))
    field = plain_type(kind).value_field
    assert field.equals(pa.field("e", pa.string(), False, {"k": "v"}), check_metadata=True)


@pytest.mark.parametrize(
    "kind", [pa.uuid(), pa.bool8(), pa.opaque(pa.binary(16), "hugeint", "DuckDB"), pa.json_()]
)
def test_extension_types_of_duckdb_are_plain(kind):
    assert is_plain(kind)
    assert is_plain(pa.list_(pa.struct([("x", kind)])))


@pytest.mark.parametrize("name", corpus.arrays())
def test_every_type_can_be_in_a_list_view(name):
    values = corpus.arrays()[name]
    count = len(values)
    starts, sizes = pa.array([count - 1, 0, 1], pa.int32()), pa.array([1, count, 2], pa.int32())
    views = pa.ListViewArray.from_arrays(starts, sizes, values, mask=pa.array([False, False, True]))
    plain = write_plain(views)
    plain.validate()  # in full, Arrow refuses the time 24:00:00
    assert is_plain(plain.type)
    storage = write_plain(values)
    assert plain[0].values.equals(storage.slice(count - 1, 1))
    assert plain[1].values.equals(storage)
    assert plain.is_null().to_pylist() == [False, False, True]
