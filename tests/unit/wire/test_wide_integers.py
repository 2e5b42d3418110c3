"""HUGEINT and UHUGEINT as decimals: every nesting, slices, NULL, and values that do not fit."""

from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest
from jetbridge.wire.wide_integers import DECIMAL, decimal_batch, decimal_schema, decimal_table

HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
MOST = 10**38 - 1
MAX_HUGEINT, MAX_UHUGEINT = 2**127 - 1, 2**128 - 1


def wide(*values: int | None, type_: pa.DataType = HUGEINT) -> pa.Array:
    signed = type_.type_name == "hugeint"
    data = [None if v is None else v.to_bytes(16, "little", signed=signed) for v in values]
    return pa.ExtensionArray.from_storage(type_, pa.array(data, pa.binary(16)))


def hiding(array: pa.Array, *mask: bool) -> pa.Array:
    """Return the same values, hidden under a NULL where the mask is true."""
    return pa.ExtensionArray.from_storage(
        array.type,
        pa.Array.from_buffers(
            pa.binary(16),
            len(array),
            [pa.array([not m for m in mask]).buffers()[1], array.storage.buffers()[1]],
        ),
    )


def converted(array: pa.Array, *, full: bool = True) -> pa.Array:
    """Return the converted table, checked by Arrow unless it hides values that do not fit."""
    batch = pa.record_batch({"c": array})
    schema = decimal_schema(batch.schema)
    found = decimal_batch(batch, schema)
    assert found.schema.equals(schema)
    found.validate(full=full)
    return found.column(0)


def numbers(*values: int | None) -> list[Decimal | None]:
    return [None if value is None else Decimal(value) for value in values]


@pytest.mark.parametrize("type_", [HUGEINT, UHUGEINT])
def test_numbers_up_to_38_digits_keep_their_value(type_):
    values = [0, 1, 45, 2**63, 2**64, 2**64 - 1, MOST, None]
    if type_ == HUGEINT:
        values += [-1, -(2**63), -(2**64), -(2**64) - 1, -MOST]
    found = converted(wide(*values, type_=type_))
    assert (found.type, found.to_pylist()) == (DECIMAL, numbers(*values))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (HUGEINT, MOST + 1),
        (HUGEINT, -MOST - 1),
        (HUGEINT, MAX_HUGEINT),
        (HUGEINT, -(2**127)),
        (UHUGEINT, MOST + 1),
        (UHUGEINT, 2**127),
        (UHUGEINT, MAX_UHUGEINT),
        (UHUGEINT, MAX_UHUGEINT - 5),
    ],
)
def test_more_digits_are_refused_with_the_remedy(type_, value):
    with pytest.raises(BadRequest) as refused:
        converted(wide(1, None, value, type_=type_))
    assert str(refused.value) == (
        f"column 'c' has the {type_.type_name.upper()} {value}, which does not fit "
        "decimal128(38, 0): read it with exact_hugeint=True, or cast it to VARCHAR in a query"
    )


def test_what_is_under_a_null_is_no_value():
    found = converted(hiding(wide(MAX_HUGEINT, 7), True, False))
    assert found.to_pylist() == numbers(None, 7)


OFFSETS = pa.array([0, 1, 1, 3], pa.int32())
MASK = pa.array([False, True, False])


def nested(values: pa.Array) -> dict[str, pa.Array]:
    """Return three values in every nested type."""
    texts = pa.array(["x", "y", "z"])
    keys = pa.array([0, 1, 3, 3], pa.int32())
    return {
        "list": pa.ListArray.from_arrays(OFFSETS, values),
        "large list": pa.LargeListArray.from_arrays(OFFSETS.cast(pa.int64()), values),
        "array": pa.FixedSizeListArray.from_arrays(values, 1),
        "struct": pa.StructArray.from_arrays([values, texts], ["n", "t"], mask=MASK),
        "key": pa.MapArray.from_arrays(keys, values, texts),
        "item": pa.MapArray.from_arrays(keys, texts, values),
        "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [values, texts]),
        "deep": pa.ListArray.from_arrays(
            OFFSETS, pa.StructArray.from_arrays([pa.ListArray.from_arrays(OFFSETS, values)], ["l"])
        ),
    }


@pytest.mark.parametrize("title", nested(wide(1, 2, 3)))
@pytest.mark.parametrize(("start", "length"), [(0, 3), (1, 2), (2, 1), (0, 0)])
def test_nested_values_are_converted_in_slices_too(title, start, length):
    found = converted(nested(wide(1, -2, 3))[title].slice(start, length))
    plain = nested(pa.array(numbers(1, -2, 3), DECIMAL))[title].slice(start, length)
    assert found.type == plain.type
    assert found.to_pylist() == plain.to_pylist()


@pytest.mark.parametrize("title", nested(wide(1, 2, 3)))
def test_nested_values_that_do_not_fit_are_refused(title):
    array = nested(wide(1, 2, MAX_HUGEINT))[title]
    with pytest.raises(BadRequest, match=f"column 'c' has the HUGEINT {MAX_HUGEINT}"):
        converted(array)
    assert len(converted(array.slice(0, 1), full=False)) == 1


def test_values_of_null_parents_and_of_other_members_are_not_looked_at():
    values = wide(1, MAX_HUGEINT, 3)
    struct = converted(nested(values)["struct"], full=False)
    assert struct.to_pylist() == [{"n": 1, "t": "x"}, None, {"n": 3, "t": "z"}]
    union = converted(nested(values)["sparse union"], full=False)
    assert union.to_pylist() == [1, "y", 3]


def test_other_types_and_metadata_stay():
    uuid = pa.opaque(pa.binary(16), "uuid", "DuckDB")
    other = pa.opaque(pa.binary(16), "hugeint", "another vendor")
    schema = pa.schema(
        [
            pa.field("h", HUGEINT, False, {"default": "7"}),
            pa.field("h", pa.int32()),
            pa.field("u", uuid),
            pa.field("o", other),
        ],
        {"k": "v"},
    )
    found = decimal_schema(schema)
    expected = pa.schema([schema.field(0).with_type(DECIMAL), *list(schema)[1:]], schema.metadata)
    assert found.equals(expected, check_metadata=True)
    assert decimal_table(schema.empty_table()).schema.equals(found, check_metadata=True)


def test_batch_without_such_columns_is_the_same_object():
    batch = pa.record_batch({"a": [1], "d": pa.array([Decimal(1)], DECIMAL)})
    assert decimal_batch(batch, decimal_schema(batch.schema)) is batch


def test_values_are_not_copied():
    column = wide(*range(1000))
    found = converted(column)
    assert found.buffers()[1].address == column.storage.buffers()[1].address
