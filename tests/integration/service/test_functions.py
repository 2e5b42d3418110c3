"""Functions of a schema: how they are told to the client, and what goes wrong with them.

That they answer what the client expects is shown by the recorded traffic in test_replay.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.service import Server
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.airport_functions import FUNCTIONS, Databases, WithFunctions
from tests.helpers.wire_calls import (
    Answer,
    Wire,
    as_bytes,
    batch_messages,
    pack,
    read_rows,
    read_schema,
    read_stream,
    schema_message,
    tickets_in,
    unpack,
)

HEADERS = [("airport-catalog", "cat"), ("airport-user-agent", "airport/20250723")]


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("plain"))
    catalog.load_schema("plain").create_table(CreateTable("t", pa.schema([("a", pa.int32())])))
    with Server({"cat": WithFunctions(catalog)}, port=0) as server:
        server.start()
        with Wire(server.location) as raw:
            yield raw


@pytest.fixture(scope="module")
def flights(wire: Wire) -> dict[str, pb.FlightInfo]:
    answer = wire.call("ListFlights", b"", HEADERS)
    found = [pb.FlightInfo.FromString(message) for message in answer.messages]
    return {unpack(flight.app_metadata)["name"]: flight for flight in found}


def descriptor(name: str, kind: str = "table_function", schema: str = "utils") -> bytes:
    path = ["cat", schema, kind, name]
    return pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=path).SerializeToString()


def arguments(**values: Any) -> bytes:
    """Return the one row of arguments as an IPC stream; a value may be an Arrow array."""
    arrays = [v if isinstance(v, pa.Array) else pa.array([v]) for v in values.values()]
    batch = pa.RecordBatch.from_arrays(arrays, list(values))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def int32(value: int) -> pa.Array:
    return pa.array([value], pa.int32())


def bind(wire: Wire, about: bytes, parameters: bytes, table: pa.Schema | None = None) -> Answer:
    body = {
        "descriptor": about,
        "parameters": parameters,
        "table_input_schema": table.serialize().to_pybytes() if table else "",
        "at_unit": "",
        "at_value": "",
    }
    return wire.action("table_function_flight_info", pack(body), HEADERS)


def endpoints(wire: Wire, about: bytes, parameters: bytes) -> Answer:
    asked = {"json_filters": "", "column_ids": [0], "table_function_parameters": parameters}
    body = {"descriptor": about, "parameters": asked}
    return wire.action("endpoints", pack(body), HEADERS)


def read(wire: Wire, about: bytes, parameters: bytes) -> Answer:
    answer = endpoints(wire, about, parameters)
    return wire.get(tickets_in(answer), HEADERS)


def call(
    wire: Wire, operation: str, about: bytes, *batches: pa.RecordBatch, metadata: bytes = b""
) -> Answer:
    exchange = wire.exchange([*HEADERS, ("airport-operation", operation), ("return-chunks", "1")])
    opening = pb.FlightData.FromString(schema_message(batches[0].schema, about))
    opening.app_metadata = metadata
    exchange.send(opening.SerializeToString())
    for batch in batches:
        for message in batch_messages(batch):
            exchange.send(message)
    exchange.half_close()
    return exchange.rest()


def in_out_metadata(parameters: bytes) -> bytes:
    return pack({"json_filters": "", "column_ids": [], "parameters": parameters})


NAMES = pa.RecordBatch.from_pydict({"name": ["Ada", None]})


# ---- told to the client ---------------------------------------------------------------------


def test_every_function_is_listed_with_its_signature(flights: dict[str, pb.FlightInfo]) -> None:
    assert flights.keys() == {"t", *(function.info().name for function in FUNCTIONS)}
    told = {}
    for name, flight in flights.items():
        about = unpack(flight.app_metadata)
        if about["type"] != "table":
            fields = read_schema(as_bytes(about["input_schema"]))
            told[name] = [(f.name, sorted(f.metadata or {})) for f in fields]
    any_type, named, table = [b"is_any_type"], [b"is_named_parameter"], [b"is_table_type"]
    assert told["test_add"] == [("a", []), ("b", [])]
    assert told["test_any_type"] == [("a", any_type)]
    assert told["test_table_in_out"] == [("input", []), ("table_input", table)]
    assert told["test_dynamic_schema_named_parameters"] == [
        ("name", []),
        ("location", named),
        ("input", any_type),
        ("city", []),
    ]


def test_a_scalar_function_tells_the_schema_it_will_answer_with(
    wire: Wire, flights: dict[str, pb.FlightInfo]
) -> None:
    """Announce the very schema: the client compares the two, and refuses any difference."""
    flight = flights["test_uppercase"]
    rows = pa.RecordBatch.from_pydict({"a": ["x"]})
    answer = call(wire, "scalar_function", flight.flight_descriptor.SerializeToString(), rows)
    schema, batches = read_stream(answer.messages)
    assert schema.equals(read_schema(flight.schema), check_metadata=True)
    assert [batch.to_pylist() for batch in batches] == [[{"result": "X"}]]
    about = unpack(flight.app_metadata)
    assert unpack(as_bytes(about["extra_data"])) == {"stability": "consistent"}


def test_a_function_is_found_by_its_sealed_and_by_its_plain_name_in_any_case(
    wire: Wire, flights: dict[str, pb.FlightInfo]
) -> None:
    sealed = flights["test_echo"].flight_descriptor.SerializeToString()
    for about in (sealed, descriptor("test_echo"), descriptor("TEST_Echo", schema="UTILS")):
        rows = read_rows(read(wire, about, arguments(input="hello")))
        assert rows.to_pylist() == [{"result": "hello"}]


def test_a_function_of_no_rows_still_answers_its_schema(wire: Wire) -> None:
    parameters = arguments(input="hello", count=int32(0))
    rows = read_rows(read(wire, descriptor("test_repeat"), parameters))
    assert rows.schema.names == ["result"]
    assert rows.num_rows == 0


def test_an_in_out_function_ends_with_a_finished_chunk_even_without_rows(wire: Wire) -> None:
    empty = NAMES.slice(0, 0)
    answer = call(
        wire,
        "table_function_in_out",
        descriptor("test_table_in_out_long"),
        empty,
        metadata=in_out_metadata(arguments()),
    )
    assert answer.status == "OK", answer.message
    marks = [pb.FlightData.FromString(message).app_metadata for message in answer.messages]
    assert marks[0] == b""
    assert marks[-1] == b"chunk_finished"
    _, batches = read_stream(answer.messages)
    assert sum(batch.num_rows for batch in batches) == 0


# ---- unknown --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "schema"), [("nope", "utils"), ("test_echo", "plain"), ("test_echo", "nope")]
)
def test_an_unknown_function_is_not_found_wherever_it_is_used(
    wire: Wire, name: str, schema: str
) -> None:
    missing = "schema" if schema == "nope" else "function"
    table = descriptor(name, schema=schema)
    scalar = descriptor(name, "scalar_function", schema)
    metadata = in_out_metadata(b"")
    answers = [
        bind(wire, table, arguments(input="x")),
        bind(wire, table, b"", NAMES.schema),
        read(wire, table, arguments(input="x")),
        call(wire, "scalar_function", scalar, NAMES),
        call(wire, "table_function_in_out", table, NAMES, metadata=metadata),
    ]
    assert [answer.status for answer in answers] == ["NOT_FOUND"] * 5
    assert all(missing in answer.message for answer in answers)


def test_a_function_of_another_kind_is_not_found(wire: Wire) -> None:
    scalar, table = descriptor("test_add", "scalar_function"), descriptor("test_echo")
    answers = [
        bind(wire, scalar, arguments(a=1, b=2)),
        bind(wire, table, arguments(input="x"), NAMES.schema),
        call(wire, "scalar_function", table, NAMES),
    ]
    assert [answer.status for answer in answers] == ["NOT_FOUND"] * 3


# ---- wrong arguments ------------------------------------------------------------------------


def test_arguments_that_are_no_arrow_stream_are_refused(wire: Wire) -> None:
    for broken in (b"nonsense", arguments(input="x")[:40]):
        answers = [
            bind(wire, descriptor("test_echo"), broken),
            read(wire, descriptor("test_echo"), broken),
        ]
        assert [answer.status for answer in answers] == ["INVALID_ARGUMENT"] * 2


def test_arguments_of_another_signature_are_refused_with_the_right_one(wire: Wire) -> None:
    wrong = bind(wire, descriptor("test_repeat"), arguments(input="x"))
    assert wrong.status == "INVALID_ARGUMENT"
    assert "test_repeat takes ['input', 'count']" in wrong.message
    rows = pa.RecordBatch.from_pydict({"a": [1]})
    too_few = call(wire, "scalar_function", descriptor("test_add", "scalar_function"), rows)
    assert too_few.status == "INVALID_ARGUMENT"
    assert "test_add takes 2 arguments, not 1" in too_few.message
    metadata = in_out_metadata(arguments(other="x"))
    in_out = call(
        wire,
        "table_function_in_out",
        descriptor("test_table_in_out"),
        NAMES,
        metadata=metadata,
    )
    assert in_out.status == "INVALID_ARGUMENT"
    assert "test_table_in_out takes ['input']" in in_out.message


def test_an_input_table_that_is_no_arrow_schema_is_refused(wire: Wire) -> None:
    body = {
        "descriptor": descriptor("test_table_in_out"),
        "parameters": arguments(input="x"),
        "table_input_schema": "nonsense",
    }
    answer = wire.action("table_function_flight_info", pack(body), HEADERS)
    assert answer.status == "INVALID_ARGUMENT"
    assert "table_input_schema" in answer.message


def test_an_in_out_call_without_its_opening_metadata_is_refused(wire: Wire) -> None:
    for metadata in (b"", b"nonsense"):
        about = descriptor("test_table_in_out")
        answer = call(wire, "table_function_in_out", about, NAMES, metadata=metadata)
        assert answer.status == "INVALID_ARGUMENT"
        assert "table_function_in_out" in answer.message


def test_an_overflow_inside_a_function_is_one_line_without_a_traceback(wire: Wire) -> None:
    rows = pa.RecordBatch.from_pydict({"a": [2**63 - 1], "b": [1]})
    answer = call(wire, "scalar_function", descriptor("test_add", "scalar_function"), rows)
    assert answer.status == "INTERNAL"
    assert "Traceback" not in answer.message
    assert "\n" not in answer.message
    assert len(answer.messages) == 1, "the schema went out before"


def test_a_wrong_argument_reaches_duckdb_as_its_own_exception(wire: Wire) -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1]})
    answer = call(wire, "scalar_function", descriptor("test_add", "scalar_function"), rows)
    details = unpack(answer.trailers["grpc-status-details-bin"])
    assert details["exception_type"] == "InvalidInputException"
    assert details["message"] == answer.message


# ---- own actions ----------------------------------------------------------------------------


def test_own_actions_are_listed_and_may_add_and_forget_catalogs() -> None:
    databases = Databases()
    with Server(databases, port=0, actions=databases.actions()) as server:
        server.start()
        with Wire(server.location) as wire:
            listed = wire.call("ListActions", b"")
            actions = [pb.ActionType.FromString(message) for message in listed.messages]
            described = {action.type: action.description for action in actions}
            assert described["create_database"] == "Add an empty database of that name."
            sent = [("airport-catalog", "one")]
            assert wire.action("catalog_version", {}, sent).status == "NOT_FOUND"
            assert wire.action("create_database", b"one").status == "OK"
            assert wire.action("catalog_version", {}, sent).status == "OK"
            assert wire.action("reset", b"").status == "OK"
            assert wire.action("catalog_version", {}, sent).status == "NOT_FOUND"
            unknown = wire.action("drop_database", b"one")
            assert unknown.status == "UNIMPLEMENTED"
            assert "drop_database" in unknown.message
