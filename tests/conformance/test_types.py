"""Every row of the type table of the Airport protocol, as a lossless client and as another."""

from functools import cache

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pytest

from jetbridge.catalog import CanDelete, CanInsert, CanUpdate
from jetbridge.errors import BadRequest
from tests.conformance.harness import RETURNING, SILENT, delete, insert, read

# Two values and NULL of every DuckDB type.
VALUES = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("1", "-1"),
    "BIGINT": ("9223372036854775807", "-5"),
    "UTINYINT": ("255", "0"),
    "USMALLINT": ("65535", "0"),
    "UINTEGER": ("4294967295", "0"),
    "UBIGINT": ("18446744073709551615", "0"),
    "HUGEINT": ("170141183460469231731687303715884105727", "-5"),
    "UHUGEINT": ("340282366920938463463374607431768211455", "7"),
    "BIGNUM": ("'123456789012345678901234567890123456789012345'", "'-3'"),
    "FLOAT": ("1.5", "'nan'"),
    "DOUBLE": ("1.5", "'-inf'"),
    "DECIMAL(4,1)": ("123.4", "-0.1"),
    "DECIMAL(38,10)": ("12345678901234567890.0123456789", "0"),
    "VARCHAR": ("'x'", "'\U0001f986'"),
    "JSON": ("""'{"a": [1, null]}'""", "'null'"),
    "BLOB": ("'\\x00\\xFF'::BLOB", "''"),
    "BIT": ("'010101010'", "'1'"),
    "UUID": ("'8a6f2d3e-1111-2222-3333-444455556666'", "'00000000-0000-0000-0000-000000000000'"),
    "DATE": ("'2020-02-29'", "'-infinity'"),
    "TIME": ("'12:34:56.789012'", "'00:00:00'"),
    "TIME_NS": ("'12:34:56.789012345'", "'00:00:00'"),
    "TIMETZ": ("'12:34:56+02:30'", "'00:00:00-11'"),
    "TIMESTAMP": ("'2020-01-01 01:02:03.456789'", "'infinity'"),
    "TIMESTAMP_S": ("'2020-01-01 01:02:03'", "'1969-12-31 23:59:59'"),
    "TIMESTAMP_MS": ("'2020-01-01 01:02:03.456'", "'1969-12-31 23:59:59'"),
    "TIMESTAMP_NS": ("'2020-01-01 01:02:03.456789012'", "'1969-12-31 23:59:59'"),
    "TIMESTAMPTZ": ("'2020-01-01 01:02:03.456789+05'", "'1969-12-31 23:59:59'"),
    "INTERVAL": ("'1 month 2 days 3 microseconds'", "'-1 day'"),
    "INTEGER[]": ("[1, NULL, 3]", "[]"),
    "UUID[]": ("['8a6f2d3e-1111-2222-3333-444455556666', NULL]", "[]"),
    "INTEGER[2]": ("[1, 2]", "[3, NULL]"),
    "STRUCT(a INTEGER, b BOOLEAN)": ("{'a': 1, 'b': true}", "{'a': NULL, 'b': false}"),
    "STRUCT(h HUGEINT[], u UUID)": ("{'h': [5, NULL], 'u': NULL}", "{'h': NULL, 'u': NULL}"),
    "MAP(VARCHAR, BOOLEAN)": ("MAP {'a': true, 'b': NULL}", "MAP {}"),
    "UNION(n INTEGER, s VARCHAR)": ("1::UNION(n INTEGER, s VARCHAR)", "'x'"),
    "ENUM('a', 'b')": ("'a'", "'b'"),
    "GEOMETRY": ("'POINT(1 2)'", "'POINT(3 4)'"),
}
# Two values that every backend keeps which has the type, where some refuse one of those above.
ORDINARY = {
    "TINYINT": ("0", "127"),
    "HUGEINT": ("99999999999999999999999999999999999999", "-5"),
    "FLOAT": ("1.5", "-0.25"),
    "DOUBLE": ("1.5", "-1e300"),
    "DATE": ("'0001-01-01'", "'9999-12-31'"),
    "TIMESTAMP": ("'0001-01-01'", "'9999-12-31 23:59:59.999999'"),
}
# What a client without lossless conversion cannot say: it sends another value.
LOST = {"TIMETZ": "the offset", "UHUGEINT": "values above DECIMAL(38,0)"}
# What it says in another way; all the rest is sent alike.
TWO_WAYS = (
    *("BOOLEAN", "HUGEINT", "JSON", "BIT", "UUID", "UUID[]", "STRUCT(a INTEGER, b BOOLEAN)"),
    *("STRUCT(h HUGEINT[], u UUID)", "MAP(VARCHAR, BOOLEAN)"),
)
CLIENTS = {True: "lossless", False: "plain"}
SENT = [(kind, True) for kind in VALUES] + [(kind, False) for kind in (*TWO_WAYS, *LOST)]


@cache
def sent(kind: str, *, lossless: bool, ordinary: bool = False) -> pa.Table:
    """Return what a client sends for a column of the type: two values, then NULL."""
    with duckdb.connect(config={"arrow_lossless_conversion": lossless}) as client:
        client.execute("SET TimeZone = 'Etc/UTC'")
        first, second = (ORDINARY if ordinary else VALUES)[kind]
        client.execute(f"CREATE TABLE t (n INTEGER, v {kind})")
        client.execute(f"INSERT INTO t VALUES (0, {first}), (1, {second}), (2, NULL)")
        return client.execute("SELECT * FROM t ORDER BY n").to_arrow_table()


@cache
def reader() -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'UTC'")
    return opened


def texts(data: pa.Table) -> list[str]:
    """Return the values as DuckDB prints them, whatever Arrow type they have.

    They take the way over IPC, as on the wire: DuckDB misreads slices of nested arrays.
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    data = pa.ipc.open_stream(sink.getvalue()).read_all()
    reader().register("data", data)
    found = reader().execute("SELECT v::VARCHAR FROM data ORDER BY n").fetchall()
    reader().unregister("data")
    return [row[0] for row in found]


def test_other_types_are_sent_alike_by_both_kinds_of_clients():
    for kind in VALUES.keys() - {*TWO_WAYS, *LOST}:
        one, other = (sent(kind, lossless=lossless) for lossless in CLIENTS)
        assert one.schema.equals(other.schema, check_metadata=True), kind
        assert texts(one) == texts(other), kind


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("kind", "lossless"), SENT, ids=[f"{kind}-{CLIENTS[lossless]}" for kind, lossless in SENT]
)
def test_values_come_back_equal(needs, harness, schema, create, kind, lossless):
    needs(CanInsert, CanUpdate, CanDelete)
    data = sent(kind, lossless=lossless)
    [batch] = data.to_batches()
    if (kind, CLIENTS[lossless]) in harness.lacks:
        with pytest.raises(BadRequest, match=r"column 'v' \("):
            create("t", data.schema)
        assert schema.list_tables() == []
        return
    table = create("t", data.schema)
    if (kind, CLIENTS[lossless]) in harness.refuses:
        with pytest.raises(BadRequest, match="column 'v', row [01]"):
            insert(table, batch)
        assert read(schema.load_table("t")).num_rows == 0
        data = sent(kind, lossless=lossless, ordinary=True)
        [batch] = data.to_batches()
    with table.inserting(RETURNING) as write:
        answers = [write(each).returning_data for each in (batch[:2], batch[2:])]
    assert texts(pa.Table.from_batches(answers)) == texts(data)
    table = schema.load_table("t")
    assert texts(read(table, ("n", "v"))) == texts(data)
    # The same values again, the other way round: every type can be updated.
    swapped = batch.take(pa.array([1, 0, 2])).drop_columns(["n"])
    swapped = swapped.append_column("rowid", pa.array([0, 1, 2]))
    with table.updating(SILENT) as write:
        write(swapped[:2])
        write(swapped[2:])
    one, two, null = texts(data)
    table = schema.load_table("t")
    assert texts(read(table, ("n", "v"))) == [two, one, null]
    answer = delete(table, [2, 0], RETURNING).returning_data
    assert texts(pa.Table.from_batches([answer])) == [two, null]
    assert texts(read(schema.load_table("t"), ("n", "v"))) == [one]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("lossless", [True, False], ids=["into lossless", "into plain"])
@pytest.mark.parametrize("kind", TWO_WAYS)
def test_values_of_the_other_kind_of_client_are_cast(
    needs, harness, schema, create, kind, lossless
):
    needs(CanInsert)
    if (kind, CLIENTS[lossless]) in harness.lacks:
        pytest.skip("has no such type")
    mine, other = sent(kind, lossless=lossless), sent(kind, lossless=not lossless)
    table = create("t", mine.schema)
    if (kind, CLIENTS[lossless]) in harness.refuses:
        with pytest.raises(BadRequest, match="column 'v', row [01]"):
            insert(table, other.to_batches()[0])
        mine = sent(kind, lossless=lossless, ordinary=True)
        other = sent(kind, lossless=not lossless, ordinary=True)
    insert(table, other.to_batches()[0])
    assert texts(read(schema.load_table("t"), ("n", "v"))) == texts(mine)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("declared", "array"),
    [
        (pa.large_string(), pa.array(["a", None])),
        (pa.string(), pa.array(["a", None], pa.large_string())),
        (pa.string(), pa.array(["a", None]).dictionary_encode()),
        (pa.timestamp("us", "UTC"), pa.array([1, None], pa.timestamp("us", "Etc/UTC"))),
        (pa.timestamp("us", "Europe/Berlin"), pa.array([1, None], pa.timestamp("us", "UTC"))),
        (pa.timestamp("ns"), pa.array([1, None], pa.timestamp("us"))),
        (pa.list_(pa.int32()), pa.array([[1], None], pa.list_(pa.field("l", pa.int32())))),
        (
            pa.list_(pa.field("item", pa.int32()), 2),
            pa.array([[1, 2], None], pa.list_(pa.field("", pa.int32()), 2)),
        ),
        (pa.large_list(pa.string()), pa.array([["x"], None], pa.list_(pa.string()))),
        (pa.large_binary(), pa.array([b"x", None])),
        (pa.int64(), pa.array([1, None], pa.int8())),
        (pa.int64(), pa.array([None, None])),
        (pa.float64(), pa.array([2**60, None])),
        (pa.date64(), pa.array([1, None], pa.date32())),
    ],
)
def test_the_type_of_the_table_is_kept_whatever_is_sent(
    needs, harness, schema, create, declared, array
):
    needs(CanInsert)
    if (_name(declared), "lossless") in harness.lacks:
        with pytest.raises(BadRequest, match=r"column 'v' \("):
            create("t", [("v", declared)])
        return
    table = create("t", [("v", declared)])
    if harness.own_types:
        declared = table.info().schema.field("v").type
    insert(table, {"v": array})
    found = read(schema.load_table("t"), ("v",))
    assert found.schema.field("v").type == declared
    assert found.column("v").null_count == array.null_count
    plain = array.cast(declared, safe=False).to_pylist()
    assert found.column("v").to_pylist() == plain


def _name(kind: pa.DataType) -> str:
    """Return one of the types above that is refused where this one is."""
    if pa.types.is_nested(kind):
        return "INTEGER[]"
    return "TIMESTAMP_NS" if kind == pa.timestamp("ns") else ""
