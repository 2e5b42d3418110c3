"""Requests that mutation has found: once answered INTERNAL, or with gigabytes of memory."""

import pyarrow as pa
import pytest

from jetbridge.catalog import AsOf, AtUnit
from jetbridge.client.session import pack
from jetbridge.errors import BadRequest, NotFound
from jetbridge.wire.codec import Blob
from jetbridge.wire.messages import AddColumnRequest

ROWS = pa.table({"id": pa.array(range(20), pa.int64())})


@pytest.fixture
def table(client):
    client.create_schema("s")
    client.create_table("s", "t", ROWS.schema)
    client.insert("s", "t", ROWS)
    return client


def month_interval():
    """Return a type that pyarrow cannot build, by changing the unit in the bytes of another."""
    other = pa.schema([("c", pa.month_day_nano_interval())]).serialize().to_pybytes()
    for at, byte in enumerate(other):
        changed = other[:at] + b"\0" + other[at + 1 :]
        if byte == 2 and pa.ipc.read_schema(pa.py_buffer(changed)).field(0).type.id == 21:
            return changed
    raise AssertionError


def misspelt():
    return pa.schema([("ccc", pa.int8())]).serialize().to_pybytes().replace(b"ccc", b"c\xff\xfe")


def in_struct():
    inner = pa.struct([("ccc", pa.int8())])
    return pa.schema([("s", inner)]).serialize().to_pybytes().replace(b"ccc", b"c\xff\xfe")


def wide(kind: pa.DataType):
    return pa.schema([("c", kind)]).serialize().to_pybytes()


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(misspelt(), id="name-not-utf8"),
        pytest.param(in_struct(), id="field-name-not-utf8"),
        pytest.param(month_interval(), id="month-interval"),
        pytest.param(wide(pa.list_(pa.int8(), 134_217_730)), id="wide-list"),
        pytest.param(wide(pa.list_(pa.list_(pa.int8(), 4_000), 4_000)), id="wide-list-of-lists"),
        pytest.param(wide(pa.binary(2**30)), id="wide-binary"),
    ],
)
def test_column_that_cannot_be_kept_is_refused(table, column):
    request = AddColumnRequest(catalog="memory", schema="s", name="t", column_schema=Blob(column))
    with pytest.raises(BadRequest, match="column_schema is not an Arrow IPC schema"):
        table.action("add_column", pack(request))
    assert table.read("s", "t").equals(ROWS)


def test_decimal_that_python_cannot_print_is_refused_without_it(table):
    unprintable = pa.Array.from_buffers(
        pa.decimal128(38, 38), 1, [None, pa.py_buffer(b"\xff" * 15 + b"\x7f")]
    )
    sent = pa.RecordBatch.from_arrays([unprintable], ["id"])
    with pytest.raises(BadRequest):
        table.insert("s", "t", sent)
    assert table.read("s", "t").equals(ROWS)


def test_time_after_pythons_last_year_is_the_newest_version(table):
    late = AsOf(AtUnit.TIMESTAMP, "290000-01-01 00:00:00")
    assert table.read("s", "t", at=late).equals(ROWS)


def test_time_before_pythons_first_year_is_not_found(table):
    with pytest.raises(NotFound):
        table.read("s", "t", at=AsOf(AtUnit.TIMESTAMP, "0044-03-15 (BC) 00:00:00"))
