"""Arguments of functions that cannot be read are INVALID_ARGUMENT, with the reason."""

import grpc
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.errors import BadRequest
from jetbridge.service import Server
from jetbridge.wire.arrow_input import read_arguments
from tests.helpers.airport_functions import WithFunctions
from tests.helpers.raw import Raw, descriptor, opening, pack, said
from tests.security.input.corpus import stream

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def caller():
    with Server({"c": WithFunctions(MemoryCatalog())}, port=0) as server:
        server.start()
        with Raw(server.location, ("airport-catalog", "c")) as raw:
            yield raw


def packed(**arguments: object) -> bytes:
    return stream(pa.record_batch(arguments), None, copies=1)


UNREADABLE = {
    "noise": b"\x01" * 100,
    "cut": packed(input=["a"], count=pa.array([1], pa.int32()))[:300],
    "schema only": packed(input=["a"])[:8],
    "no rows": packed(input=pa.array([], pa.string())),
    "two rows": packed(input=["a", "b"]),
    "two batches": stream(pa.record_batch({"input": ["a"]}), None, copies=2),
    "number for a list": packed(input=["a"], count=pa.array([[1]])),
    "too large a number": packed(input=["a"], count=pa.array([2**40])),
    "text for a number": packed(input=["a"], count=["many"]),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_arguments_that_cannot_be_read_are_refused(caller, name):
    about = descriptor("c", "utils", "table_function", "test_repeat").SerializeToString()
    request = {"descriptor": about, "parameters": UNREADABLE[name]}
    with pytest.raises(grpc.RpcError) as bound:
        caller.action("table_function_flight_info", request)
    parameters = {"table_function_parameters": UNREADABLE[name]}
    (end,) = caller.endpoints(
        descriptor("c", "utils", "table_function", "test_repeat"), **parameters
    )
    with pytest.raises(grpc.RpcError) as read:
        caller.get(end.ticket)
    for error in (bound, read):
        assert error.value.code() is INVALID
        assert "argument" in said(error)


def test_arguments_come_as_the_function_declares_them(caller):
    """Settings of a client can make views of strings, and int32 of smaller numbers."""
    arguments = packed(input=pa.array(["again"], pa.string_view()), count=pa.array([2], pa.int64()))
    about = descriptor("c", "utils", "table_function", "test_repeat")
    (end,) = caller.endpoints(about, table_function_parameters=arguments)
    assert caller.get(end.ticket).rows == [{"result": "again"}] * 2


@pytest.mark.parametrize("parameters", [UNREADABLE["noise"], UNREADABLE["two rows"]])
def test_arguments_of_a_function_over_a_table_are_read_alike(caller, parameters):
    path = ("c", "utils", "table_function", "test_table_in_out")
    first = opening(path, pa.schema([("a", pa.string())]))
    about = pack({"json_filters": "", "column_ids": [], "parameters": parameters})
    sent = [first + b"\x1a" + bytes([len(about) & 0x7F | 0x80, len(about) >> 7]) + about]
    headers = (("airport-operation", "table_function_in_out"), ("return-chunks", "1"))
    with pytest.raises(grpc.RpcError) as error:
        list(caller.both_ways("DoExchange", sent, *headers))
    assert error.value.code() is INVALID
    assert "argument" in said(error)


@pytest.mark.parametrize(
    "argument", [pa.array([1]), pa.array([None], pa.string()), pa.array([2**31 - 1]).cast("date64")]
)
def test_run_refuses_other_arguments_than_a_text(raw, argument):
    about = descriptor("memory", "jetbridge", "table_function", "run").SerializeToString()
    request = {"descriptor": about, "parameters": packed(sql=argument)}
    with pytest.raises(grpc.RpcError) as error:
        raw.action("table_function_flight_info", request)
    assert error.value.code() is INVALID


def test_without_arguments_there_are_no_columns():
    for data in (b"", stream(pa.record_batch({"a": [1]}).select([]), None)):
        assert read_arguments(data).num_columns == 0
    with pytest.raises(BadRequest, match="must be one row, not 2"):
        read_arguments(UNREADABLE["two rows"])
