"""Packets and logins in their smallest parts; requests that are not well-formed."""

import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from standins.tds.server import Server
from standins.tds.tests import recordings
from standins.tds.tests.answer_tokens import Answered
from standins.tds.tests.recordings import Player
from standins.tds.tests.replayed import ReplayEngine
from standins.tds.values import Column, Parameter, SqlType
from standins.tds.wire import login, packets, prelogin
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.reader import Reader, TooShort, after_headers
from standins.tds.wire.encoding.tokens import Done, Token
from standins.tds.wire.encoding.wire_types import of_type, type_info
from standins.tds.wire.encoding.wire_values import encode_value
from standins.tds.wire.packets import BadPacket, Kind, Packet, Status, Unpacker, cut, packet
from standins.tds.wire.prelogin import Answer, Encryption
from standins.tds.wire.requests import rpc


@pytest.mark.parametrize("size", [512, 4096, 32767])
@pytest.mark.parametrize("length", [0, 1, 503, 504, 505, 4088, 4089, 100_000])
def test_message_is_cut_and_put_together(size, length):
    payload = random.Random(length).randbytes(length)
    made = list(cut(Kind.ANSWER, payload, size, spid=51))
    assert all(len(each) <= size for each in made)
    assert all(len(each) == size for each in made[:-1])
    found = Unpacker().feed(b"".join(made))
    assert b"".join(each.payload for each in found) == payload
    assert [each.ends for each in found] == [False] * (len(found) - 1) + [True]
    assert [each[6] for each in made] == [(i + 1) & 0xFF for i in range(len(made))]
    assert {each[4:6] for each in made} == {b"\x00\x33"}


def test_packets_come_whole_however_the_bytes_do():
    dice = random.Random(7)
    data = b"".join(cut(Kind.BULK, dice.randbytes(5000), 600)) + b"".join(
        cut(Kind.BATCH, b"x", 512)
    )
    unpacker, found, at = Unpacker(), [], 0
    while at < len(data):
        step = dice.randint(1, 700)
        found += unpacker.feed(data[at : at + step])
        at += step
    assert found == Unpacker().feed(data)
    assert not unpacker.within


def test_length_shorter_than_a_header_is_no_packet():
    with pytest.raises(BadPacket):
        Unpacker().feed(bytes([1, 1, 0, 7, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("asked", "agreed"), [(0, 4096), (1, 512), (512, 512), (8192, 8192), (40_000, 32_767)]
)
def test_packet_size_is_agreed(asked, agreed):
    assert packets.agreed_size(asked) == agreed


@pytest.mark.parametrize(
    ("server", "answers"),
    [(Encryption.NONE, [2, 2, 2, 2]), (Encryption.LOGIN, [0, 1, 2, 1]),
        (Encryption.REQUIRED, [3, 1, 3, 1])],
)  # fmt: skip
def test_encryption_is_agreed_as_the_protocol_says(server, answers):
    asked = [{int(prelogin.Option.ENCRYPTION): bytes([each])} for each in range(4)]
    assert [prelogin.agree(server, each) for each in asked] == answers


def test_prelogin_is_read_as_it_is_written():
    options = prelogin.parse(prelogin.answer(Answer.ON))
    assert options[prelogin.Option.ENCRYPTION] == b"\x01"
    assert options[prelogin.Option.VERSION].hex() == "100003e80000"
    assert prelogin.parse(prelogin.render(options)) == options


def logins() -> Iterator[tuple[str, login.Login]]:
    for name in ("01c_connect_pycore", "01_connect_odbc", "09a_pytds", "09b_pymssql"):
        for request in recordings.load(name).requests(1):
            if request.kind == Kind.LOGIN:
                yield name, login.parse(request.payload)


def test_recorded_logins_are_understood():
    found = dict(logins())
    assert {each.user for each in found.values()} == {"rec"}
    assert {each.database for each in found.values()} == {"tdsdb"}
    assert found["01c_connect_pycore"].application == "mssql-python"
    assert found["01c_connect_pycore"].packet_size == 4096
    assert found["01c_connect_pycore"].server == "127.0.0.1,14330"
    assert found["01_connect_odbc"].library == "ODBC"
    assert found["01_connect_odbc"].packet_size == 0
    assert set(found["01_connect_odbc"].features) == {0x10, 0x01, 0x09, 0x0A, 0x0B}
    assert found["01_connect_odbc"].features[0x09] == b"\x01"
    assert found["09a_pytds"].features == {}
    assert all(set(each.password) == {"x"} for each in found.values())
    assert "xxx" not in repr(found["09a_pytds"])


def test_utf8_is_acknowledged_where_asked_for():
    found = dict(logins())
    asked = login.accepted(found["01_connect_odbc"], "tdsdb")
    unasked = login.accepted(found["09a_pytds"], "tdsdb")
    assert asked.endswith(bytes.fromhex("ae 0a 01000000 01 ff") + tokens.done(0))
    assert unasked == asked.replace(bytes.fromhex("ae 0a 01000000 01 ff"), b"")


@pytest.fixture
def player() -> Iterator[Player]:
    recording = recordings.load("01c_connect_pycore")
    engine = ReplayEngine(recording)
    with Server(engine, encryption=Encryption.NONE) as server, Player(server.port) as connected:
        connected.log_in(recording)
        yield connected


def done(answer: tuple[Answered, ...]) -> list[tuple[Token, int]]:
    return [(each.token, each.status) for each in answer if "status" in each.data]


def test_message_that_is_taken_back_is_ignored(player):
    head = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
    player.send(packet(Kind.BATCH, 0, head + "RAISE".encode("utf-16-le"), 1))
    player.send(packet(Kind.BATCH, Status.END | Status.IGNORE, b"", 2))
    assert done(player.read()) == [(Token.DONE, Done.ERROR)]
    player.send_batch("SELECT 1")
    assert done(player.read()) == [(Token.DONE, Done.COUNT)]


def test_attention_with_nothing_under_way_is_answered(player):
    player.send(packet(Kind.ATTENTION, Status.END, b"", 1))
    assert done(player.read()) == [(Token.DONE, Done.ATTENTION)]


def test_attention_in_an_unfinished_request_ends_it(player):
    head = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
    player.send(packet(Kind.BATCH, 0, head + b"S\0", 1))
    player.send(packet(Kind.ATTENTION, Status.END, b"", 1))
    assert done(player.read())[-1] == (Token.DONE, Done.ATTENTION)
    player.send_batch("SELECT 1")
    assert done(player.read()) == [(Token.DONE, Done.COUNT)]


def test_attention_right_behind_its_request_cancels_it():
    """It may come before the statement has begun to run."""
    recording = recordings.load("01c_connect_pycore")
    engine = ReplayEngine(recording)
    engine.script["forever"] = lambda session, *_: session._wait("20", ())
    attention = packet(Kind.ATTENTION, Status.END, b"", 1)
    head = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
    batch = packet(Kind.BATCH, Status.END, head + "forever".encode("utf-16-le"), 1)
    with Server(engine, encryption=Encryption.NONE) as server, Player(server.port) as player:
        player.log_in(recording)
        for _ in range(50):
            player.send(batch + attention)
            assert done(player.read())[-1] == (Token.DONE, Done.ATTENTION)


def test_connection_that_is_reset_says_so_first(player):
    head = struct.pack("<IIHQI", 22, 18, 2, 0, 1)
    text = "SELECT 1".encode("utf-16-le")
    player.send(packet(Kind.BATCH, Status.END | Status.RESET, head + text, 1))
    first, *_ = player.read()
    assert (first.token, first.kind) == (Token.ENV_CHANGE, 18)


def test_request_with_a_stale_transaction_is_refused(player):
    head = struct.pack("<IIHQI", 22, 18, 2, 12345, 1)
    text = "SELECT 1".encode("utf-16-le")
    player.send(packet(Kind.BATCH, Status.END, head + text, 1))
    (error, end) = player.read()
    assert (error.token, error.number) == (Token.ERROR, 3989)
    assert end.status == Done.ERROR


def rpc_message(*parts: bytes) -> bytes:
    return struct.pack("<IIHQI", 22, 18, 2, 0, 1) + b"".join(parts)


def call(name: str, *arguments: tuple[str, SqlType, Any, int]) -> bytes:
    """A call by name; the arguments with their names, types, values and status."""
    made = struct.pack("<H", len(name)) + name.encode("utf-16-le") + b"\0\0"
    for argument, kind, value, status in arguments:
        wire = of_type(kind)
        made += tokens.short_text(argument) + bytes([status])
        made += type_info(wire) + encode_value(wire, value)
    return made


TEXT = SqlType("nvarchar")


def test_parameters_are_bound_by_name_and_in_order(player):
    statement = ("@stmt", TEXT, "SELECT @b, @a", 0), ("", TEXT, "@a int, @b int", 0)
    one = call(
        "sp_executesql", *statement, ("@b", SqlType("int"), 2, 0), ("@a", SqlType("int"), 1, 0)
    )
    two = call("SP_ExecuteSql", *statement, ("", SqlType("int"), 3, 0), ("", SqlType("int"), 4, 0))
    player.send(b"".join(cut(Kind.RPC, rpc_message(one, b"\xff", two), 4096)))
    answer = player.read()
    assert [each.values for each in answer if each.token is Token.ROW] == [(1, 2), (3, 4)]
    ends = [each for each in done(answer) if each[0] is Token.DONE_PROC]
    assert ends == [(Token.DONE_PROC, Done.MORE), (Token.DONE_PROC, 0)]


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ([("", TEXT, "SELECT @a", 0), ("", TEXT, "@a int", 0)], 8178),
        ([("", TEXT, "SELECT 1", 0), ("", TEXT, "", 0), ("", SqlType("int"), 1, 0)], 8144),
        ([("", TEXT, None, 0)], 214),
        ([("", TEXT, "x", 0), ("", TEXT, "nonsense", 0)], 102),
        ([("", TEXT, "x", 0), ("", TEXT, "", 0), *[("", SqlType("bit"), True, 0)] * 2099], 8003),
    ],
)
def test_call_that_cannot_be_made_is_an_error_of_its_own(player, arguments, number):
    wrong = call("sp_executesql", *arguments)
    right = call("sp_executesql", ("", TEXT, "SELECT 1", 0))
    player.send(b"".join(cut(Kind.RPC, rpc_message(wrong, b"\xff", right), 4096)))
    answer = player.read()
    assert [each.number for each in answer if each.token is Token.ERROR] == [number]
    ends = [each for each in done(answer) if each[0] is Token.DONE_PROC]
    assert ends == [(Token.DONE_PROC, Done.ERROR | Done.MORE), (Token.DONE_PROC, 0)]


def test_handle_that_was_never_given_is_not_found(player):
    unknown = call("sp_execute", ("", SqlType("int"), 99, 0))
    player.send(b"".join(cut(Kind.RPC, rpc_message(unknown), 4096)))
    assert [each.number for each in player.read() if each.token is Token.ERROR] == [8179]


def test_value_that_is_none_of_its_type_is_refused(player):
    wrong = call("sp_executesql", ("", TEXT, "SELECT @a", 0), ("", TEXT, "@a date", 0))
    wrong += b"\0\0" + b"\x28\x03\xff\xff\xff"
    player.send(b"".join(cut(Kind.RPC, rpc_message(wrong), 4096)))
    (error, end) = player.read()
    assert error.number == 8023
    assert "Parameter 3" in error.text
    assert (end.token, end.status) == (Token.DONE_PROC, Done.ERROR)


def test_output_parameters_come_back_with_their_place_and_type():
    given = Parameter("@n", SqlType("nvarchar"), None, True)
    (value,) = [tokens.return_value(3, given, "☃")]
    assert value.hex().startswith(
        "ac0300" + "02" + "40006e00" + "01" + "00000000" + "0000" + "e7ffff"
    )


def test_rows_without_an_insert_bulk_are_refused(player):
    columns = tokens.columns([Column("i", SqlType("int"))])
    player.send(b"".join(cut(Kind.BULK, columns + bytes([0xFD]) + bytes(8), 4096)))
    assert [each.number for each in player.read() if each.token is Token.ERROR] == [4002]


def test_bytes_that_are_no_tds_end_the_connection_and_nothing_else():
    with Server(ReplayEngine(recordings.load("01c_connect_pycore"))) as server:
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(100),
            packet(Kind.PRELOGIN, 1, b"\xff", 1) + packet(Kind.LOGIN, 1, bytes(100), 1),
            packet(Kind.PRELOGIN, 1, b"\0\0", 1),
            packet(Kind.PRELOGIN, 1, prelogin.render({prelogin.Option.ENCRYPTION: b"\x63"}), 1),
        ):
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as stranger:
                stranger.sendall(data)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(1000):
                    pass
        assert server.counters.now.connections == 5
        assert server.counters.now.logins == 0


def test_headers_that_do_not_fit_their_length_are_refused():
    with pytest.raises(TooShort):
        after_headers(struct.pack("<IIH", 22, 18, 2))
    with pytest.raises(TooShort):
        after_headers(b"\x04\x00\x00")


def test_calls_of_one_message_are_all_read():
    reader = Reader(call("a") + b"\xff" + struct.pack("<HHH", 0xFFFF, 15, 0) + b"\x80" + call("b"))
    assert [each.procedure for each in rpc.parse(reader)] == ["a", "sp_unprepare", "b"]


def test_packet_that_ends_says_so():
    assert Packet(1, 9, b"").ends
    assert not Packet(1, 8, b"").ends
