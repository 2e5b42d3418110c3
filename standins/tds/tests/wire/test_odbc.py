"""Microsoft's driver, its ODBC part: every type both ways, cancel, transactions, errors."""

import threading
import time as clock
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import mssql_python
import pytest

from standins.tds.server import Server
from standins.tds.tests.scripted import INT, ScriptedEngine, Table
from standins.tds.tests.wire.clients import odbc
from standins.tds.tests.wire.test_columns import COLUMNS, arrow, rows_of
from standins.tds.values import Column, Rows, SqlError, SqlType
from standins.tds.wire.prelogin import Encryption

INDIA = timezone(timedelta(hours=5, minutes=30))
# type, values that every one of them must survive
CASES: list[tuple[SqlType, list[Any]]] = [
    (SqlType("bit"), [True, False]),
    (SqlType("tinyint"), [0, 255]),
    (SqlType("smallint"), [-32768, 32767]),
    (SqlType("int"), [-(2**31), 2**31 - 1]),
    (SqlType("bigint"), [-(2**63), 2**63 - 1]),
    (SqlType("real"), [1.5, -3.4028234663852886e38]),
    (SqlType("float"), [0.1, 1.7976931348623157e308, -5e-324]),
    (SqlType("decimal", None, 9, 2), [Decimal("9999999.99"), Decimal("-0.01")]),
    (SqlType("decimal", None, 19, 0), [Decimal(10**19 - 1)]),
    (SqlType("decimal", None, 28, 4), [Decimal("-999999999999999999999999.9999")]),
    (SqlType("numeric", None, 38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("0E-10")]),
    (SqlType("money"), [Decimal("922337203685477.5807"), Decimal("-922337203685477.5808")]),
    (SqlType("smallmoney"), [Decimal("214748.3647"), Decimal("-214748.3648")]),
    (SqlType("char", 5), ["abcde", "ab   "]),
    (SqlType("varchar", 20), ["", "grüße €", "x" * 20]),
    (SqlType("nchar", 5), ["äbcde", "ab   "]),
    (SqlType("nvarchar", 50), ["", "☃ \U0001f600", "x" * 50]),
    (SqlType("nvarchar"), ["", "short", "\U0001f600" * 30000]),
    (SqlType("varchar"), ["", "é" * 20000]),
    (SqlType("binary", 4), [b"\0\1\2\3", b"\1\0\0\0"]),
    (SqlType("varbinary", 100), [b"", b"\0\xff"]),
    (SqlType("varbinary"), [b"", bytes(range(256)) * 100]),
    (SqlType("uniqueidentifier"), [UUID("00112233-4455-6677-8899-aabbccddeeff")]),
    (SqlType("date"), [date(1, 1, 1), date(9999, 12, 31)]),
    (SqlType("time", None, None, 0), [time(0, 0), time(23, 59, 59)]),
    (SqlType("time", None, None, 3), [time(12, 34, 56, 789000)]),
    (SqlType("time", None, None, 7), [time(23, 59, 59, 999999)]),
    (SqlType("datetime2", None, None, 0), [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)]),
    (SqlType("datetime2", None, None, 4), [datetime(2024, 2, 29, 1, 2, 3, 123400)]),
    (SqlType("datetime2", None, None, 7), [datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (SqlType("datetimeoffset", None, None, 2), [datetime(2024, 2, 29, 1, 2, 3, 120000, INDIA)]),
    (SqlType("datetimeoffset", None, None, 7), [datetime(9999, 12, 31, 1, 2, 3, 456789, INDIA),
        datetime(1999, 12, 31, 23, 59, 59, 999999, timezone(-timedelta(hours=14)))]),
    (SqlType("datetime"), [datetime(1753, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 997000)]),
    (SqlType("smalldatetime"), [datetime(1900, 1, 1), datetime(2079, 6, 6, 23, 59)]),
]  # fmt: skip


@pytest.fixture
def engine() -> ScriptedEngine:
    two = (Column("id", INT, nullable=False), Column("v", SqlType("nvarchar", 20)))
    return ScriptedEngine(t=Table(*two))


@pytest.fixture
def connection(server: Server) -> Iterator[Any]:
    opened = odbc(server)
    yield opened
    opened.close()


def table_of_all(nullable: bool) -> Table:
    """A row for the n-th value of each type; the shorter ones start again."""
    columns = [Column(f"c{i}", kind, nullable) for i, (kind, _) in enumerate(CASES)]
    rows: list[tuple[Any, ...]] = [
        tuple(values[n % len(values)] for _, values in CASES) for n in range(3)
    ]
    if nullable:
        rows += [(None,) * len(CASES), rows[0]]
    return Table(*columns, rows=rows)


@pytest.mark.parametrize("encryption", list(Encryption))
@pytest.mark.parametrize("nullable", [True, False])
def test_every_type_is_read(encryption, nullable):
    table = table_of_all(nullable)
    with Server(ScriptedEngine(t=table), encryption=encryption) as server, odbc(server) as opened:
        cursor = opened.cursor()
        cursor.execute("SELECT * FROM t")
        rows = [tuple(row) for row in cursor.fetchall()]
        described = [each[6] for each in cursor.description]
    assert rows == table.rows
    assert described == [nullable] * len(CASES)
    offsets = [row[-4].utcoffset() for row in rows if row[-4] is not None]
    assert offsets == [row[-4].utcoffset() for row in table.rows if row[-4] is not None]


def test_result_that_the_engine_gives_in_arrow_batches_reads_the_same():
    rows = rows_of(500, 8)
    table = Table(*COLUMNS, batches=True)
    table.arrow = [arrow(COLUMNS, rows[:300]), arrow(COLUMNS, []), arrow(COLUMNS, rows[300:])]
    with Server(ScriptedEngine(t=table)) as server, odbc(server) as connection:
        got = connection.cursor().execute("SELECT * FROM t").fetchall()
    # Its code page makes a question mark of the bytes that have no character.
    assert [tuple(row) for row in got] == [
        tuple("?ÿ" if value == "\x81ÿ" else value for value in row) for row in rows
    ]


@pytest.mark.parametrize(
    ("encryption", "encrypt"),
    [(Encryption.LOGIN, "no"), (Encryption.LOGIN, "yes"), (Encryption.REQUIRED, "no"),
        (Encryption.REQUIRED, "yes")],
)  # fmt: skip
def test_encrypted_as_agreed(engine, encryption, encrypt):
    text = "ü" * 100_000
    with Server(engine, encryption=encryption) as server, odbc(server, encrypt) as connection:
        assert connection.cursor().execute("SELECT ?", text).fetchone()[0] == text


def test_client_that_insists_on_encryption_is_not_served_without(server):
    with pytest.raises(mssql_python.exceptions.OperationalError, match="Encryption not supported"):
        odbc(server, encrypt="yes")


@pytest.mark.parametrize(
    "value",
    [
        True, 0, 255, 256, -1, 2**31, -(2**63), 0.1, Decimal("12345.6789"), Decimal("-1E-10"),
        Decimal("9" * 28), "", "ascii", "grüße €", "\U0001f600", "n" * 4000, "n" * 4001,
        "ü" * 8001, b"", b"\0\xff", b"x" * 8000, b"x" * 8001, date(1753, 1, 1),
        date(9999, 12, 31), time(13, 14, 15, 123456), datetime(2024, 2, 29, 13, 14, 15, 123456),
        datetime(2024, 2, 29, 13, 14, 15, 123456, INDIA), UUID(int=2**127 + 1),
    ],
    ids=lambda value: repr(value)[:30],
)  # fmt: skip
def test_parameter_comes_back(connection, value):
    cursor = connection.cursor()
    for _ in range(2):
        row = cursor.execute("SELECT ?, ?", value, "beside").fetchone()
        assert tuple(row) == (value, "beside")
        assert type(row[0]) is type(value)


def test_null_parameter_gets_the_type_that_the_server_suggests(connection, server):
    cursor = connection.cursor()
    assert tuple(cursor.execute("SELECT ?, ?", None, 1).fetchone()) == (None, 1)
    assert server.counters.batches == ["SELECT @P1, @P2"]


def test_executemany_stores_every_row(connection, engine):
    rows = [(i, f"row {i}") for i in range(500)]
    cursor = connection.cursor()
    cursor.executemany("INSERT INTO t VALUES (?, ?)", rows)
    assert engine.tables["t"].rows == rows
    assert cursor.rowcount == 500


def test_prepared_statement_runs_again(connection, engine):
    cursor = connection.cursor()
    for i in range(3):
        cursor.execute("INSERT INTO t VALUES (?, ?)", i, "x")
        assert cursor.rowcount == 1
    assert engine.tables["t"].rows == [(0, "x"), (1, "x"), (2, "x")]


def test_several_results_and_notes_of_one_batch(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT 1; PRINT 'hello'; SELECT 2; INSERT INTO t VALUES (1, N'one'); SELECT 3")
    found = []
    while True:
        found.append([tuple(row) for row in cursor.fetchall()] if cursor.description else None)
        if not cursor.nextset():
            break
    assert [each for each in found if each] == [[(1,)], [(2,)], [(3,)]]


def test_many_rows_are_streamed_in_order(engine, connection):
    rows = [(i, f"value {i}" if i % 7 else None) for i in range(20_000)]
    engine.tables["t"].rows = rows
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM t")
    assert [tuple(row) for row in cursor.fetchall()] == rows


def endless(closed: threading.Event) -> Any:
    def answers(session: Any, text: str, parameters: Any) -> Any:
        def rows() -> Iterator[tuple[Any, ...]]:
            try:
                for i in range(50_000_000):
                    yield (i,)
            finally:
                closed.set()

        yield Rows((Column("i", INT, nullable=False),), rows())

    return answers


def test_cursor_that_is_used_again_forgets_unread_rows(engine, connection):
    closed = threading.Event()
    engine.script["endless"] = endless(closed)
    cursor = connection.cursor()
    assert cursor.execute("SELECT endless").fetchone()[0] == 0
    assert tuple(cursor.execute("SELECT 2").fetchone()) == (2,)
    assert closed.is_set()


def test_time_out_cancels_the_statement(connection, engine):
    connection.timeout = 1
    cursor = connection.cursor()
    with pytest.raises(mssql_python.exceptions.OperationalError, match="timeout expired"):
        cursor.execute("WAIT 20")
    assert engine.sessions[0].cancelled.is_set()
    assert tuple(cursor.execute("SELECT 1").fetchone()) == (1,)


def test_cancel_from_another_thread(connection, engine):
    cursor = connection.cursor()
    timer = threading.Timer(0.3, cursor.hstmt._cancel)
    timer.start()
    started = clock.monotonic()
    with pytest.raises(mssql_python.exceptions.OperationalError, match="canceled"):
        cursor.execute("WAIT 20")
    timer.join()
    assert clock.monotonic() - started < 15
    assert tuple(connection.cursor().execute("SELECT 1").fetchone()) == (1,)


def test_transactions_commit_and_roll_back(server, engine):
    with odbc(server, autocommit=False) as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO t VALUES (1, N'one')")
        connection.commit()
        cursor.execute("INSERT INTO t VALUES (?, ?)", 2, "two")
        connection.rollback()
        assert tuple(cursor.execute("SELECT @@TRANCOUNT").fetchone()) == (1,)
        connection.setautocommit(True)
        assert tuple(cursor.execute("SELECT @@TRANCOUNT").fetchone()) == (0,)
        assert [tuple(row) for row in cursor.execute("SELECT * FROM t").fetchall()] == [(1, "one")]
    assert engine.descriptors > 0x700000002


def test_transaction_by_text_is_known_to_the_driver(connection, engine):
    cursor = connection.cursor()
    cursor.execute("BEGIN TRAN")
    cursor.execute("INSERT INTO t VALUES (1, N'one')")
    assert tuple(cursor.execute("SELECT @@TRANCOUNT").fetchone()) == (1,)
    cursor.execute("ROLLBACK")
    assert engine.tables["t"].rows == []


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (2627, mssql_python.exceptions.IntegrityError),
        (515, mssql_python.exceptions.IntegrityError),
        (547, mssql_python.exceptions.IntegrityError),
        (8134, mssql_python.exceptions.DataError),
        (208, mssql_python.exceptions.ProgrammingError),
    ],
)
@pytest.mark.parametrize("parameters", [(), (1,)])
def test_error_has_its_class_and_leaves_the_connection_usable(connection, number, kind, parameters):
    cursor = connection.cursor()
    text = f"RAISE {number} 16"
    with pytest.raises(kind, match=rf"\[SQL Server\]error {number}"):
        cursor.execute(text + " -- ?" * len(parameters), *parameters)
    assert tuple(cursor.execute("SELECT 1").fetchone()) == (1,)


def test_error_after_rows_comes_after_them(engine, connection):
    def broken(session: Any, text: str, parameters: Any) -> Any:
        def rows() -> Iterator[tuple[int]]:
            yield from ((i,) for i in range(700))
            raise SqlError(8134, "Divide by zero error encountered.")

        yield Rows((Column("i", INT, nullable=False),), rows())

    engine.script["broken"] = broken
    cursor = connection.cursor().execute("SELECT broken")
    got = []
    with pytest.raises(mssql_python.exceptions.DataError, match="Divide by zero"):
        while (row := cursor.fetchone()) is not None:
            got.append(row[0])
    assert got == list(range(700))


def test_pool_resets_the_connection_it_gives_out_again(server, engine):
    mssql_python.pooling(max_size=2, idle_timeout=60, enabled=True)
    try:
        for number in range(3):
            connection = odbc(server, pooled=True)
            row = connection.cursor().execute("SELECT ?", number).fetchone()
            assert tuple(row) == (number,)
            connection.close()
        assert server.counters.now.connections == 1
        assert engine.sessions[0].resets == 2
    finally:
        mssql_python.pooling(enabled=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"password": "wrong"}, "Login failed for user 'rec'"),
        # It shows the last of the two errors that SQL Server sends here (4060, 18456).
        ({"database": "nosuch"}, "Login failed for user 'rec'"),
    ],
)
def test_refused_login_says_why(server, options, message):
    with pytest.raises(mssql_python.exceptions.Error, match=message):
        odbc(server, **options)
    assert server.counters.now.logins == 0


def test_severe_error_ends_the_connection(connection, server):
    with pytest.raises(mssql_python.exceptions.Error, match="error 823"):
        connection.cursor().execute("RAISE 823 24")
    with pytest.raises(mssql_python.exceptions.Error):
        connection.cursor().execute("SELECT 1")


def test_moment_with_a_zone_is_the_same_moment(connection):
    value = datetime(2024, 2, 29, 13, 14, 15, 123456, INDIA)
    got = connection.cursor().execute("SELECT ?", value).fetchone()[0]
    assert got.astimezone(UTC) == value.astimezone(UTC)
    assert got.utcoffset() == value.utcoffset()
