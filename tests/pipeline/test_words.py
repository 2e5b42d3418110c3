"""Comments, keywords and brackets in odd places; and what a statement that fails leaves behind."""

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, ServerError
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import SearchPath
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from tests.pipeline.targets import Bench

pytestmark = pytest.mark.memory
ROWS = [(1, 10, "a"), (2, 20, "b"), (3, 30, "c")]


@pytest.fixture
def m():
    catalog = MemoryCatalog()
    session = Session({"m": catalog}, SessionResources())
    made = Bench("memory", session, catalog)
    made.sql("CREATE SCHEMA m.dbo; USE m.dbo; CREATE TABLE t (id INT NOT NULL, a INT, b VARCHAR)")
    made.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
    made.sql("CREATE TABLE s AS SELECT 1 AS id, 5 AS v")
    yield made
    session.close()


def t(m):
    return m.rows("FROM t ORDER BY id")


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("DELETE FROM t USING s -- c\nWHERE t.id = s.id\n/* done */", ROWS[1:]),
        ("UPDATE t SET a = s.v FROM s -- c\nWHERE t.id = s.id", [(1, 5, "a"), *ROWS[1:]]),
        ("UPDATE t SET a = 1 -- c\n WHERE id = 1; -- end", [(1, 1, "a"), *ROWS[1:]]),
        ("DELETE FROM t WHERE id = 1 -- c", ROWS[1:]),
        ("UPDATE t SET b = E'(' WHERE id = 1", [(1, 10, "("), *ROWS[1:]]),
        ("UPDATE t SET b = $$where$$ WHERE id = 1", [(1, 10, "where"), *ROWS[1:]]),
        ("UPDATE t SET a = CASE WHEN id = 1 THEN 7 ELSE a END", [(1, 7, "a"), *ROWS[1:]]),
        ("WITH x AS (SELECT 4 AS i) INSERT INTO t SELECT i, i, 'w' FROM x", [*ROWS, (4, 4, "w")]),
        (
            "INSERT INTO t SELECT 4, 4, 'ON CONFLICT' /* RETURNING */",
            [*ROWS, (4, 4, "ON CONFLICT")],
        ),
    ],
)
def test_only_the_rows_that_are_meant(m, text, after):
    m.sql(text)
    assert t(m) == after


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS a -- c",
        "SELECT 1 AS a; -- end",
        "/* x */ SELECT 1 AS a /* y */;",
        "-- x\nVALUES (1)",
    ],
)
def test_comments_around_a_query(m, text):
    assert m.rows(text) == [(1,)]


def test_comments_around_other_statements(m):
    m.sql("CREATE TABLE u AS SELECT 1 AS a -- c")
    m.sql("CREATE TABLE w AS SELECT 1 AS a WITH DATA")
    m.sql("SET engine = duckdb -- c\n; DROP TABLE u; -- end")
    assert "u" not in m.tables()


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (5, 1, 'q') RETURNING nosuch",
        "UPDATE t SET a = 0 RETURNING nosuch",
        "DELETE FROM t RETURNING error('x')",
        "DELETE FROM t RETURNING (SELECT max(id) FROM s)",
        "INSERT INTO t VALUES (5, 1, 'q') RETURNING (FROM read_text('/etc/hostname'))",
        "CREATE TABLE k ON COMMIT PRESERVE ROWS AS SELECT 1 AS x",
        "CREATE TABLE k AS SELECT row(1, 2) AS c",
        "SELECT " + "+".join(["1"] * 3000),
        "EXPLAIN PIVOT t ON b",
        "FROM t AT (VERSION => (SELECT max(id) FROM s))",
    ],
)
def test_what_fails_has_done_nothing(m, text):
    with pytest.raises(ServerError) as caught:
        m.sql(text)
    assert "\n" not in str(caught.value)
    assert t(m) == ROWS
    assert sorted(m.tables()) == ["s", "t"]


def test_returning_tells_each_row_once(m):
    m.sql("INSERT INTO s VALUES (1, 6)")
    found = m.rows("UPDATE t SET a = s.v FROM s WHERE t.id = s.id RETURNING t.*")
    assert found == t(m)[:1]
    assert len(m.rows("DELETE FROM t USING s WHERE t.id = s.id RETURNING id -- c")) == 1


def test_inserts_in_a_transaction(m):
    m.sql("BEGIN; INSERT INTO t VALUES (4, 1, 'q')")
    assert m.rows("INSERT INTO t VALUES (5, 1, 'q') RETURNING id") == [(5,)]
    m.sql("ROLLBACK; BEGIN; UPDATE t SET a = 0 WHERE id = 1")
    with pytest.raises(FailedPrecondition, match="INSERT after UPDATE"):
        m.sql("INSERT INTO t VALUES (5, 1, 'q')")
    m.sql("ROLLBACK; BEGIN; CREATE OR REPLACE TABLE t AS SELECT 1 AS z")
    with pytest.raises(FailedPrecondition, match="INSERT after CREATE OR REPLACE"):
        m.sql("INSERT INTO t VALUES (5, 1, 'q')")
    m.sql("ROLLBACK")
    assert t(m) == ROWS


def test_columns_with_defaults_and_keys(m):
    m.sql("ALTER TABLE t ADD COLUMN d DATE DEFAULT '2020-01-01'::DATE")
    m.sql("ALTER TABLE t ADD COLUMN n VARCHAR DEFAULT 'PRIMARY KEY'")
    m.sql("ALTER TABLE t ADD PRIMARY KEY (id)")
    (key,) = m.catalog.load_schema("dbo").load_table("t").info().keys
    assert key.primary
    assert m.rows("SELECT n FROM t LIMIT 1") == [("PRIMARY KEY",)]


@pytest.mark.parametrize(
    ("query", "required"),
    [
        ("SELECT id FROM t", True),
        ("SELECT id FROM dbo.t", True),
        ("WITH t AS (SELECT NULL::INT AS id) SELECT id FROM t", False),
        ("FROM t LEFT JOIN s USING (id) SELECT s.v AS id", False),
        ("SELECT q.id FROM s LEFT JOIN (s b JOIN t q ON b.id = q.id) ON s.id = b.v", False),
        ("SELECT id FROM t AS q(x, id, y)", False),
        ("SELECT count_if(NULL) AS id FROM t WHERE FALSE", False),
    ],
)
def test_not_null_is_inferred_where_it_is_certain(m, query, required):
    m.sql(f"CREATE TABLE x AS {query}")
    assert m.columns("x")[0][2] is required


def test_show_in_any_case(m):
    assert m.rows("SHOW SETTINGS") == m.rows("show all")
    with pytest.raises(BadRequest, match="expected the end of the statement before"):
        m.sql("SHOW TABLES FROM other")


def test_the_schema_of_functions_is_taken(m):
    with pytest.raises(AlreadyExists, match="functions of the server"):
        m.sql("CREATE SCHEMA m.jetbridge")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM pg_settings, (WITH pg_settings AS (SELECT 1) SELECT 1 FROM pg_settings) q",
        "FROM t AT (VERSION => (SELECT error(setting) FROM pg_settings))",
        "INSERT INTO t VALUES (5, 1, current_setting('temp_directory'))",
        "INSERT INTO t VALUES (5, 1, 'q') RETURNING current_setting('temp_directory')",
        "DELETE FROM t RETURNING (SELECT count(*) FROM duckdb_settings())",
        "FROM t AT (VERSION => current_setting('threads'))",
    ],
)
def test_a_caller_learns_nothing_of_the_server(m, text):
    path = SearchPath("m", "dbo")
    caller = Session({"m": m.catalog}, SessionResources(AccessRules()), search_path=path)
    try:
        found = [outcome.table().to_pydict() for outcome in run(caller, text)]
    except ServerError:
        found = []
    caller.close()
    assert "temp_directory" not in str(found)
    assert t(m) == ROWS
