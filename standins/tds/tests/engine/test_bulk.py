"""Bulk loads into the engine."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    connected,
    engine_of_a_module,
    fresh,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import SqlError, SqlType

engine = pytest.fixture(scope="module")(engine_of_a_module)


@pytest.fixture
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    yield made
    made.close()


def load(session: DuckSession, text: str, given: list[tuple]) -> int:
    bulk = session.bulk(text)
    bulk.append(given)
    return bulk.finish()


def failing(session: DuckSession, text: str, given: list[tuple]) -> SqlError:
    with pytest.raises(SqlError) as caught:
        load(session, text, given)
    return caught.value


HEAD = (
    "[id] int, [bt] bit, [ti] tinyint, [si] smallint, [bi] bigint, [r] real, [f] float,"
    " [d] decimal(18, 4), [nv] nvarchar(50) COLLATE x, [vm] varchar(max) COLLATE x,"
    " [vb] varbinary(max),"
    " [u] uniqueidentifier, [dt] date, [t7] time(7), [d2] datetime2(7), [dto]"
    " datetimeoffset(7), [ldt] datetime,"
    " [c] char(5) COLLATE x"
)
ROW = (
    1, True, 255, -5, 2**40, 1.5, 2.5, Decimal("3.2500"), "grüße 漢", "v", b"\x01\x02",
    UUID("00112233-4455-6677-8899-aabbccddeeff"), date(2024, 2, 29), time(13, 14, 15, 123456),
    datetime(2024, 2, 29, 13, 14, 15, 123456), datetime(2024, 2, 29, 13, 14, 15, tzinfo=UTC),
    datetime(2024, 2, 29, 13, 14, 15, 123000), "ab",
)  # fmt: skip


def test_rows_of_every_type(session):
    run(session, "CREATE TABLE t (" + HEAD.replace(" COLLATE x", "") + ")")
    nulls = (2, *(None,) * (len(ROW) - 1))
    assert load(session, f"INSERT BULK [dbo].[t] ({HEAD})", [ROW, nulls]) == 2
    found = rows(session, "SELECT * FROM t ORDER BY id")
    assert found == [(*ROW[:-1], "ab   "), nulls]


def test_columns_are_as_the_table_has_them(session):
    run(session, "CREATE TABLE t (id int NOT NULL, v nvarchar(5))")
    bulk = session.bulk("INSERT BULK t ([v] nvarchar(5), [id] int)")
    assert [(each.name, each.type, each.nullable) for each in bulk.columns] == [
        ("v", SqlType("nvarchar", 5), True),
        ("id", SqlType("int"), False),
    ]
    bulk.append([("a", 1)])
    assert bulk.finish() == 1
    assert rows(session, "SELECT id, v FROM t") == [(1, "a")]


def test_moments_come_as_texts_where_the_statement_says_so(session):
    """As the driver for Java sends them."""
    run(session, "CREATE TABLE t (id int NOT NULL, d datetime2(7))")
    head = "INSERT BULK t ([id] int, [d] varchar(27))"
    described = session.bulk(head)
    assert described.columns[1].type == SqlType("varchar", 27)
    described.abort()
    load(session, head, [(1, "2024-02-29 13:14:15.1234560"), (2, None)])
    assert rows(session, "SELECT id, d FROM t ORDER BY id") == [
        (1, datetime(2024, 2, 29, 13, 14, 15, 123456)),
        (2, None),
    ]
    assert failing(session, head, [(3, "2024-02-30 00:00:00")]).number == 241


START = datetime(2024, 1, 1)


def numbered(first: int, last: int) -> pa.RecordBatch:
    numbers = range(first, last)
    arrays = [
        pa.array(numbers, pa.int64()),
        pa.array([each / 2 for each in numbers]),
        pa.array([f"row {each}" for each in numbers]),
        pa.array([START + timedelta(seconds=each) for each in numbers], pa.timestamp("us")),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list("abcd"))


def test_two_hundred_thousand_rows(session):
    """As columns, in three batches of different length: every row once, every value its own."""
    run(session, "CREATE TABLE big (id bigint NOT NULL, f float, s nvarchar(max), d datetime2(7))")
    bulk = session.bulk(
        "INSERT BULK big ([id] bigint, [f] float, [s] nvarchar(max), [d] datetime2(7))"
        " WITH (TABLOCK)"
    )
    for first, last in ((0, 70_000), (70_000, 199_999), (199_999, 200_000)):
        bulk.append_columns(numbered(first, last))
    assert bulk.finish() == 200_000
    assert rows(
        session,
        "SELECT COUNT(*), COUNT(DISTINCT id), SUM(id), SUM(f), COUNT(DISTINCT s), MAX(d) FROM big",
    ) == [
        (
            200_000,
            200_000,
            19_999_900_000,
            9_999_950_000.0,
            200_000,
            START + timedelta(seconds=199_999),
        )
    ]
    assert (
        value(session, "SELECT COUNT(*) FROM big WHERE s <> CONCAT('row ', id) OR f * 2 <> id") == 0
    )
    assert value(session, "SELECT s FROM big WHERE id = 123456") == "row 123456"


def test_a_load_belongs_to_the_transaction_around(session):
    run(session, "CREATE TABLE t (id int); BEGIN TRAN; INSERT INTO t VALUES (0)")
    assert load(session, "INSERT BULK t (id int)", [(1,), (2,)]) == 2
    assert value(session, "SELECT COUNT(*) FROM t") == 3
    run(session, "ROLLBACK")
    assert value(session, "SELECT COUNT(*) FROM t") == 0
    run(session, "BEGIN TRAN")
    load(session, "INSERT BULK t (id int)", [(1,)])
    run(session, "COMMIT")
    assert rows(session, "SELECT id FROM t") == [(1,)]


def test_an_aborted_load_leaves_nothing(session):
    run(session, "CREATE TABLE t (id int); BEGIN TRAN; INSERT INTO t VALUES (0)")
    bulk = session.bulk("INSERT BULK t (id int)")
    bulk.append([(each,) for each in range(1000)])
    bulk._flush()
    bulk.append([(1,)])
    bulk.abort()
    bulk.abort()
    run(session, "COMMIT")
    assert rows(session, "SELECT id FROM t") == [(0,)]
    bulk = session.bulk("INSERT BULK t (id int)")
    bulk.append([(1,)])
    bulk.abort()
    assert rows(session, "SELECT id FROM t") == [(0,)]


REFUSALS = [
    ((None, "a", 1), 515, "column 'id'"),
    ((5, "much too long", 1), 2628, "column 'v'. Truncated value: 'much '."),
    ((2, "b", 1), 2627, "The duplicate key value is (2)."),
    ((6, "b", 300), 220, "tinyint, value = 300"),
]


@pytest.mark.parametrize(("row", "number", "words"), REFUSALS)
def test_a_refused_row_refuses_the_load(session, row, number, words):
    run(session, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v nvarchar(5), ti tinyint)")
    run(
        session,
        "INSERT INTO t VALUES (2, N'two', 2); BEGIN TRAN; INSERT INTO t VALUES (3, N'x', 3)",
    )
    failure = failing(
        session, "INSERT BULK t (id int, v nvarchar(20), ti int)", [(4, "ok", 4), row]
    )
    assert (failure.number, words in failure.text) == (number, True), failure.text
    run(session, "INSERT INTO t VALUES (4, N'y', 4); COMMIT")
    assert rows(session, "SELECT id FROM t ORDER BY id") == [(2,), (3,), (4,)]


def test_a_key_twice_in_one_load_is_refused(session):
    run(session, "CREATE TABLE t (id int NOT NULL PRIMARY KEY)")
    assert failing(session, "INSERT BULK t (id int)", [(1,), (2,), (1,)]).number == 2627
    assert value(session, "SELECT COUNT(*) FROM t") == 0


def test_xact_abort_takes_the_transaction_with_it(session):
    run(
        session,
        "CREATE TABLE t (id int NOT NULL); SET XACT_ABORT ON; BEGIN TRAN; INSERT INTO t VALUES (1)",
    )
    assert failing(session, "INSERT BULK t (id int)", [(None,)]).number == 515
    assert value(session, "SELECT @@TRANCOUNT") == 0
    assert value(session, "SELECT COUNT(*) FROM t") == 0


def test_defaults_fill_what_is_not_given(session):
    run(session, "CREATE TABLE t (id int, a int DEFAULT 7, b nvarchar(5) DEFAULT N'x', n int)")
    load(session, "INSERT BULK t (id int, a int)", [(1, None), (2, 5)])
    load(session, "INSERT BULK t (id int, a int) WITH (KEEP_NULLS)", [(3, None)])
    assert rows(session, "SELECT * FROM t ORDER BY id") == [
        (1, 7, "x", None), (2, 5, "x", None), (3, None, "x", None),
    ]  # fmt: skip


def test_identity_counts_unless_values_are_given(session):
    run(session, "CREATE TABLE t (id int IDENTITY(10, 10), v int)")
    load(session, "INSERT BULK t (v int)", [(1,), (2,)])
    load(session, "INSERT BULK t (id int, v int)", [(100, 3)])
    load(session, "INSERT BULK t (v int)", [(4,)])
    assert rows(session, "SELECT id, v FROM t ORDER BY v") == [(10, 1), (20, 2), (100, 3), (110, 4)]


def test_check_constraints_are_checked_when_asked_for(session):
    run(session, "CREATE TABLE t (id int CHECK (id > 0))")
    failure = failing(session, "INSERT BULK t (id int) WITH (CHECK_CONSTRAINTS)", [(1,), (-1,)])
    assert failure.number == 547
    load(session, "INSERT BULK t (id int)", [(-1,)])
    assert rows(session, "SELECT id FROM t") == [(-1,)]


def test_a_load_into_nothing_is_refused(session):
    for text, number in (("INSERT BULK nosuch (id int)", 208), ("INSERT BULK t (nosuch int)", 207)):
        run(session, "IF OBJECT_ID('t') IS NULL CREATE TABLE t (id int)")
        with pytest.raises(SqlError) as caught:
            session.bulk(text)
        assert caught.value.number == number


def test_without_rows_nothing_happens(session):
    run(session, "CREATE TABLE t (id int)")
    assert session.bulk("INSERT BULK t (id int)").finish() == 0
    assert refused(session, "COMMIT").number == 3902
