"""The Rust part of Microsoft's driver: bulk loads of every type, and what may go wrong in one."""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from standins.tds.server import Server
from standins.tds.tests.scripted import ScriptedEngine, Table
from standins.tds.tests.wire.clients import core, odbc
from standins.tds.values import Column, SqlType
from standins.tds.wire.prelogin import Encryption

BIG = datetime(9999, 12, 31, 23, 59, 59, 999999)
ZONED = pa.timestamp("us", tz="UTC")
# name of the column: its type, the Arrow type sent, the values, and as what they come back
CASES: list[tuple[SqlType, pa.DataType, list[Any]]] = [
    (SqlType("bit"), pa.bool_(), [True, False]),
    (SqlType("tinyint"), pa.uint8(), [0, 255]),
    (SqlType("smallint"), pa.int16(), [-32768, 32767]),
    (SqlType("int"), pa.int32(), [-(2**31), 2**31 - 1]),
    (SqlType("bigint"), pa.int64(), [-(2**63), 2**63 - 1]),
    (SqlType("real"), pa.float32(), [1.5, -3.4028234663852886e38]),
    (SqlType("float"), pa.float64(), [5e-324, -1.7976931348623157e308]),
    (SqlType("decimal", None, 9, 2), pa.decimal128(9, 2), [Decimal("9999999.99"),
        Decimal("-0.01")]),
    (SqlType("decimal", None, 19, 0), pa.decimal128(19, 0), [Decimal(10**19 - 1), Decimal(-1)]),
    (SqlType("numeric", None, 28, 4), pa.decimal128(28, 4), [Decimal("-" + "9" * 24 + ".9999"),
        Decimal("0.0000")]),
    (SqlType("decimal", None, 38, 10), pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10),
        Decimal("-" + "9" * 28 + "." + "9" * 10)]),
    (SqlType("char", 5), pa.string(), ["abcde", "é"]),
    (SqlType("varchar", 50), pa.string(), ["", "grüße €"]),
    (SqlType("varchar"), pa.string(), ["", "é" * 20_000]),
    (SqlType("nchar", 5), pa.string(), ["äbcde", "\U0001f600"]),
    (SqlType("nvarchar", 50), pa.string(), ["", "☃\U0001f600" * 10]),
    (SqlType("nvarchar"), pa.string(), ["", "☃\U0001f600a" * 10_000]),
    (SqlType("varbinary", 10), pa.binary(), [b"", b"\0\xff"]),
    (SqlType("varbinary"), pa.binary(), [b"", bytes(range(256)) * 300]),
    (SqlType("uniqueidentifier"), pa.string(), [UUID(int=1), UUID(int=2**128 - 2)]),
    (SqlType("date"), pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (SqlType("time", None, None, 7), pa.time64("us"), [time(0, 0), time(23, 59, 59, 999999)]),
    (SqlType("time", None, None, 0), pa.time64("us"), [time(0, 0), time(23, 59, 59)]),
    (SqlType("time", None, None, 3), pa.time64("us"), [time(0, 0, 0, 1000), time(1, 2, 3, 4000)]),
    (SqlType("datetime2", None, None, 7), pa.timestamp("us"), [datetime(1, 1, 1), BIG]),
    (SqlType("datetime2", None, None, 3), pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59,
        999000), datetime(2024, 2, 29, 1, 2, 3, 4000)]),
    (SqlType("datetimeoffset", None, None, 7), ZONED, [datetime(1, 1, 1, tzinfo=UTC),
        BIG.replace(tzinfo=UTC)]),
    (SqlType("datetime"), pa.timestamp("us"), [datetime(1753, 1, 1), datetime(2024, 2, 29, 13, 14,
        15, 997000)]),
]  # fmt: skip


def sent(value: Any) -> Any:
    """Arrow has no values of this type of Python's."""
    return str(value) if isinstance(value, UUID) else value


def all_types(nullable: bool) -> tuple[Table, pa.Table]:
    columns = [Column(f"c{i}", kind, nullable) for i, (kind, _, _) in enumerate(CASES)]
    rows = [tuple(values[n] for _, _, values in CASES) for n in range(2)]
    if nullable:
        rows = [rows[0], (None,) * len(CASES), rows[1], (None,) * len(CASES)]
    arrays = [
        pa.array([sent(row[i]) for row in rows], kind) for i, (_, kind, _) in enumerate(CASES)
    ]
    return Table(*columns, rows=rows), pa.table(arrays, [column.name for column in columns])


def pairs(rows: int) -> tuple[pa.Table, list[tuple[int, str | None]]]:
    values = [f"value {i}" if i % 7 else None for i in range(rows)]
    table = pa.table({"id": pa.array(range(rows), pa.int32()), "v": pa.array(values, pa.string())})
    return table, list(enumerate(values))


@pytest.fixture
def cursor(server: Server) -> Iterator[Any]:
    connection = core(server)
    yield connection.cursor()
    connection.close()


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("encryption", [Encryption.NONE, Encryption.REQUIRED])
def test_every_type_is_loaded(nullable, encryption):
    wanted, source = all_types(nullable)
    engine = ScriptedEngine(t=Table(*wanted.columns))
    with Server(engine, encryption=encryption) as server:
        connection = core(server)
        report = connection.cursor().bulkcopy_arrow("dbo.t", source)
        connection.close()
    assert report["rows_copied"] == len(wanted.rows)
    assert engine.tables["t"].rows == wanted.rows


def test_load_through_the_cursor_of_the_odbc_part(server, engine):
    source, rows = pairs(10)
    with odbc(server) as connection:
        connection.cursor().bulkcopy_arrow("dbo.t", source)
    assert engine.tables["t"].rows == rows


@pytest.mark.parametrize("count", [1, 2, 5_000, 60_000])
def test_rows_of_many_packets_are_all_there_in_order(cursor, engine, server, count):
    source, rows = pairs(count)
    cursor.bulkcopy_arrow("dbo.t", source, timeout=0)
    assert engine.tables["t"].rows == rows
    assert server.counters.now.bulk_rows == count


def test_batches_are_loads_of_their_own(cursor, engine):
    source, rows = pairs(10)
    cursor.bulkcopy_arrow("dbo.t", source, batch_size=4)
    assert engine.tables["t"].rows == rows
    assert [load.aborted for load in engine.sessions[0].loads] == [False] * 3


def test_value_larger_than_many_packets(server, cursor, engine):
    engine.tables["big"] = Table(Column("v", SqlType("nvarchar")))
    values = ["\U0001f600" * 1_500_000, None, "x"]
    cursor.bulkcopy_arrow("dbo.big", pa.table({"v": values}), timeout=0)
    assert engine.tables["big"].rows == [(value,) for value in values]


def test_load_in_a_transaction_is_undone_with_it(cursor, engine):
    source, rows = pairs(100)
    cursor.execute("BEGIN TRAN")
    cursor.bulkcopy_arrow("dbo.t", source)
    assert engine.tables["t"].rows == rows
    cursor.execute("ROLLBACK")
    assert engine.tables["t"].rows == []


def test_internal_transaction_commits_the_load(cursor, engine):
    source, rows = pairs(100)
    cursor.bulkcopy_arrow("dbo.t", source, use_internal_transaction=True)
    assert engine.tables["t"].rows == rows
    assert engine.sessions[0].transaction == 0
    assert engine.descriptors == 0x700000001


def test_source_that_raises_leaves_what_it_gave_before(cursor, engine):
    """So does SQL Server: the driver ends the load as if all were well."""
    source, rows = pairs(600)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from source.to_batches()
        raise ValueError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        cursor.bulkcopy_arrow("dbo.t", batches())
    assert engine.tables["t"].rows == rows


def test_value_that_the_client_refuses_leaves_nothing_and_the_connection_usable(cursor, engine):
    values = [f"row {i}" for i in range(1500)]
    values[1000] = "x" * 31
    source = pa.table({"id": pa.array(range(1500), pa.int32()), "v": values})
    with pytest.raises(ValueError, match="exceeds schema size"):
        cursor.bulkcopy_arrow("dbo.t", source)
    cursor.execute("SELECT 5")
    assert cursor.fetchall() == [(5,)]
    assert engine.tables["t"].rows == []
    assert [load.aborted for load in engine.sessions[0].loads] == [True]


def test_columns_by_name_in_any_order(cursor, engine):
    source, rows = pairs(5)
    cursor.bulkcopy_arrow("dbo.t", source.select(["v", "id"]), column_mappings=["v", "id"])
    assert engine.tables["t"].rows == rows


def test_missing_table_is_an_error_with_its_number(cursor):
    with pytest.raises(RuntimeError, match="Sql Error: 208: Class 16: State 1"):
        cursor.bulkcopy_arrow("dbo.nosuch", pairs(1)[0])


def test_rows_are_read_and_errors_have_number_class_and_state(cursor):
    cursor.execute("SELECT 1; SELECT 2")
    assert cursor.fetchall() == [(1,)]
    with pytest.raises(RuntimeError, match="Sql Error: 8134: Class 16: State 1: error 8134"):
        cursor.execute("RAISE 8134 16")
    cursor.execute("SELECT 3")
    assert cursor.fetchall() == [(3,)]


def as_read(column: Column, value: Any) -> Any:
    """The server pads; the driver gives a datetime in exact parts of 1/300 s."""
    if value is None:
        return None
    if column.type.name in ("char", "nchar"):
        return value + " " * (5 - len(value.encode("utf-16-le")) // 2)
    if column.type.name == "datetime" and value.microsecond == 997000:
        return value.replace(microsecond=996667)
    return value


@pytest.mark.parametrize("nullable", [True, False])
def test_every_type_is_read(nullable):
    table, _ = all_types(nullable)
    with Server(ScriptedEngine(t=table)) as server:
        connection = core(server)
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM t")
        rows = [tuple(row) for row in cursor.fetchall()]
        connection.close()
    assert rows == [
        tuple(as_read(*pair) for pair in zip(table.columns, row, strict=True)) for row in table.rows
    ]


def test_two_connections_load_at_the_same_time(server, engine):
    """Each into a table of its own; the threads of the server do not meet."""
    columns = engine.tables["t"].columns
    sources = {name: pairs(3000 + i) for i, name in enumerate(("a", "b", "c"))}
    for name in sources:
        engine.tables[name] = Table(*columns)

    def load(name: str) -> None:
        connection = core(server)
        connection.cursor().bulkcopy_arrow(f"dbo.{name}", sources[name][0])
        connection.close()

    threads = [threading.Thread(target=load, args=(name,)) for name in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(engine.tables[name].rows == rows for name, (_, rows) in sources.items())


def test_missing_database_is_told_by_the_first_error(server):
    """By default it would try a second time, after ten seconds."""
    with pytest.raises(RuntimeError, match="Sql Error: 4060: Class 11: State 1"):
        core(server, database="nosuch", connect_retry_count=0)
