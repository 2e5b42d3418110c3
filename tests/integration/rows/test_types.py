"""Every type of DuckDB through the server and back, as DuckDB itself exports it to Arrow.

DuckDB exports a type in one of two ways, by its setting `arrow_lossless_conversion`. A table made
in one way takes rows sent in either, and gives them back as it was made.
"""

from collections.abc import Iterator
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import SchemaInfo
from jetbridge.service import Server
from tests.helpers.wire_calls import Wire, pack, unpack
from tests.integration.rows.type_cases import (
    CASES,
    HEADERS,
    LOSSLESS,
    MIXED_WAYS,
    NAMES,
    PLAIN,
    SAME_WAYS,
    TWO_WAYS,
    Case,
    assert_same_rows,
    create,
    export,
    returned,
    run,
    scan,
    values_for,
)

# Case, how the table was made, how the rows are sent.
COMBINATIONS = [
    pytest.param(case, made, sent, id=f"{case.type}, made {NAMES[made]}, sent {NAMES[sent]}")
    for case in CASES
    for made, sent in (*SAME_WAYS, *(MIXED_WAYS if case.type in TWO_WAYS else ()))
]


@pytest.fixture(scope="module")
def local() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'Etc/UTC'")
        yield connection


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("s"))
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as raw:
            yield raw


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "made", "sent"), COMBINATIONS)
def test_every_value_comes_back_equal(
    wire: Wire, local: duckdb.DuckDBPyConnection, case: Case, made: bool, sent: bool
) -> None:
    values = values_for(case, made, sent)
    expected = export(local, case.type, values, made)
    create(wire, "every", expected.schema)
    answer = run(wire, "insert", "every", export(local, case.type, values, sent))
    assert answer.status == "OK", answer.message
    rows = scan(wire, "every")
    is_enum = pa.types.is_dictionary(expected.schema.field("c").type)
    wanted = pa.string() if is_enum else expected.schema.field("c").type
    assert rows.schema.field("c").type == wanted
    assert rows.schema.names == ["n", "c", "rowid"]
    assert_same_rows(local, rows, pa.Table.from_batches([expected]))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_lossless_rows_are_the_values_they_were_written_as(
    wire: Wire, local: duckdb.DuckDBPyConnection, case: Case
) -> None:
    """Compare with the SQL values themselves, not with what DuckDB makes of them in Arrow."""
    values = values_for(case, LOSSLESS)
    sent = export(local, case.type, values, LOSSLESS)
    create(wire, "written", sent.schema)
    assert run(wire, "insert", "written", sent).status == "OK"
    rows = ", ".join(f"({n}, CAST({value} AS {case.type}))" for n, value in enumerate(values))
    with local.cursor() as cursor:
        cursor.register("got", scan(wire, "written"))
        cursor.execute(f"CREATE OR REPLACE TEMP TABLE written AS FROM (VALUES {rows}) t(n, c)")
        back = f"SELECT n, CAST(c AS {case.type}) AS c FROM got"
        sql = f"({back} EXCEPT ALL FROM written) UNION ALL (FROM written EXCEPT ALL {back})"
        assert cursor.execute(f"SELECT count(*) FROM ({sql})").fetchone() == (0,)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "made", "sent"), COMBINATIONS)
def test_every_type_is_returned_and_updated(
    wire: Wire, local: duckdb.DuckDBPyConnection, case: Case, made: bool, sent: bool
) -> None:
    values = values_for(case, made, sent)
    turned = (*values[1:], values[0])
    before, after = (
        pa.Table.from_batches([export(local, case.type, v, made)]) for v in (values, turned)
    )
    create(wire, "changed", before.schema)
    rows = export(local, case.type, values, sent)
    inserted = returned(run(wire, "insert", "changed", rows, returning=True))
    change = export(local, case.type, turned, sent).select(["c"])
    rowids = inserted.column("rowid").combine_chunks()
    batch = change.append_column("rowid", rowids)
    changed = returned(run(wire, "update", "changed", batch, returning=True))
    assert changed.schema.names == ["c", "rowid"]
    stored = scan(wire, "changed")
    gone = pa.RecordBatch.from_arrays([rowids], ["rowid"])
    deleted = returned(run(wire, "delete", "changed", gone, returning=True))
    assert scan(wire, "changed").num_rows == 0
    numbered = changed.append_column("n", before.column("n"))
    assert_same_rows(
        local,
        tagged([inserted, numbered, stored, deleted]),
        tagged([before, after, after, after]),
        "tag, n, c",
    )


def tagged(tables: list[pa.Table]) -> pa.Table:
    """Return all in one, each row with the number of its table; ENUM as it comes back."""
    parts = []
    for number, table in enumerate(tables):
        kind = table.schema.field("c").type
        column = table.column("c")
        if pa.types.is_dictionary(kind):
            column = column.cast(pa.string())
        field = table.schema.field("c").with_type(column.type)
        schema = pa.schema([("tag", pa.int32()), ("n", pa.int32()), field])
        tags = pa.array([number] * table.num_rows, pa.int32())
        parts.append(pa.Table.from_arrays([tags, table.column("n"), column], schema=schema))
    return pa.concat_tables(parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_a_column_of_every_type_may_hold_only_nulls(
    wire: Wire, local: duckdb.DuckDBPyConnection, case: Case
) -> None:
    sent = export(local, case.type, ("NULL", "NULL"), PLAIN)
    create(wire, "nulls", sent.schema)
    assert run(wire, "insert", "nulls", sent).status == "OK"
    assert_same_rows(local, scan(wire, "nulls"), pa.Table.from_batches([sent]))


def test_the_types_that_are_exported_in_two_ways_are_those_listed(
    local: duckdb.DuckDBPyConnection,
) -> None:
    differing = {
        case.type
        for case in CASES
        if not export(local, case.type, ("NULL",), PLAIN).schema.equals(
            export(local, case.type, ("NULL",), LOSSLESS).schema
        )
    }
    assert differing == TWO_WAYS


# ---- other spellings of the same values -----------------------------------------------------

UTC = pa.timestamp("us", tz="UTC")
ETC_UTC = pa.timestamp("us", tz="Etc/UTC")

SPELLINGS: dict[str, tuple[pa.DataType, pa.Array]] = {
    "tz=Etc/UTC for tz=UTC": (UTC, pa.array([0, None, 10**15], ETC_UTC)),
    "another zone for tz=UTC": (UTC, pa.array([0, 1], pa.timestamp("us", tz="Asia/Tokyo"))),
    "string for large_string": (pa.large_string(), pa.array(["a", None, "é"])),
    "string for string_view": (pa.string_view(), pa.array(["a", None, "é"])),
    "string for dictionary": (pa.dictionary(pa.uint8(), pa.string()), pa.array(["a", None])),
    "dictionary for string": (pa.string(), pa.array(["a", None, "a"]).dictionary_encode()),
    "large_string for string": (pa.string(), pa.array(["a", None], pa.large_string())),
    "string_view for string": (pa.string(), pa.array(["a", None], pa.string_view())),
    "binary for large_binary": (pa.large_binary(), pa.array([b"\xaa", None])),
    "list child l for item": (
        pa.list_(pa.field("item", pa.int32())),
        pa.array([[1, None], []], pa.list_(pa.field("l", pa.int32()))),
    ),
    "large_list for list": (
        pa.list_(pa.field("l", pa.int32())),
        pa.array([[1, None], []], pa.large_list(pa.int32())),
    ),
    "fixed-size list child without a name": (
        pa.list_(pa.field("item", pa.int32()), 2),
        pa.array([[1, 2], None], pa.list_(pa.field("", pa.int32()), 2)),
    ),
    "int32 for int64": (pa.int64(), pa.array([1, None], pa.int32())),
    "int64 that fits for int8": (pa.int8(), pa.array([127, -128], pa.int64())),
    "decimal of another width": (
        pa.decimal128(12, 2),
        pa.array([None, 1], pa.decimal128(38, 0)),
    ),
    "microseconds for nanoseconds": (
        pa.timestamp("ns"),
        pa.array([0, 1], pa.timestamp("us")),
    ),
    "null for anything": (pa.int32(), pa.nulls(3)),
}


@pytest.mark.parametrize("what", SPELLINGS)
def test_values_are_taken_by_value_in_any_spelling(
    wire: Wire, local: duckdb.DuckDBPyConnection, what: str
) -> None:
    kind, values = SPELLINGS[what]
    numbers = pa.array(range(len(values)), pa.int32())
    create(wire, "spelled", pa.schema([("n", pa.int32()), ("c", kind)]))
    sent = pa.RecordBatch.from_arrays([numbers, values], ["n", "c"])
    answer = run(wire, "insert", "spelled", sent)
    assert answer.status == "OK", answer.message
    with local.cursor() as cursor:
        cursor.register("sent", sent)
        cursor.register("got", scan(wire, "spelled"))
        known = cursor.execute("SELECT typeof(c) FROM got LIMIT 1").fetchone()
        assert known
        cast = f"SELECT n, CAST(c AS {known[0]}) FROM sent"
        for one, other in ((cast, "SELECT n, c FROM got"), ("SELECT n, c FROM got", cast)):
            assert cursor.execute(f"{one} EXCEPT ALL {other}").fetchall() == []


def test_a_dictionary_that_grows_between_batches_is_understood(wire: Wire) -> None:
    """Send ENUM values in later batches, which refer to dictionaries sent before."""
    kind = pa.dictionary(pa.uint8(), pa.string())
    create(wire, "grown", pa.schema([("c", kind)]))
    batches = [
        pa.RecordBatch.from_arrays([pa.array(values).dictionary_encode().cast(kind)], ["c"])
        for values in (["a", "b"], ["b", None, "c"])
    ]
    answer = run(wire, "insert", "grown", *batches)
    assert answer.status == "OK", answer.message
    assert scan(wire, "grown").column("c").to_pylist() == ["a", "b", "b", None, "c"]


# ---- impossible casts -----------------------------------------------------------------------


class Impossible(NamedTuple):
    column: str
    sent: str
    values: tuple[str, ...]
    row: int


IMPOSSIBLE = (
    Impossible("INTEGER", "VARCHAR", ("'1'", "'x'", "'y'"), 1),
    Impossible("TINYINT", "INTEGER", ("1", "NULL", "300"), 2),
    Impossible("UTINYINT", "INTEGER", ("-1",), 0),
    Impossible("INTEGER", "DOUBLE", ("1", "1.5"), 1),
    Impossible("DECIMAL(4,2)", "DECIMAL(12,2)", ("1", "12345.67"), 1),
    Impossible("DATE", "VARCHAR", ("'2026-01-01'", "'tomorrow'"), 1),
    Impossible("TIMESTAMP", "VARCHAR", ("'noon'",), 0),
    Impossible("UUID", "VARCHAR", ("NULL", "'not a uuid'"), 1),
    Impossible("JSON", "VARCHAR", ("'{}'", "'{'"), 1),
    Impossible("BOOLEAN", "VARCHAR", ("'true'", "'maybe'"), 1),
    Impossible("TINYINT[]", "INTEGER[]", ("[1]", "[1, 1000]"), 1),
    Impossible("STRUCT(x INTEGER)", "STRUCT(y INTEGER)", ("{'y': 1}",), 0),
    Impossible("INTEGER[3]", "INTEGER[2]", ("[1, 2]",), 0),
    Impossible("INTEGER", "DATE", ("'2026-01-01'",), 0),
)


@pytest.mark.parametrize("case", IMPOSSIBLE, ids=lambda case: f"{case.column} from {case.sent}")
@pytest.mark.parametrize("returning", [False, True], ids=["", "returning"])
def test_an_impossible_cast_is_refused_with_row_and_column(
    wire: Wire, local: duckdb.DuckDBPyConnection, case: Impossible, returning: bool
) -> None:
    create(wire, "refused", export(local, case.column, ("NULL",), LOSSLESS).schema)
    sent = export(local, case.sent, case.values, PLAIN)
    answer = run(wire, "insert", "refused", sent, returning=returning)
    assert answer.status == "INVALID_ARGUMENT", answer.message
    assert "column 'c'" in answer.message
    assert f"row {case.row}" in answer.message
    details = unpack(answer.trailers["grpc-status-details-bin"])
    assert details["exception_type"] == "InvalidInputException"
    assert scan(wire, "refused").num_rows == 0


def test_the_row_of_an_impossible_cast_is_counted_over_all_batches(
    wire: Wire, local: duckdb.DuckDBPyConnection
) -> None:
    create(wire, "counted", export(local, "INTEGER", ("NULL",), LOSSLESS).schema)
    good = export(local, "VARCHAR", ("'1'", "'2'", "'3'"), PLAIN)
    bad = export(local, "VARCHAR", ("'4'", "'five'"), PLAIN)
    answer = run(wire, "insert", "counted", good, bad)
    assert answer.status == "INVALID_ARGUMENT"
    assert "column 'c'" in answer.message
    assert "row 4" in answer.message
    assert scan(wire, "counted").num_rows == 0


def test_an_impossible_cast_in_an_update_changes_nothing(
    wire: Wire, local: duckdb.DuckDBPyConnection
) -> None:
    rows = export(local, "TINYINT", ("1", "2"), PLAIN)
    create(wire, "kept", rows.schema)
    rowids = returned(run(wire, "insert", "kept", rows, returning=True)).column("rowid")
    change = export(local, "INTEGER", ("3", "400"), PLAIN).select(["c"])
    batch = change.append_column("rowid", rowids.combine_chunks())
    answer = run(wire, "update", "kept", batch)
    assert answer.status == "INVALID_ARGUMENT"
    assert "column 'c'" in answer.message
    assert "row 1" in answer.message
    assert_same_rows(local, scan(wire, "kept"), pa.Table.from_batches([rows]))


def test_a_hugeint_of_39_digits_is_refused_unless_sent_lossless(
    wire: Wire, local: duckdb.DuckDBPyConnection
) -> None:
    """Refuse the plain export of DuckDB, which falsely says DECIMAL(38,0)."""
    sent = export(local, "HUGEINT", ("1", f"'{2**127 - 1}'"), PLAIN)
    create(wire, "huge", sent.schema)
    answer = run(wire, "insert", "huge", sent)
    assert answer.status == "INVALID_ARGUMENT"
    assert "precision" in answer.message
    assert scan(wire, "huge").num_rows == 0


def test_a_column_that_duckdb_cannot_read_is_refused_when_the_table_is_made(wire: Wire) -> None:
    schema = pa.schema([("c", pa.float16())])
    body = {
        "schema_name": "s",
        "table_name": "half",
        "arrow_schema": schema.serialize().to_pybytes(),
    }
    answer = wire.action("create_table", pack(body), HEADERS)
    assert answer.status == "INVALID_ARGUMENT"
    assert "'c'" in answer.message
