"""The client side of every recording, played to the server: is the answer what the client needs."""

import contextlib
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from standins.tds.server import Server
from standins.tds.tests import recordings
from standins.tds.tests.answer_tokens import Answered, read_answer
from standins.tds.tests.recordings import Exchange, Player, Recording
from standins.tds.tests.replayed import ReplayEngine
from standins.tds.values import Column, Message, SqlError, SqlType
from standins.tds.wire import prelogin
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.reader import after_headers
from standins.tds.wire.encoding.tokens import Done, Token
from standins.tds.wire.encoding.wire_types import type_info
from standins.tds.wire.encoding.wire_values import encode_value
from standins.tds.wire.packets import Kind
from standins.tds.wire.prelogin import Encryption
from standins.tds.wire.requests import bulk, rpc

DONES = (Token.DONE, Token.DONE_PROC, Token.DONE_IN_PROC)
NAMES = recordings.names()
# The recorded server ends a part of a refused login, and rejects what the tables here allow.
REFUSED = ("01e_connect_encrypt_yes", "05b_errors_login")


def play(recording: Recording, engine: ReplayEngine) -> Iterator[Exchange]:
    with Server(engine, encryption=Encryption.NONE) as server:
        for connection in recording.connections():
            with Player(server.port) as player:
                yield from player.play(recording, connection)


def played(name: str) -> tuple[ReplayEngine, list[Exchange]]:
    recording = recordings.load(name)
    engine = ReplayEngine(recording)
    return engine, list(play(recording, engine))


def sequence(tokens: tuple[Answered, ...], *wanted: Token) -> list[Answered]:
    return [each for each in tokens if each.token in wanted]


def check_prelogin(exchange: Exchange) -> None:
    options = prelogin.parse(exchange.answer)
    assert options[prelogin.Option.VERSION] == prelogin.VERSION
    assert options[prelogin.Option.ENCRYPTION] == bytes([prelogin.Answer.NOT_SUPPORTED])
    assert prelogin.Option.FEDERATED not in options


def check_login(exchange: Exchange) -> None:
    """One of these left out, and a client panics, waits or gives up."""
    changes = {each.kind: each for each in sequence(exchange.tokens, Token.ENV_CHANGE)}
    assert set(changes) == {1, 2, 4, 7}
    assert changes[1].new == "tdsdb"
    assert changes[4].new == "4096"
    assert changes[7].new == bytes.fromhex("0904d00034")
    (acknowledged,) = sequence(exchange.tokens, Token.LOGIN_ACK)
    assert acknowledged.version == bytes.fromhex("74000004")
    assert [each.number for each in sequence(exchange.tokens, Token.INFO)] == [5701, 5703]
    check_final(exchange, Token.DONE)


def check_final(exchange: Exchange, kind: Token) -> None:
    """Every DONE but the last says that more comes; the last token is that one."""
    dones = sequence(exchange.tokens, *DONES)
    assert [bool(each.status & Done.MORE) for each in dones] == [True] * (len(dones) - 1) + [False]
    assert exchange.tokens[-1] is dones[-1]
    assert dones[-1].token is kind
    for error in sequence(exchange.tokens, Token.ERROR):
        following = exchange.tokens[exchange.tokens.index(error) + 1]
        assert following.token in DONES
        assert following.status & Done.ERROR


def check_calls(exchange: Exchange) -> None:
    """Each call: its results, a status, a handle where one was asked for, its DONEPROC."""
    check_final(exchange, Token.DONE_PROC)
    calls = list(rpc.parse(after_headers(exchange.request.payload)[1]))
    ends = sequence(exchange.tokens, Token.DONE_PROC)
    assert len(ends) == len(calls)
    ran = [each for each in ends if not each.status & Done.ERROR]
    assert len(sequence(exchange.tokens, Token.RETURN_STATUS)) == len(ran)
    handles = [each.value for each in sequence(exchange.tokens, Token.RETURN_VALUE)]
    asked = [c for c in calls if c.procedure in ("sp_prepare", "sp_prepexec")]
    assert len(handles) == len(asked)
    assert all(handle > 0 for handle in handles)


def check_transaction(exchange: Exchange) -> None:
    """The changes come before the DONE, an ended transaction before a begun one."""
    check_final(exchange, Token.DONE)
    kind, *rest = after_headers(exchange.request.payload)[1].take(2)
    again = exchange.request.payload.endswith(b"\x00\x01\x00\x00")
    wanted = {5: [8], 7: [9], 8: [10]}[kind] + ([8] if again else [])
    assert [each.kind for each in sequence(exchange.tokens, Token.ENV_CHANGE)] == wanted
    assert [each.token for each in exchange.tokens[:-1]] == [Token.ENV_CHANGE] * len(wanted)


def check_load(exchange: Exchange) -> None:
    check_final(exchange, Token.DONE)
    *errors, done = exchange.tokens
    if errors:
        assert done.status == Done.ERROR
        return
    assert done.status == Done.COUNT
    assert done.rows == rows_of(exchange.request.payload)


def check_attention(exchange: Exchange) -> None:
    (done,) = exchange.tokens
    assert (done.token, done.status) == (Token.DONE, Done.ATTENTION)


def rows_of(payload: bytes) -> int:
    """Counted by reading the message the slow way."""
    reading = bulk.read_columns(payload)
    answer = payload[: reading[1]] + payload[reading[1] :]
    body = answer[:-9] if answer[-9:] == bytes([0xFD]) + bytes(8) else answer[:-13]
    return len(sequence(tuple(read_answer(body)), Token.ROW))


CHECKS = {
    Kind.PRELOGIN: check_prelogin,
    Kind.LOGIN: check_login,
    Kind.BATCH: lambda exchange: check_final(exchange, Token.DONE),
    Kind.RPC: check_calls,
    Kind.TRANSACTION: check_transaction,
    Kind.BULK: check_load,
    Kind.ATTENTION: check_attention,
}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REFUSED])
def test_answers_have_the_form_that_the_recorded_client_needs(name):
    recording = recordings.load(name)
    count = 0
    for exchange in play(recording, ReplayEngine(recording)):
        CHECKS[Kind(exchange.request.kind)](exchange)
        count += 1
    messages = [r for c in recording.connections() for r in recording.requests(c) if r.ends]
    assert count == len(messages)


def test_refused_logins_are_errors_with_their_number():
    recording = recordings.load("05b_errors_login")
    numbers: list[list[int]] = []
    engine = ReplayEngine(recording)
    with Server(engine, encryption=Encryption.NONE) as server:
        for connection in recording.connections():
            with Player(server.port) as player, contextlib.suppress(AssertionError):
                for exchange in player.play(recording, connection):
                    if exchange.request.kind == Kind.LOGIN:
                        errors = sequence(exchange.tokens, Token.ERROR)
                        numbers.append([each.number for each in errors])
    # The crossed-out password of `rec` is as good as any here, hence the first two.
    assert numbers[2:] == [[18456], [18456], [4060, 18456], [4060, 18456]]


def bulk_step_one(exchange: Exchange) -> list[list[str]]:
    found = sequence(exchange.tokens, Token.COLUMNS)
    return [[column.name for column in each.columns] for each in found]


def test_bulk_load_is_told_count_columns_and_collations_in_this_order():
    _, exchanges = played("06b_bulk_arrow_pycore")
    (first, *_) = [each for each in exchanges if each.request.kind == Kind.BATCH]
    count, columns, collations = bulk_step_one(first)
    assert len(count) == 1
    assert columns[:3] == ["id", "bt", "ti"]
    assert len(columns) == 19
    assert len(collations) == 4


INDIA = timezone(timedelta(hours=5, minutes=30))
ROW_ONE = (
    1, True, 200, -1234, 123456, 1234567890123, 1.5, 1.5, Decimal("12345.6789"),
    Decimal("1234567890.0123456789"), "plain", "max text", "varchar max", b"\x00\x01\xff",
    UUID("00112233-4455-6677-8899-AABBCCDDEEFF"), date(2024, 2, 29), time(13, 14, 15, 123456),
    datetime(2024, 2, 29, 13, 14, 15, 123456),
)  # fmt: skip
ROW_TWO = (
    2, False, 255, 32767, -2147483648, -9223372036854775808, -2.5, 1.7976931348623157e308,
    Decimal("-99999999999999.9999"), Decimal("9999999999999999999999999999.9999999999"),
    "grüße € ☃", "", "", b"", UUID("ffffffff-ffff-ffff-ffff-ffffffffffff"), date(9999, 12, 31),
    time(23, 59, 59, 999999), datetime(9999, 12, 31, 23, 59, 59, 999999),
)  # fmt: skip


@pytest.mark.parametrize("name", ["06a_bulk_arrow_via_cursor", "06b_bulk_arrow_pycore"])
def test_recorded_load_of_every_type_is_stored_as_it_was_meant(name):
    engine, _ = played(name)
    one, two, three = engine.tables["bulk1"].rows
    assert one[:-1] == ROW_ONE
    assert two[:-1] == ROW_TWO
    assert three == (3, *(None,) * 18)
    assert (one[-1].tzinfo, two[-1].tzinfo) == (UTC, UTC)
    assert one[-1] == datetime(2024, 2, 29, 13, 14, 15, 123456, UTC)


def test_recorded_load_of_not_null_columns():
    engine, _ = played("06g_bulk_not_null_and_legacy")
    moment = datetime(2024, 2, 29, 13, 14, 15, 123456)
    (row,) = engine.tables["nn"].rows
    assert row[:15] == (
        True, 1, 2, 3, 4, 1.5, 2.5, Decimal("3.25"), Decimal("-3.25"), "abc", "äb", "varchar",
        b"\x01\x02", UUID("00112233-4455-6677-8899-aabbccddeeff"), moment.date(),
    )  # fmt: skip
    assert row[15:] == (
        time(13, 14, 15, 123000),
        datetime(2024, 2, 29, 13, 14, 15),
        datetime(2024, 2, 29, 13, 14, 15, 123000, UTC),
        datetime(2024, 2, 29, 13, 14, 15, 123000),
    )


def test_recorded_load_of_tuples_keeps_the_offset_and_is_wrong_by_it():
    """The driver writes local time where UTC belongs; the Arrow call does not."""
    engine, _ = played("06f_bulk_tuples")
    one, two = engine.tables["bulk1"].rows
    assert one[:7] == ROW_ONE[:7]
    assert one[8:18] == ROW_ONE[8:18]
    assert one[18] == datetime(2024, 2, 29, 18, 44, 15, 123456, INDIA)
    assert one[18].utcoffset() == INDIA.utcoffset(None)
    assert two == (2, *(None,) * 18)


def test_recorded_load_of_python_tds():
    engine, _ = played("09c_pytds_bulk")
    assert engine.tables["bulk2"].rows == [(1, "a"), (2, None), (3, "ü")]


def test_attention_in_an_unfinished_load_keeps_nothing():
    engine, exchanges = played("06i_bulk_client_error_midway")
    assert exchanges[-1].request.kind == Kind.ATTENTION
    assert engine.tables["bulk2"].rows == []
    assert [load.aborted for load in engine.sessions[0].loads] == [True]


SENT: list[Any] = [
    0, 255, 256, 32767, 32768, -1, 2**31, -(2**63), True, False, 1.5, 0.0, Decimal(1),
    Decimal("-0.0001"), Decimal("9" * 28), "a", "", "x" * 20, "\U0001f600", b"", b"ab", b"c",
    date(9999, 12, 31), time(0, 0), datetime(1753, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1, tzinfo=UTC), UUID(int=1),
]  # fmt: skip


def test_recorded_parameters_are_what_python_sent():
    engine, exchanges = played("02b_params_types_in_select")
    got = [parameters[0].value for _, parameters in engine.calls]
    assert got == SENT
    assert list(map(type, got)) == list(map(type, SENT))
    echoed = [row.values[0] for each in exchanges for row in sequence(each.tokens, Token.ROW)]
    assert echoed == SENT


def test_recorded_parameters_have_the_types_that_were_declared():
    engine, _ = played("02a_params_insert_select")
    types = [parameter.type for parameter in engine.calls[0][1]]
    assert [kind.name for kind in types] == [
        "tinyint", "bit", "int", "bigint", "float", "numeric", "nvarchar", "varbinary", "date",
        "time", "datetime2", "datetimeoffset", "uniqueidentifier",
    ]  # fmt: skip
    assert (types[5].precision, types[5].scale) == (9, 4)
    # Declared without a scale, though sent with 6, 6 and 7.
    assert [types[i].scale for i in (9, 10, 11)] == [7, 7, 7]


def test_recorded_long_parameters_come_in_parts_and_whole():
    engine, _ = played("02e_params_long")
    values = [parameters[1].value for text, parameters in engine.calls if parameters]
    assert values == ["n" * 5000, b"\xab" * 9000, "m" * 4000, "m" * 4001, b"m" * 8000]


def test_recorded_executemany_runs_every_row():
    engine, _ = played("02d_params_executemany")
    rows = [tuple(p.value for p in parameters) for text, parameters in engine.calls if parameters]
    assert [row[0] for row in rows] == [0, 1, 2, 3, 10, 11, 12]
    assert rows[2] == (2, *(None,) * 12)
    assert rows[4:] == [(10, "ten"), (11, None), (12, "twelve")]


ANSWERS = [answer for name in NAMES for answer in recordings.load(name).answers()]


def encoded(each: Answered) -> bytes:
    """The token, made anew from what was read of it."""
    if each.token in DONES:
        rows = each.rows if each.status & Done.COUNT else None
        if rows is None and each.rows:
            return b""  # a count that does not count: only the recorded server says that
        return tokens.done(each.status, rows, each.command, each.token)
    if each.token is Token.RETURN_STATUS:
        return tokens.return_status(each.value)
    if each.token is Token.ENV_CHANGE and each.kind in (1, 2, 4):
        return tokens.env_text(each.kind, each.new, each.old)
    if each.token is Token.ENV_CHANGE:
        values = [bytes([len(value)]) + value for value in (each.new, each.old)]
        return tokens.env_change(each.kind, *values)
    return b""


def test_recorded_tokens_are_written_as_they_were_read():
    kinds = set()
    for answer in ANSWERS:
        for each in read_answer(answer):
            again = encoded(each)
            if again:
                kinds.add(each.token)
                assert again == each.raw
    assert kinds == {*DONES, Token.RETURN_STATUS, Token.ENV_CHANGE}


def test_recorded_errors_and_notes_are_written_as_they_were_read(monkeypatch):
    monkeypatch.setattr(tokens, "SERVER_NAME", "BABELFISH")
    seen = 0
    for answer in ANSWERS:
        for each in sequence(tuple(read_answer(answer)), Token.ERROR, Token.INFO):
            if each.token is Token.ERROR:
                again = tokens.error(SqlError(each.number, each.text, each.severity, each.state))
            else:
                again = tokens.info(Message(each.number, each.text, each.severity, each.state))
            assert again[:-4] == each.raw[:-4]  # the line at the end is always the first here
            seen += 1
    assert seen > 40


def test_recorded_columns_and_values_are_written_as_they_were_read():
    """Decimals are not: the recorded server says 17 bytes and sends as few as do."""
    types = set()
    for answer in ANSWERS:
        for each in read_answer(answer):
            if each.token is not Token.COLUMNS:
                continue
            again = struct.pack("<BH", Token.COLUMNS, len(each.columns))
            for column in each.columns:
                types.add(column.wire.sql.name)
                info = type_info(column.wire)
                if column.wire.sql.name == "numeric":
                    info = info[:1] + b"\x11" + info[2:]
                again += struct.pack("<IH", column.user_type, column.flags) + info
                again += tokens.short_text(column.name)
            assert again == each.raw
    assert len(types) == 23


def rows_with_columns() -> Iterator[tuple[tuple[Any, ...], Answered]]:
    for answer in ANSWERS:
        columns: tuple[Any, ...] = ()
        for each in read_answer(answer):
            if each.token is Token.COLUMNS:
                columns = each.columns
            elif each.token is Token.ROW and each.raw[0] == Token.ROW:
                yield columns, each


def test_recorded_rows_are_written_as_they_were_read():
    seen = 0
    for columns, row in rows_with_columns():
        if any(column.wire.sql.name == "numeric" for column in columns):
            continue
        values = zip(columns, row.values, strict=True)
        again = b"".join(encode_value(column.wire, value) for column, value in values)
        assert b"\xd1" + again == row.raw
        seen += 1
    assert seen > 100


def test_columns_of_a_table_are_described_as_sql_server_does():
    """A NOT NULL number has no length; identity and nullable are flags."""
    described = (
        Column("i", SqlType("int"), nullable=False, identity=True),
        Column("b", SqlType("bigint"), nullable=False),
        Column("n", SqlType("bigint")),
        Column("s", SqlType("nvarchar")),
    )
    assert tokens.columns(described) == bytes.fromhex(
        "81 0400"
        "00000000 1000 38 01 6900"
        "00000000 0800 7f 01 6200"
        "00000000 0900 26 08 01 6e00"
        "00000000 0900 e7 ffff 0904d00034 01 7300"
    )
