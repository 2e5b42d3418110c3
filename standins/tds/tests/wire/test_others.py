"""Two clients that are not Microsoft's: python-tds and pymssql (FreeTDS)."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pymssql
import pytds  # type: ignore[import-untyped]
import pytest

from standins.tds.faults import Fault, When
from standins.tds.server import Server
from standins.tds.tests.scripted import INT, ScriptedEngine, Table
from standins.tds.tests.wire.clients import free, tds
from standins.tds.tests.wire.test_odbc import CASES
from standins.tds.values import Column, SqlType
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.wire_values import row_encoder
from standins.tds.wire.packets import HEADER_SIZE
from standins.tds.wire.prelogin import Encryption

INDIA = timezone(timedelta(hours=5, minutes=30))


@pytest.fixture
def engine() -> ScriptedEngine:
    two = (Column("id", INT, nullable=False), Column("v", SqlType("nvarchar", 20)))
    return ScriptedEngine(t=Table(*two))


@pytest.fixture(params=[Encryption.NONE, Encryption.LOGIN])
def server(engine: ScriptedEngine, request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(engine, encryption=request.param) as running:
        yield running


def all_types(nullable: bool, without: tuple[str, ...] = ()) -> Table:
    cases = [case for case in CASES if case[0].name not in without]
    columns = [Column(f"c{i}", kind, nullable) for i, (kind, _) in enumerate(cases)]
    rows: list[tuple[Any, ...]] = [tuple(v[n % len(v)] for _, v in cases) for n in range(3)]
    if nullable:
        rows.append((None,) * len(cases))
    return Table(*columns, rows=rows)


@pytest.mark.parametrize("nullable", [True, False])
def test_python_tds_reads_every_type(nullable):
    table = all_types(nullable)
    with Server(ScriptedEngine(t=table)) as server, tds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        assert [tuple(row) for row in cursor.fetchall()] == table.rows


@pytest.mark.parametrize("nullable", [True, False])
def test_pymssql_reads_every_type(nullable):
    """It gives times of some types as text or without their zone: these are compared apart."""
    table = all_types(nullable, without=("datetimeoffset", "datetime"))
    with Server(ScriptedEngine(t=table)) as server:
        connection = free(server, tds_version="7.4")
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        rows = cursor.fetchall()
        connection.close()
    assert rows == table.rows


@pytest.mark.parametrize(
    "value",
    [
        1, -(2**63), 0.25, Decimal("12345.6789"), "text", "", "☃ \U0001f600", "x" * 9000,
        pytds.Binary(b"\0\xff"), pytds.Binary(b"x" * 9000), date(2024, 2, 29),
        time(1, 2, 3, 456789),
        datetime(2024, 2, 29, 1, 2, 3, 456789), datetime(2024, 2, 29, 1, 2, 3, 456789, INDIA),
        UUID(int=5), True,
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_python_tds_sends_parameters(server, value):
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT %s", (value,))
        assert cursor.fetchall() == [(value,)]


@pytest.mark.parametrize("size", [512, 8192, 32767])
def test_packets_have_the_size_that_the_client_asked_for(server, engine, size):
    table = engine.tables["t"]
    table.rows = [(i, "x" * (i % 20)) for i in range(2000)]
    answer = tokens.columns(table.columns) + row_encoder(table.columns)(table.rows) + tokens.done(0)
    with tds(server, blocksize=size) as connection:
        server.faults.add(Fault(When.SENT, times=None))
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        assert [tuple(row) for row in cursor.fetchall()] == table.rows
    assert len(server.faults.fired) == math.ceil(len(answer) / (size - HEADER_SIZE))


def test_python_tds_transactions_and_errors(server, engine):
    with tds(server, autocommit=False) as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO t VALUES (1, N'one')")
        cursor.execute("INSERT INTO t VALUES (%s, %s)", (2, "two"))
        connection.commit()
        cursor.execute("INSERT INTO t VALUES (3, N'three')")
        connection.rollback()
        with pytest.raises(pytds.IntegrityError, match="Violation of PRIMARY KEY") as caught:
            cursor.execute("INSERT INTO t VALUES (1, N'again')")
        assert caught.value.number == 2627
        assert caught.value.severity == 14
    assert engine.tables["t"].rows == [(1, "one"), (2, "two")]


def test_python_tds_calls_a_procedure_with_an_output_parameter(server):
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.callproc("dbo.doubled", (pytds.output(value=21, param_type="int"),))
        assert cursor.fetchall() == [("dbo.doubled @P1 OUTPUT",)]
        assert cursor.get_proc_outputs() == [42]
        assert cursor.get_proc_return_status() == 0


def test_python_tds_loads_rows(server, engine):
    rows = [(i, f"row {i}" if i % 3 else None) for i in range(3000)]
    types = [
        pytds.Column("id", type=pytds.tds_types.IntType(), flags=0),
        pytds.Column("v", type=pytds.tds_types.NVarCharType(20)),
    ]
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.copy_to(data=rows, table_or_view="t", schema="dbo", columns=types)
    assert engine.tables["t"].rows == rows


def test_wrong_type_for_a_column_is_refused_and_nothing_kept(server, engine):
    types = [
        pytds.Column("id", type=pytds.tds_types.BigIntType()),
        pytds.Column("v", type=pytds.tds_types.NVarCharType(20)),
    ]
    with tds(server) as connection:
        cursor = connection.cursor()
        with pytest.raises(pytds.Error, match="Invalid column type from bcp client for colid 1"):
            cursor.copy_to(data=[(1, "x")], table_or_view="t", schema="dbo", columns=types)
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
    assert engine.tables["t"].rows == []


def test_python_tds_cancels_what_it_does_not_read(server, engine):
    engine.tables["t"].rows = [(i, "x" * 20) for i in range(20_000)]
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        assert cursor.fetchone() == (0, "x" * 20)
        cursor.cancel()
        cursor.execute("SELECT 7")
        assert cursor.fetchall() == [(7,)]


def test_client_without_encryption_is_told_that_the_server_insists(engine):
    server = Server(engine, encryption=Encryption.REQUIRED)
    with server, pytest.raises(pytds.Error, match="it is required by server"):
        tds(server)


def test_pymssql_transactions_and_errors(server, engine):
    connection = free(server)
    cursor = connection.cursor()
    cursor.execute("INSERT INTO t VALUES (1, N'one')")
    cursor.execute("INSERT INTO t VALUES (%d, N'two')", (2,))
    connection.commit()
    cursor.execute("INSERT INTO t VALUES (3, N'three')")
    connection.rollback()
    with pytest.raises(pymssql.exceptions.IntegrityError) as caught:
        cursor.execute("INSERT INTO t VALUES (1, N'again')")
    assert caught.value.args[0] == 2627
    connection.close()
    assert engine.tables["t"].rows == [(1, "one"), (2, "two")]


def test_pymssql_is_told_why_a_login_fails(server):
    with pytest.raises(pymssql.exceptions.OperationalError) as caught:
        free(server, password="wrong")
    assert caught.value.args[0][0] == 18456


def test_python_tds_is_told_why_a_login_fails(server):
    with pytest.raises(pytds.OperationalError, match="Login failed for user 'rec'"):
        tds(server, password="wrong")


def test_moments_keep_their_zone_in_python_tds(server):
    value = datetime(2024, 2, 29, 1, 2, 3, 456789, INDIA)
    with tds(server) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT %s", (value,))
        ((got,),) = cursor.fetchall()
    assert got.astimezone(UTC) == value.astimezone(UTC)
    assert got.utcoffset() == value.utcoffset()
