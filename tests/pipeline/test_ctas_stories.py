"""The stories of the CTAS document, one test for each scenario, on every target."""

import pytest

from jetbridge.errors import AlreadyExists, BadRequest, NotFound, NotSupported
from tests.pipeline.targets import only_on


def test_us1_1_names_types_not_null_and_the_row(target):
    target.sql("CREATE TABLE t.dbo.us1_1 AS SELECT 1 AS id, 'x' AS name")
    assert target.columns("us1_1") == [("id", "INTEGER", True), ("name", "VARCHAR", False)]
    assert target.rows("FROM t.dbo.us1_1") == [(1, "x")]


def test_us1_2_all_rows_arrive(target):
    query = "SELECT i AS id, 'n' || i AS name, i % 7 AS m FROM range(1000) r(i)"
    target.sql(f"CREATE TABLE t.dbo.us1_2 AS {query}")
    assert same(target, "t.dbo.us1_2", query)


def test_us1_3_a_missing_schema_is_named_with_the_remedy(target):
    with pytest.raises(NotFound, match=r"schema 't\.nope' does not exist; .*CREATE SCHEMA t\.nope"):
        target.sql("CREATE TABLE t.nope.x AS SELECT 1 AS id")


@pytest.mark.xdist_group("spark")
def test_us2_1_sc_002_a_million_rows(target):
    query = "SELECT i AS id, i * 3 AS v FROM range(1000000) r(i)"
    report = target.report(f"CREATE TABLE t.dbo.us2_1 AS {query}")
    assert (report["rows_produced"], report["rows_written"]) == (1_000_000, 1_000_000)
    found = target.rows("SELECT count(*), count(DISTINCT id), sum(v)::BIGINT FROM t.dbo.us2_1")
    assert found == [(1_000_000, 1_000_000, 1_499_998_500_000)]


TYPES = {
    "TRUE": "BOOLEAN",
    "1::TINYINT": "TINYINT",
    "1::SMALLINT": "SMALLINT",
    "1": "INTEGER",
    "1::BIGINT": "BIGINT",
    "1.5::FLOAT": "FLOAT",
    "1.5::DOUBLE": "DOUBLE",
    "1.25::DECIMAL(9,2)": "DECIMAL(9,2)",
    "'x'": "VARCHAR",
    "'123e4567-e89b-12d3-a456-426614174000'::UUID": "UUID",
    "'ab'::BLOB": "BLOB",
    "DATE '2024-02-29'": "DATE",
    "TIME '12:34:56.789'": "TIME",
    "TIMESTAMP '2024-02-29 12:00:00.123456'": "TIMESTAMP",
    "TIMESTAMPTZ '2024-02-29 12:00:00+02'": "TIMESTAMP WITH TIME ZONE",
}


def test_us3_1_sc_003_every_type_of_the_table(target):
    columns = ", ".join(f"{text} AS c{i}" for i, text in enumerate(TYPES))
    target.sql(f"CREATE TABLE t.dbo.us3_1 AS SELECT {columns}")
    # What SQL Server calls tinyint has no sign.
    unsigned = {"TINYINT": "UTINYINT"} if target.kind == "mssql" else {}
    kinds = [unsigned.get(kind, kind) for kind in TYPES.values()]
    assert [kind for _, kind, _ in target.columns("us3_1")] == kinds
    assert same(target, "t.dbo.us3_1", f"SELECT {columns}")


def test_us3_3_fr_017_decimals_of_any_size(target):
    target.sql("CREATE TABLE t.dbo.us3_3 AS SELECT 1::DECIMAL(38,10) AS a, 2::DECIMAL(1,0) AS b")
    kinds = [kind for _, kind, _ in target.columns("us3_3")]
    assert kinds == ["DECIMAL(38,10)", "DECIMAL(1,0)"]


@only_on("lake")
def test_us3_2_fr_012_sc_004_a_type_that_cannot_be_kept_is_named_before_anything_is_made(target):
    with pytest.raises((BadRequest, NotSupported), match="'v'"):
        target.sql("CREATE TABLE t.dbo.us3_2 AS SELECT 1 AS id, 1::VARIANT AS v")
    assert "us3_2" not in target.tables()


def test_us6_1_a_committed_transaction(target):
    target.sql("BEGIN; CREATE TABLE t.dbo.us6_1 AS SELECT 1 AS id; COMMIT")
    assert target.rows("FROM t.dbo.us6_1") == [(1,)]


def test_us6_2_a_transaction_that_is_rolled_back(target):
    target.sql("BEGIN; CREATE TABLE t.dbo.us6_2 AS SELECT 1 AS id; ROLLBACK")
    assert "us6_2" in target.tables(), "DDL is done at once"
    assert target.columns("us6_2") == [("id", "INTEGER", True)]
    assert target.rows("FROM t.dbo.us6_2") == []


def test_us7_1_or_replace_an_existing_table(target):
    target.sql("CREATE TABLE t.dbo.us7_1 AS SELECT 1 AS id, 'old' AS name")
    target.sql("CREATE OR REPLACE TABLE t.dbo.us7_1 AS SELECT 'new' AS other FROM range(3)")
    assert target.columns("us7_1") == [("other", "VARCHAR", False)]
    assert target.rows("FROM t.dbo.us7_1") == [("new",)] * 3


def test_us7_2_or_replace_without_a_table(target):
    target.sql("CREATE OR REPLACE TABLE t.dbo.us7_2 AS SELECT 1 AS id")
    assert target.rows("FROM t.dbo.us7_2") == [(1,)]


def test_us7_3_a_replacement_that_fails_leaves_the_old_table(target):
    target.sql("CREATE TABLE t.dbo.us7_3 AS SELECT 1 AS id")
    with pytest.raises(BadRequest, match="too big"):
        target.sql(
            "CREATE OR REPLACE TABLE t.dbo.us7_3 AS "
            "SELECT CASE WHEN i = 99999 THEN error('too big') ELSE i END AS id "
            "FROM range(100000) r(i)"
        )
    assert target.rows("FROM t.dbo.us7_3") == [(1,)]


def test_edge_the_table_exists(target):
    target.sql("CREATE TABLE t.dbo.edge_1 AS SELECT 1 AS id")
    with pytest.raises(AlreadyExists, match=r"'t\.dbo\.edge_1' already exists; use CREATE OR REPL"):
        target.sql("CREATE TABLE t.dbo.edge_1 AS SELECT 2 AS id")
    assert target.rows("FROM t.dbo.edge_1") == [(1,)]


def test_edge_no_rows(target):
    target.sql("CREATE TABLE t.dbo.edge_2 AS SELECT 1 AS id, 'x' AS name WHERE FALSE")
    assert [kind for _, kind, _ in target.columns("edge_2")] == ["INTEGER", "VARCHAR"]
    assert target.rows("FROM t.dbo.edge_2") == []


def test_edge_fr_010_names_of_any_kind(target):
    names = ["select", "a b", 'a"b', "a]b", "größe", "日本", "x" * 128, "Select2"]
    listed = ", ".join(
        f'{i} AS "{name.replace(chr(34), chr(34) * 2)}"' for i, name in enumerate(names)
    )
    target.sql(f'CREATE TABLE t.dbo."order by]" AS SELECT {listed}')
    assert [name for name, _, _ in target.columns("order by]")] == names
    assert target.rows('FROM t.dbo."order by]"') == [tuple(range(len(names)))]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT nothing FROM range(3)",
        "SELECT sum('x')",
        "SELECT error('at run time') AS e",
        "SELECT CASE i WHEN 149999 THEN error('last') ELSE i END AS e FROM range(150000) r(i)",
        "SELECT * FROM t.dbo.not_there",
    ],
)
def test_edge_fr_002_a_query_that_fails_makes_nothing(target, query):
    with pytest.raises((BadRequest, NotFound)) as caught:
        target.sql(f"CREATE TABLE t.dbo.edge_3 AS {query}")
    assert "\n" not in str(caught.value)
    assert "edge_3" not in target.tables()
    assert target.left_behind() == []


def same(bench, table: str, query: str) -> bool:
    """Return whether the table has just the rows of the query: by EXCEPT ALL both ways."""
    there, wanted = f"SELECT * FROM {table}", f"SELECT * FROM ({query})"
    return not bench.rows(f"({there} EXCEPT ALL {wanted}) UNION ALL ({wanted} EXCEPT ALL {there})")
