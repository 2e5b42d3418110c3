"""The recorded traffic of the real DuckDB client, request by request.

The answers must have the form the client needs, mean what the recorded ones meant but for the
requests in DIFFERENT, and hold the rows that a local DuckDB gets from the same statements.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgpack
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import Scan
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.lakes import ready_lake
from tests.helpers.wire_calls import (
    Answer,
    as_bytes,
    read_rows,
    read_schema,
    read_stream,
    unpack,
    unpack_listing,
)
from tests.integration.replay.meanings import meaning
from tests.integration.replay.recordings import NOT_SENT, Rpc, flights_in, read_statements
from tests.integration.replay.replayed import (
    FUNCTIONS,
    MAIN,
    Played,
    assert_same_rows,
    functions_played,
    main_played,
)


class Different(NamedTuple):
    status: str
    why: str


# Every recorded request that gets another answer than recorded. Scans are not among them: filters
# and AT (VERSION => 3) leave rows out here and not there, and the recorded bodies are missing;
# a local DuckDB says below what their rows must be.
DIFFERENT: dict[str, dict[int, Different]] = {
    MAIN: {
        9: Different("ALREADY_EXISTS", "CREATE SCHEMA of a schema that is there"),
        131: Different("NOT_FOUND", "AT a time before the table existed"),
        133: Different("NOT_FOUND", "AT a time before the table existed"),
        134: Different("NOT_FOUND", "AT a time before the table existed"),
        135: Different(NOT_SENT, "there are no endpoints at that time"),
        299: Different("FAILED_PRECONDITION", "DROP SCHEMA of a schema with tables"),
        307: Different("NOT_FOUND", "DROP SCHEMA of a schema that is not there"),
        323: Different("OK", "the reference server failed"),
        338: Different("OK", "the reference server failed"),
    },
    FUNCTIONS: {
        12: Different("OK", "the reference server also has schemas of sample data"),
        90: Different("OK", "the reference server also has sample data and more functions"),
    },
}

# Recorded without the body of some answer, so that only our own answer can be judged. No request
# was recorded without its body.
WITHOUT_ANSWER = {
    MAIN: {
        *(47, 56, 61, 66, 71, 76, 81, 86, 91, 96, 101, 106, 111, 116, 121, 128, 135, 142, 149),
        *(156, 163, 170, 177, 184, 264),
    },
    FUNCTIONS: {35},
}

TABLE_NAME = re.compile(r"a\.(sales|lossless)\.(\w+)")


LAKE = pytest.param("lake", marks=pytest.mark.lake)


@pytest.fixture(scope="module", params=["sealed names", "names as recorded", LAKE])
def played(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("copy"))  # for COPY ... TO 'rec.csv'
        make = ready_lake if request.param == "lake" else MemoryCatalog
        with main_played(exact_names=request.param == "names as recorded", make=make) as run:
            yield run


@pytest.fixture(scope="module")
def functions() -> Iterator[Played]:
    with functions_played() as run:
        yield run


# ---- the form of the answers ----------------------------------------------------------------


def check_flight(rpc: Rpc, flight: pb.FlightInfo, catalog: str) -> None:
    about = unpack(flight.app_metadata)
    assert about["catalog"] == catalog
    assert about["type"] in ("table", "scalar_function", "table_function")
    assert isinstance(about["schema"], str)
    assert isinstance(about["name"], str)
    if rpc.method == "ListFlights" and about["type"] != "table":
        assert about["input_schema"]
    schema = read_schema(flight.schema)
    rowids = [f.name for f in schema if (f.metadata or {}).get(b"is_rowid")]
    assert rowids in ([], ["rowid"])
    assert rowids == schema.names[len(schema) - len(rowids) :], "rowid must stand last"
    path = flight.flight_descriptor.path
    assert flight.flight_descriptor.type == pb.FlightDescriptor.PATH
    assert all(part.isascii() and part.isprintable() for part in path)


def check_contents(contents: dict[str, Any]) -> None:
    assert set(contents) == {"sha256", "url", "serialized"}
    assert contents["url"] is None
    serialized = as_bytes(contents["serialized"])
    assert contents["sha256"] == hashlib.sha256(serialized).hexdigest()


def check_transaction(body: bytes) -> None:
    identifier = unpack(body)["identifier"]
    assert identifier
    assert identifier.isascii()
    assert identifier.isprintable()


def check_version(version: dict[str, Any]) -> None:
    assert type(version["catalog_version"]) is int
    assert type(version["is_fixed"]) is bool


def check_listing(body: bytes) -> None:
    listing = unpack_listing(body)
    assert listing["contents"] == {"sha256": "", "url": None, "serialized": None}
    check_version(listing["version_info"])
    for schema in listing["schemas"]:
        assert schema["name"]
        assert isinstance(schema["description"], str)
        assert isinstance(schema["tags"], dict)
        check_contents(schema["contents"])


def check_endpoints(body: bytes) -> None:
    endpoints = msgpack.unpackb(body, raw=True)
    assert endpoints
    for data in endpoints:
        endpoint = pb.FlightEndpoint.FromString(data)
        assert endpoint.ticket.ticket
        assert endpoint.location[0].uri == "arrow-flight-reuse-connection://?"


CHECKS = {
    "create_transaction": check_transaction,
    "catalog_version": lambda body: check_version(unpack(body)),
    "list_schemas": check_listing,
    "create_schema": lambda body: check_contents(unpack(body)),
    "endpoints": check_endpoints,
}


def check_answers(run: Played, catalog: str) -> None:
    for rpc in run.rpcs():
        answer = run.player.answers[rpc.n]
        if answer.status != "OK":
            continue
        if rpc.action in CHECKS:
            CHECKS[rpc.action](answer.body)
        for flight in flights_in(rpc, answer.messages):
            check_flight(rpc, flight, catalog)


def test_every_answer_has_the_form_the_client_needs(played: Played) -> None:
    check_answers(played, "cat")


def test_every_answer_about_functions_has_the_form_the_client_needs(functions: Played) -> None:
    check_answers(functions, "test1")


def test_flight_info_echoes_the_descriptor_it_was_asked_for(
    played: Played, functions: Played
) -> None:
    asked = 0
    for run in (played, functions):
        for rpc in run.rpcs():
            answer = run.player.answers[rpc.n]
            if rpc.action not in ("flight_info", "table_function_flight_info"):
                continue
            if answer.status == "OK":
                flight = pb.FlightInfo.FromString(answer.body)
                assert flight.flight_descriptor.SerializeToString() == run.player.asked[rpc.n]
                asked += 1
    assert asked == 2 + 9  # AT (VERSION) once each, and the functions


def test_a_scan_delivers_every_announced_column_with_its_type(
    played: Played, functions: Played
) -> None:
    for run in (played, functions):
        for rpc in run.rpcs():
            answer = run.player.answers[rpc.n]
            if rpc.method != "DoGet" or answer.status != "OK":
                continue
            _, announced = run.player.scanned[rpc.n]
            for stream in answer.streams:
                schema, _ = read_stream(stream)
                assert schema.equals(announced, check_metadata=True)
                check_progress(stream)


def check_progress(stream: list[bytes]) -> None:
    for message in stream:
        metadata = pb.FlightData.FromString(message).app_metadata
        if metadata:
            progress = unpack(metadata)
            assert list(progress) == ["progress"]
            assert 0 <= progress["progress"] <= 1


def exchanges(run: Played, *operations: str) -> Iterator[tuple[Rpc, list[pb.FlightData]]]:
    for rpc in run.rpcs():
        answer = run.player.answers[rpc.n]
        if rpc.method == "DoExchange" and rpc.header("airport-operation") in operations:
            assert answer.status == "OK", (rpc.n, answer.message)
            yield rpc, [pb.FlightData.FromString(message) for message in answer.messages]


def test_a_statement_answers_schema_first_then_batch_for_batch_then_the_count(
    played: Played,
) -> None:
    for rpc, answered in exchanges(played, "insert", "update", "delete"):
        sent = [pb.FlightData.FromString(m) for m in played.player.sent[rpc.n]]
        batches = sum(bool(data.data_header) for data in sent) - 1
        expected = batches if rpc.header("return-chunks") == "1" else 0
        assert [bool(data.data_header) for data in answered] == [True] * (1 + expected) + [False]
        assert not any(data.app_metadata for data in answered[:-1])
        assert set(unpack(answered[-1].app_metadata)) == {"total_changed"}


def test_returning_of_an_update_mirrors_the_columns_as_they_were_sent(played: Played) -> None:
    seen = 0
    for rpc, _ in exchanges(played, "update"):
        if rpc.header("return-chunks") == "1":
            sent, _ = read_stream(played.player.sent[rpc.n])
            answered, _ = read_stream(played.player.answers[rpc.n].messages)
            assert [(f.name, f.type) for f in answered] == [(f.name, f.type) for f in sent]
            seen += 1
    assert seen == 2


def test_the_rows_changed_are_those_the_scan_delivered(played: Played) -> None:
    """Send the recorded row ids as they are, for both servers count rows from 0."""
    for statement in played.statements:
        scans = [rpc for rpc in statement.rpcs if rpc.method == "DoGet"]
        for rpc in statement.rpcs:
            if rpc.header("airport-operation") in ("update", "delete"):
                delivered = read_rows(played.player.answers[scans[0].n])
                _, sent = read_stream(played.player.sent[rpc.n])
                changed = {i for batch in sent for i in batch.column("rowid").to_pylist()}
                assert changed <= set(delivered.column("rowid").to_pylist())


# ---- what the answers mean, compared with the recorded ones ---------------------------------


def test_only_the_listed_requests_are_answered_otherwise(played: Played) -> None:
    expected = {n: d.status for n, d in DIFFERENT[MAIN].items()}
    if not isinstance(played.catalog, MemoryCatalog):
        expected |= {35: "OK", 39: "OK"}  # INSERT RETURNING: a lake gives row ids when it commits
    assert differing(played, MAIN) == expected


def test_only_the_listed_requests_about_functions_are_answered_otherwise(
    functions: Played,
) -> None:
    expected = {n: d.status for n, d in DIFFERENT[FUNCTIONS].items()}
    assert differing(functions, FUNCTIONS) == expected


def differing(run: Played, name: str) -> dict[int, str]:
    found = {}
    for rpc in run.rpcs():
        answer = run.player.answers[rpc.n]
        if answer.status != rpc.status or not same_meaning(rpc, answer, name):
            found[rpc.n] = answer.status
    return found


def same_meaning(rpc: Rpc, answer: Answer, name: str) -> bool:
    if answer.status != "OK" or not has_recorded_answer(rpc, name):
        return True
    return bool(meaning(rpc, answer.messages) == meaning(rpc, recorded_messages(rpc)))


def recorded_messages(rpc: Rpc) -> list[bytes]:
    answered = [m for who, m in rpc.messages if who == "server"] or rpc.response
    return [message for message in answered if message is not None]


def has_recorded_answer(rpc: Rpc, name: str) -> bool:
    if rpc.method == "DoGet":
        return True  # the schema always is
    return rpc.n not in WITHOUT_ANSWER[name]


def test_the_answers_recorded_without_a_body_are_those_listed() -> None:
    for name, expected in WITHOUT_ANSWER.items():
        rpcs = [rpc for statement in read_statements(name) for rpc in statement.rpcs]
        answers = {
            r.n: [*r.response, *(m for who, m in r.messages if who == "server")] for r in rpcs
        }
        assert {n for n, messages in answers.items() if None in messages} == expected
        assert all(m is not None for r in rpcs for who, m in r.messages if who == "client")
        assert all(r.request or r.method in ("DoExchange", "ListFlights") for r in rpcs)


def test_a_scalar_function_answers_batches_whose_recorded_answer_is_missing(
    functions: Played,
) -> None:
    """Answer `SELECT test_add(t.j, 10) FROM (SELECT unnest(range(5000)) j) t`."""
    _, batches = read_stream(functions.player.answers[35].messages)
    assert [batch.num_rows for batch in batches] == [2048, 2048, 904]
    results = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert results == [i + 10 for i in range(5000)]


# ---- the rows, compared with those of a local DuckDB ----------------------------------------


def test_select_gives_the_rows_of_a_local_duckdb(played: Played) -> None:
    compared = 0
    for statement in played.statements:
        if statement.n not in played.selected:
            continue
        scans = {played.player.scanned[r.n][0]: r.n for r in statement.rpcs if r.method == "DoGet"}
        sql = TABLE_NAME.sub(r"got_\2", statement.sql)
        with played.local.cursor() as cursor:
            for name, n in scans.items():
                got = read_rows(played.player.answers[n])
                visible = got if "rowid" in sql else got.drop_columns("rowid")
                cursor.register(f"got_{name.name}", visible)
            rows = cursor.execute(sql).to_arrow_table()
        assert_same_rows(played.local, rows, played.selected[statement.n], statement.sql)
        compared += 1
    assert compared == 19


def test_returning_gives_the_rows_of_a_local_duckdb(played: Played) -> None:
    for statement in played.statements:
        if statement.n not in played.returned:
            continue
        (rpc,) = (rpc for rpc in statement.rpcs if rpc.method == "DoExchange")
        _, batches = read_stream(played.player.answers[rpc.n].messages)
        rows = pa.Table.from_batches(batches)
        if rpc.header("airport-operation") == "update":  # read by position
            rows = rows.rename_columns(read_stream(played.player.sent[rpc.n])[0].names)
        expected = played.returned[statement.n]
        rows = rows.select(expected.column_names)
        assert_same_rows(played.local, rows, expected, statement.sql)
    assert len(played.returned) == 6


def test_select_as_of_a_version_gives_the_rows_of_that_time(played: Played) -> None:
    """Answer `SELECT * FROM a.sales.orders AT (VERSION => 3)`."""
    rows = read_rows(played.player.answers[128])
    assert_same_rows(played.local, rows.drop_columns("rowid"), played.versions[3])
    assert rows.num_rows == 5


@pytest.mark.parametrize(
    "name",
    ["sales.orders", "sales.pairs", "sales.ctas1", "sales.ctas_empty", "sales.types0"]
    + ["sales.ctas_series", "ns.t"],
)
def test_tables_end_with_the_rows_of_a_local_duckdb(played: Played, name: str) -> None:
    schema, table = name.split(".")
    found = played.catalog.load_schema(schema).load_table(table)
    visible = tuple(found.info().schema.names)
    batches = list(found.scan(Scan(visible)))
    rows = pa.Table.from_batches(batches, schema=found.info().schema)
    assert_same_rows(played.local, rows, f"a.{name}")


def test_the_catalog_ends_with_the_tables_of_a_local_duckdb(played: Played) -> None:
    mine = {
        (schema.info().name, table.info().name)
        for schema in played.catalog.list_schemas()
        for table in schema.list_tables()
    }
    theirs = played.local.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'a'"
    ).fetchall()
    assert mine == set(theirs)
