"""Send Arrow types that clients may send but rarely do."""

import random
from collections.abc import Iterator

import pyarrow as pa

from tests.faults.service.mutation import MADE, Request, action, exchange, made_rows

TYPES: tuple[pa.DataType, ...] = (
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.uint64(),
    pa.float16(),
    pa.float64(),
    pa.decimal128(38, 0),
    pa.decimal256(76, 10),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.binary_view(),
    pa.binary(3),
    pa.date64(),
    pa.time32("s"),
    pa.timestamp("ns", tz="Nowhere/Land"),
    pa.timestamp("s", tz="+05:30"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.large_list(pa.int8()),
    pa.list_view(pa.int8()),
    pa.list_(pa.int8(), 2),
    pa.map_(pa.string(), pa.int32()),
    pa.struct([]),
    pa.struct([pa.field("", pa.int8()), pa.field("", pa.int8())]),
    pa.dictionary(pa.int64(), pa.large_string()),
    pa.run_end_encoded(pa.int16(), pa.string()),
    pa.sparse_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
    pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())]),
)
NAMES = ("id", "ID", "rowid", "", "s", "a.b", 'q"uote', "n\u00e9", "x" * 300)


def tables(rng: random.Random) -> Iterator[Request]:
    """Return CREATE TABLE and ADD COLUMN requests with every type."""
    where = {"catalog": "cat", "schema": "made", "name": "t"}
    for number, kind in enumerate(TYPES):
        field = pa.field(rng.choice(NAMES), kind)
        schema = pa.schema([field, ("k", pa.int64())]).serialize().to_pybytes()
        yield action(
            "create_table",
            catalog_name="cat",
            schema_name="made",
            table_name=f"odd{number}",
            arrow_schema=schema,
            on_conflict=rng.choice(["error", "ignore", "replace"]),
            not_null_constraints=[rng.choice([0, 1, 2])],
            primary_key_columns=rng.choice([[], ["k"], [field.name]]),
            check_constraints=rng.choice([[], ["k > 0"], ["nope > 0"]]),
        )
        column = pa.schema([pa.field(f"c{number}", kind)]).serialize().to_pybytes()
        yield action("add_column", **where, column_schema=column)
        changed = pa.schema([pa.field(rng.choice(MADE.names), kind)]).serialize().to_pybytes()
        yield action("change_column_type", **where, column_schema=changed, expression="")


def inserts(rng: random.Random) -> Iterator[Request]:
    """Return INSERT and UPDATE requests with another type than the column."""
    rows = made_rows()
    for kind in TYPES:
        values = pa.nulls(2, kind)
        name = rng.choice(MADE.names)
        yield exchange("insert", pa.RecordBatch.from_arrays([values], [name]))
        mixed = [values if each == name else rows[each].slice(0, 2) for each in MADE.names]
        yield exchange("insert", pa.RecordBatch.from_arrays(mixed, MADE.names))
        rowids = pa.array(rng.choice([[0, 1], [0, 0], [-1, 5], [None, 1]]), pa.int64())
        yield exchange("update", pa.RecordBatch.from_arrays([values, rowids], [name, "rowid"]))
        yield exchange("delete", pa.RecordBatch.from_arrays([values], ["rowid"]))
