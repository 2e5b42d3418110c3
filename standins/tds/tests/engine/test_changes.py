"""INSERT, UPDATE, DELETE and MERGE of the engine."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    connected,
    count,
    engine_of_a_module,
    fresh,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import Count, Parameter, SqlType

engine = pytest.fixture(scope="module")(engine_of_a_module)


@pytest.fixture
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    run(made, "CREATE TABLE t (id int NOT NULL PRIMARY KEY, v nvarchar(10), n int DEFAULT 7)")
    run(made, "INSERT INTO t VALUES (1, N'a', 1), (2, N'b', 2), (3, N'c', NULL)")
    yield made
    made.close()


def everything(session: DuckSession) -> list[tuple]:
    return rows(session, "SELECT * FROM t ORDER BY id")


def test_defaults_and_missing_columns(session):
    run(
        session, "INSERT INTO t (id) VALUES (4); INSERT INTO t (v, id, n) VALUES (N'x', 5, DEFAULT)"
    )
    run(session, "INSERT INTO t (id, n) VALUES (6, NULL), (7, 1 + 1)")
    assert everything(session)[3:] == [(4, None, 7), (5, "x", 7), (6, None, None), (7, None, 2)]


def test_literals_of_many_rows_have_one_type(session):
    run(
        session,
        "CREATE TABLE lit (a decimal(9, 3), b nvarchar(9), c float, d bigint, e varbinary(4))",
    )
    run(
        session,
        "INSERT INTO lit VALUES (1, N'é', 1, 5000000000, 0x01), (2.5, 'x', 2.5e-1, -1,"
        " NULL), (-.125, NULL, -3, NULL, 0xFF)",
    )
    assert rows(session, "SELECT * FROM lit ORDER BY a") == [
        (Decimal("-0.125"), None, -3.0, None, b"\xff"),
        (Decimal("1.000"), "é", 1.0, 5000000000, b"\x01"),
        (Decimal("2.500"), "x", 0.25, -1, None),
    ]


def test_output_of_an_insert(session):
    found = rows(
        session,
        "INSERT INTO t (id, v) OUTPUT inserted.n, inserted.id * 10 AS ten, inserted.*"
        " VALUES (8, N'h'), (9, N'i')",
    )
    assert found == [(7, 80, 8, "h", 7), (7, 90, 9, "i", 7)]


def test_identity(session):
    run(session, "CREATE TABLE s (id int IDENTITY(100, 10) PRIMARY KEY, v int)")
    assert rows(session, "INSERT INTO s (v) OUTPUT inserted.id VALUES (1), (2), (3)") == [
        (100,),
        (110,),
        (120,),
    ]
    assert rows(session, "SELECT SCOPE_IDENTITY(), @@IDENTITY, IDENT_CURRENT('s')") == [
        (120, 120, 120)
    ]
    run(session, "INSERT INTO s SELECT id FROM t WHERE id = 1; INSERT INTO s DEFAULT VALUES")
    assert rows(session, "SELECT * FROM s WHERE id > 120 ORDER BY id") == [(130, 1), (140, None)]
    run(session, "TRUNCATE TABLE s; INSERT INTO s (v) VALUES (5)")
    assert rows(session, "SELECT * FROM s") == [(100, 5)]


def test_insert_of_a_query(session):
    assert (
        count(session, "INSERT INTO t (id, v) SELECT id + 10, UPPER(v) FROM t WHERE n IS NOT NULL")
        == 2
    )
    assert count(session, "WITH c AS (SELECT 20 AS id) INSERT INTO t (id) SELECT id FROM c") == 1
    assert [row[:2] for row in everything(session)[3:]] == [(11, "A"), (12, "B"), (20, None)]


def test_insert_with_parameters(session):
    given = [
        Parameter("@P1", SqlType("bigint"), 4),
        Parameter("@P2", SqlType("varchar", 20), "four"),
    ]
    run(session, "INSERT INTO t (id, v) VALUES (@P1, @P2)", *given)
    assert everything(session)[3] == (4, "four", 7)


def test_update(session):
    assert count(session, "UPDATE t SET n = id * 2, v = v + N'!' WHERE id < 3") == 2
    run(session, "UPDATE t SET n += 5 WHERE id = 1; UPDATE t SET n = DEFAULT WHERE id = 3")
    assert everything(session) == [(1, "a!", 7), (2, "b!", 4), (3, "c", 7)]


def test_update_sees_the_values_before(session):
    run(session, "UPDATE t SET id = id + 1")
    assert everything(session) == [(2, "a", 1), (3, "b", 2), (4, "c", None)]
    assert refused(session, "UPDATE t SET id = 1").number == 2627
    assert [row[0] for row in everything(session)] == [2, 3, 4]


def test_output_of_an_update(session):
    found = rows(
        session, "UPDATE t SET n = 9 OUTPUT deleted.n, inserted.n, inserted.id WHERE id IN (1, 3)"
    )
    assert sorted(found, key=lambda row: row[2]) == [(1, 9, 1), (None, 9, 3)]


def test_update_from_a_join(session):
    run(
        session,
        "CREATE TABLE u (id int, w nvarchar(10)); INSERT INTO u VALUES (1, N'one'), (3, N'three')",
    )
    found = rows(
        session,
        "UPDATE x SET v = u.w OUTPUT inserted.id, u.w FROM t AS x JOIN u ON u.id = x.id"
        " WHERE u.id > 1",
    )
    assert found == [(3, "three")]
    run(session, "UPDATE t SET v = u.w FROM t JOIN u ON u.id = t.id WHERE t.id = 1")
    assert [row[1] for row in everything(session)] == ["one", "b", "three"]


def test_delete(session):
    assert rows(session, "DELETE FROM t OUTPUT deleted.id, deleted.v WHERE id = 2") == [(2, "b")]
    assert count(session, "DELETE t WHERE id = 99") == 0
    run(session, "CREATE TABLE u (id int); INSERT INTO u VALUES (1), (1)")
    assert count(session, "DELETE x FROM t x JOIN u ON u.id = x.id") == 1
    assert [row[0] for row in everything(session)] == [3]
    assert count(session, "DELETE TOP (5) FROM u") == 2


def test_output_into_a_table(session):
    run(session, "CREATE TABLE log (id int, was nvarchar(10))")
    found = run(
        session, "DELETE FROM t OUTPUT deleted.id, deleted.v INTO log (id, was) WHERE id < 3"
    )
    assert found == [Count(2)]
    assert rows(session, "SELECT * FROM log ORDER BY id") == [(1, "a"), (2, "b")]


def test_merge(session):
    found = rows(
        session,
        """MERGE INTO dbo.t WITH (HOLDLOCK) AS t
        USING (VALUES (1, N'new'), (2, NULL), (5, N'five')) AS s (id, v) ON t.id = s.id
        WHEN MATCHED AND s.v IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v, n = t.n + 100
        WHEN NOT MATCHED BY TARGET THEN INSERT (id, v) VALUES (s.id, s.v)
        WHEN NOT MATCHED BY SOURCE AND t.id > 2 THEN UPDATE SET v = N'alone'
        OUTPUT $action, inserted.id, deleted.id, s.v;""",
    )
    assert sorted(found, key=str) == sorted(
        [("DELETE", None, 2, None), ("UPDATE", 1, 1, "new"), ("INSERT", 5, None, "five"),
         ("UPDATE", 3, 3, None)],
        key=str,
    )  # fmt: skip
    assert everything(session) == [(1, "new", 101), (3, "alone", None), (5, "five", 7)]


def test_merge_from_a_table(session):
    run(session, "CREATE TABLE s (id int, v nvarchar(10)); INSERT INTO s SELECT id + 1, v FROM t")
    assert count(
        session,
        "MERGE t USING s ON s.id = t.id WHEN MATCHED THEN UPDATE SET t.v = s.v"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 0);",
    ) == 3  # fmt: skip
    assert everything(session) == [(1, "a", 1), (2, "a", 2), (3, "b", None), (4, "c", 0)]


def test_a_merge_that_fails_changes_nothing(session):
    before = everything(session)
    assert refused(
        session,
        "MERGE t USING (VALUES (1), (9)) AS s (id) ON s.id = t.id WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, N'far too long for it');",
    ).number == 2628  # fmt: skip
    assert everything(session) == before


def test_foreign_keys_within_one_table(session):
    run(session, "CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree (id))")
    run(session, "INSERT INTO tree VALUES (1, NULL), (2, 1)")
    assert refused(session, "INSERT INTO tree VALUES (3, 9)").number == 547
    assert refused(session, "DELETE FROM tree WHERE id = 1").number == 547
    run(session, "DELETE FROM tree WHERE id = 2; DELETE FROM tree WHERE id = 1")
    assert value(session, "SELECT COUNT(*) FROM tree") == 0


def test_select_into(session):
    assert count(session, "SELECT id, v AS w INTO copied FROM t WHERE id > 1") == 2
    assert rows(session, "SELECT * FROM copied ORDER BY id") == [(2, "b"), (3, "c")]
    run(session, "SELECT * INTO #mine FROM t")
    assert value(session, "SELECT COUNT(*) FROM #mine") == 3


def test_temporary_tables_are_the_session_s_own(engine, session):
    run(session, "CREATE TABLE #x (id int); INSERT INTO #x VALUES (1)")
    other = connected(engine, session.database)
    assert refused(other, "SELECT * FROM #x").number == 208
    run(other, "CREATE TABLE #x (id int)")
    assert rows(other, "SELECT * FROM #x") == []
    assert rows(session, "SELECT #x.id FROM #x JOIN t ON t.id = #x.id") == [(1,)]
    other.close()


def test_what_a_reader_has_not_read_does_not_linger(session):
    answers = session.run("SELECT a.id FROM t a CROSS JOIN t b CROSS JOIN t c; SELECT 1")
    next(answers)
    answers.close()
    assert value(session, "SELECT COUNT(*) FROM t") == 3
    run(session, "DROP TABLE t")


def test_merge_gives_identity_values_where_that_is_set(session):
    run(session, "CREATE TABLE numbered (id int IDENTITY, v int)")
    merge = (
        "MERGE INTO numbered AS t USING (SELECT 5 AS id) AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 1);"
    )
    assert refused(session, merge).number == 544
    run(session, f"SET IDENTITY_INSERT numbered ON; {merge} SET IDENTITY_INSERT numbered OFF")
    run(session, "INSERT INTO numbered (v) VALUES (2)")
    assert rows(session, "SELECT id, v FROM numbered ORDER BY id") == [(5, 1), (6, 2)]
