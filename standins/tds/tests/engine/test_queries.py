"""Queries of the engine."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.tests.engine.calls import (
    answers,
    columns,
    connected,
    engine_of_a_module,
    fresh,
    messages,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import Count, Database, Parameter, SqlType

engine = pytest.fixture(scope="module")(engine_of_a_module)
SETUP = """
CREATE SCHEMA app
CREATE TABLE people (
    id int NOT NULL PRIMARY KEY, name nvarchar(20), boss int NULL, pay decimal(9, 2))
INSERT INTO people VALUES
    (1, N'Anna', NULL, 10.5), (2, N'bert', 1, 20), (3, N'Carl', 1, NULL), (4, N'dora', 2, 5)
CREATE TABLE app.[odd ]] name] ([select] int, [Größe] nvarchar(5))
INSERT INTO app.[odd ]] name] VALUES (1, N'x')
"""


@pytest.fixture(scope="module")
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    run(made, SETUP)
    run(
        made,
        "CREATE VIEW bosses AS SELECT DISTINCT b.id, b.name FROM people p JOIN people b"
        " ON b.id = p.boss",
    )
    run(
        made,
        "CREATE VIEW named (a, b) AS WITH c AS (SELECT id, pay FROM people) SELECT id,"
        " pay * 2 FROM c WHERE pay IS NOT NULL",
    )
    yield made
    made.close()


QUERIES = [
    ("SELECT TOP 2 id FROM people ORDER BY id DESC", [(4,), (3,)]),
    ("SELECT TOP (1 + 1) id FROM people ORDER BY id", [(1,), (2,)]),
    ("SELECT TOP 0 * FROM people", []),
    ("SELECT id FROM people ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY", [(2,), (3,)]),
    ("SELECT id FROM people ORDER BY id OFFSET 3 ROWS", [(4,)]),
    ("SELECT name FROM people ORDER BY name", [("Anna",), ("bert",), ("Carl",), ("dora",)]),
    ("SELECT name AS n FROM people ORDER BY n DESC", [("dora",), ("Carl",), ("bert",), ("Anna",)]),
    ("SELECT id, pay FROM people ORDER BY 2, 1",
     [(3, None), (4, Decimal("5.00")), (1, Decimal("10.50")), (2, Decimal("20.00"))]),
    ("SELECT pay FROM people WHERE id = 3 OR pay > 10 ORDER BY pay DESC",
     [(Decimal("20.00"),), (Decimal("10.50"),), (None,)]),
    ("SELECT p.name, b.name FROM people p LEFT JOIN people AS b ON b.id = p.boss ORDER BY p.id",
     [("Anna", None), ("bert", "Anna"), ("Carl", "Anna"), ("dora", "bert")]),
    ("SELECT people.id FROM dbo.people WHERE dbo.people.name = 'ANNA'", [(1,)]),
    ("SELECT boss, COUNT(*), SUM(pay), AVG(id) FROM people GROUP BY boss ORDER BY boss",
     [(None, 1, Decimal("10.50"), 1), (1, 2, Decimal("20.00"), 2), (2, 1, Decimal("5.00"), 4)]),
    ("SELECT boss FROM people GROUP BY boss HAVING COUNT(*) > 1", [(1,)]),
    ("SELECT LEFT(name, 1), COUNT(*) FROM people GROUP BY LEFT(name, 1) ORDER BY LEFT(name, 1)",
     [("A", 1), ("b", 1), ("C", 1), ("d", 1)]),
    ("SELECT COUNT(*), COUNT(pay), COUNT_BIG(*), MIN(name), MAX(pay) FROM people",
     [(4, 3, 4, "Anna", Decimal("20.00"))]),
    ("SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM people c WHERE c.boss ="
     " p.id) ORDER BY id", [(1,), (2,)]),
    ("SELECT id FROM people WHERE id NOT IN (SELECT boss FROM people WHERE boss IS"
     " NOT NULL) ORDER BY id", [(3,), (4,)]),
    ("SELECT id, (SELECT COUNT(*) FROM people c WHERE c.boss = p.id) AS n FROM people"
     " p ORDER BY n DESC, id",
     [(1, 2), (2, 1), (3, 0), (4, 0)]),
    ("WITH a AS (SELECT id FROM people WHERE id < 3), b (x) AS (SELECT id + 10 FROM"
     " a) SELECT x FROM b ORDER BY x",
     [(11,), (12,)]),
    ("SELECT id FROM people WHERE id < 2 UNION ALL SELECT 1 UNION ALL SELECT 9 ORDER"
     " BY id DESC", [(9,), (1,), (1,)]),
    ("SELECT id FROM people INTERSECT SELECT 2", [(2,)]),
    ("SELECT v.x, q.y FROM (VALUES (1), (2)) AS v(x) CROSS APPLY (SELECT id AS y FROM"
     " people WHERE boss = v.x) AS q ORDER BY 1, 2",
     [(1, 2), (1, 3), (2, 4)]),
    ("SELECT v.x, q.y FROM (VALUES (1), (3)) AS v(x) OUTER APPLY (SELECT TOP 1 id AS"
     " y FROM people WHERE boss = v.x ORDER BY id) AS q ORDER BY 1",
     [(1, 2), (3, None)]),
    ("SELECT id, ROW_NUMBER() OVER (PARTITION BY boss ORDER BY id DESC) FROM people ORDER BY id",
     [(1, 1), (2, 2), (3, 1), (4, 1)]),
    ("SELECT id, SUM(id) OVER (ORDER BY id), LAG(id) OVER (ORDER BY id) FROM people ORDER BY id",
     [(1, 1, None), (2, 3, 1), (3, 6, 2), (4, 10, 3)]),
    ("SELECT STRING_AGG(name, ', ') WITHIN GROUP (ORDER BY id DESC) FROM"
     " people", [("dora, Carl, bert, Anna",)]),
    ("SELECT * FROM bosses ORDER BY id", [(1, "Anna"), (2, "bert")]),
    ("SELECT a, b FROM named WHERE a > 1 ORDER BY"
     " a", [(2, Decimal("40.00")), (4, Decimal("10.00"))]),
    ("SELECT [select], [GRÖßE] FROM app.[odd ]] name]", [(1, "x")]),
    ("SELECT q.* FROM (SELECT id AS z FROM people) q WHERE z = 2", [(2,)]),
    ("SELECT a = id, 'x' b FROM people WHERE id = 1 OPTION (RECOMPILE)", [(1, "x")]),
    ("SELECT id FROM people WITH (NOLOCK) WHERE id = 1", [(1,)]),
    ("SELECT DISTINCT boss FROM people ORDER BY boss", [(None,), (1,), (2,)]),
    ("SELECT CASE WHEN pay IS NULL THEN 'none' ELSE CAST(pay AS varchar(10)) END FROM"
     " people WHERE id IN (1, 3) ORDER BY id",
     [("10.50",), ("none",)]),
    ("SELECT name FROM people WHERE name LIKE '%R%' ORDER BY"
     " id", [("bert",), ("Carl",), ("dora",)]),
    ("SELECT id FROM people WHERE (id > 1 AND id <= 3) OR NOT id <> 4 ORDER BY"
     " id", [(2,), (3,), (4,)]),
    ("SELECT x.id FROM people x, people y WHERE x.id = y.boss AND y.id = 4", [(2,)]),
    ("SELECT a.id FROM people a LEFT JOIN (people b INNER JOIN people c ON c.boss ="
     " b.id) ON b.boss = a.id WHERE c.id = 4", [(1,)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), QUERIES, ids=[each[0][:60] for each in QUERIES])
def test_queries(session, text, wanted):
    assert rows(session, text) == wanted


def test_names_of_columns_are_as_they_were_written(session):
    found = columns(
        session, "SELECT ID, people.Name, id + 1, id AS [a B], COUNT(*) OVER () AS n FROM people"
    )
    assert [each.name for each in found] == ["id", "name", "", "a B", "n"]
    assert [each.name for each in columns(session, "SELECT * FROM app.[odd ]] name]")] == [
        "select",
        "Größe",
    ]


def test_statements_need_no_semicolons(session):
    found = run(
        session,
        """SELECT 1 SELECT 2 -- comment; SELECT 3
        /* nested /* comment */ SELECT 4 */ SELECT 5 UNION SELECT 5
        DECLARE @a int = 1, @b nvarchar(10) SET @b = N'x;''y' SELECT @a, @b""",
    )
    assert [each for each in found if isinstance(each, list)] == [
        [(1,)],
        [(2,)],
        [(5,)],
        [(1, "x;'y")],
    ]


def test_flow(session):
    found = messages(
        session,
        """DECLARE @i int = 0
        WHILE @i < 10
        BEGIN
            SET @i += 1
            IF @i = 2 CONTINUE
            IF @i > 3 BREAK
            PRINT CONCAT('i is ', @i)
        END
        IF EXISTS (SELECT 1 FROM people WHERE id = 9) PRINT 'nine'
        ELSE IF @i = 4 PRINT 'four' ELSE PRINT 'else'
        RETURN
        PRINT 'not reached'""",
    )
    assert found == ["i is 1", "i is 3", "four"]


def test_variables_are_assigned_by_select(session):
    (found,) = rows(
        session,
        "DECLARE @n nvarchar(20), @c int; SELECT @n = name, @c = id FROM people WHERE id = 2;"
        " SELECT @n = name FROM people WHERE id = 99; SELECT @n, @c, @@ROWCOUNT",
    )
    assert found == ("bert", 2, 0)


def test_a_variable_grows_row_by_row(session):
    text = (
        "DECLARE @s nvarchar(max); SELECT @s = COALESCE(@s + N', ', N'') + QUOTENAME(p.name)"
        " FROM people p WHERE id < 4 ORDER BY id DESC; SELECT @s"
    )
    assert value(session, text) == "[Carl], [bert], [Anna]"


def test_texts_are_executed_with_their_parameters(session):
    found = run(
        session,
        """DECLARE @out int, @in int = 3
        EXEC sp_executesql N'SELECT @o = COUNT(*) FROM people WHERE id <= @i',
            N'@i int, @o int OUTPUT', @i = @in, @o = @out OUTPUT
        EXEC ('SELECT ' + '1' + ' AS one')
        SELECT @out""",
    )
    assert [each for each in found if isinstance(each, list)] == [[(1,)], [(3,)]]


def test_output_parameters_are_answered(session):
    given = [
        Parameter("@P1", SqlType("int"), 4),
        Parameter("@P2", SqlType("nvarchar", 20), None, output=True),
    ]
    run(session, "SELECT @P2 = name FROM people WHERE id = @P1", *given)
    assert session.outputs() == {"@P2": "dora"}


def test_parameters_are_compared_by_their_types(session):
    text = "SELECT id FROM people WHERE name = @P1 AND pay < @P2"
    given = [
        Parameter("@P1", SqlType("varchar", 10), "DORA"),
        Parameter("@P2", SqlType("decimal", None, 9, 2), Decimal("7.00")),
    ]
    assert rows(session, text, *given) == [(4,)]


def test_metadata_only_where_asked_for(session):
    found = answers(
        session, "SET FMTONLY ON; SELECT id, name FROM people; SET FMTONLY OFF; SELECT 1"
    )
    assert [each for each in found if isinstance(each, list)] == [[], [(1,)]]


def test_other_databases_are_named_or_entered(engine, session):
    other = fresh(engine)
    run(session, f"CREATE TABLE {other}.dbo.there (id int)")
    run(session, f"INSERT INTO {other}..there VALUES (7)")
    assert rows(session, f"SELECT id FROM {other}.dbo.there") == [(7,)]
    own = session.database
    found = run(session, f"USE [{other}]")
    assert Database(other, own) in found
    assert rows(session, "SELECT id, DB_NAME() FROM there") == [(7, other)]
    run(session, f"USE {own}")
    assert refused(session, "SELECT id FROM there").number == 208


def test_unknown_options_are_refused(session):
    run(session, "SET NOCOUNT, ANSI_NULLS ON; SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT -1")
    assert refused(session, "SET NOSUCH ON").number == 40000


def test_counts(session):
    found = run(
        session,
        "SELECT id FROM people; SELECT @@ROWCOUNT; UPDATE people SET boss = boss WHERE id > 2",
    )
    assert found[1] == [(4,)]
    assert found[2] == Count(2)
