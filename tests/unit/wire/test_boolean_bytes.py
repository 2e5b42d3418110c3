"""Bytes that are no BOOLEAN are found at any depth, and not where a NULL hides them."""

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest
from jetbridge.wire.arrow_input import check_boolean_bytes, has_boolean_bytes


def check(column: pa.Array) -> None:
    check_boolean_bytes(pa.record_batch([pa.array([None] * len(column)), column], ["n", "c"]))


def flags(*values: int | None) -> pa.Array:
    return pa.bool8().wrap_array(pa.array(values, pa.int8()))


def hidden(*values: int) -> pa.Array:
    """Return the same bytes, all of them NULL."""
    storage = pa.Array.from_buffers(
        pa.int8(), len(values), [pa.py_buffer(b"\0"), pa.py_buffer(bytes(values))]
    )
    return pa.bool8().wrap_array(storage)


def union(values: pa.Array) -> pa.Array:
    codes = pa.array([0, 1], pa.int8())
    return pa.UnionArray.from_sparse(codes, [values, pa.array(["x", "y"])], ["b", "t"])


def dense(values: pa.Array) -> pa.Array:
    codes, places = pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32())
    return pa.UnionArray.from_dense(codes, places, [values, pa.array(["x"])], ["b", "t"])


def maps(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "l"]), values)


NESTED = {
    "plain": lambda values: values,
    "list": lambda values: pa.ListArray.from_arrays([0, 2], values),
    "large list": lambda values: pa.LargeListArray.from_arrays([0, 2], values),
    "view": lambda values: pa.ListViewArray.from_arrays([0], [2], values),
    "array": lambda values: pa.FixedSizeListArray.from_arrays(values, 2),
    "struct": lambda values: pa.StructArray.from_arrays([values], ["b"]),
    "map": maps,
    "dense union": dense,
    "list of structs": lambda values: pa.ListArray.from_arrays(
        [0, 2], pa.StructArray.from_arrays([values], ["b"])
    ),
}


@pytest.mark.parametrize("shape", NESTED)
def test_bytes_are_found_at_any_depth(shape):
    nest = NESTED[shape]
    assert has_boolean_bytes(nest(flags(0)).type if shape == "plain" else nest(flags(0, 1)).type)
    for good in (flags(0, 1), flags(None, 1), hidden(7, 200)):
        check(nest(good))
    for bad in (flags(0, 2), flags(-1, None)):
        with pytest.raises(BadRequest, match="column 'c'"):
            check(nest(bad))


def test_only_the_member_that_a_union_names_counts():
    check(union(flags(1, 9)))
    with pytest.raises(BadRequest, match="byte 9"):
        check(union(flags(9, 1)))


@pytest.mark.parametrize(
    "array",
    [
        pa.StructArray.from_arrays([flags(1, 9)], ["b"], mask=pa.array([False, True])),
        pa.FixedSizeListArray.from_arrays(flags(1, 9), 1, mask=pa.array([False, True])),
        flags(1, 9).slice(0, 1),
        pa.ListArray.from_arrays([0, 1], flags(1, 9)),
        flags(),
    ],
)
def test_values_that_no_row_has_do_not_count(array):
    check(array)


@pytest.mark.parametrize(
    "data_type", [pa.bool_(), pa.int8(), pa.struct([("b", pa.bool_())]), pa.uuid()]
)
def test_other_types_have_none(data_type):
    assert not has_boolean_bytes(data_type)
