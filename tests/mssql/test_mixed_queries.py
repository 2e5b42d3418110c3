"""Queries over SQL Server, the lake and files at once: no more is read than they need."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from jetbridge.backends.mssql.read import scan
from jetbridge.backends.mssql.settings import SETTINGS
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from tests.helpers import lakes, mssql_server
from tests.pipeline.targets import Bench, spark

pytestmark = [pytest.mark.mssql, pytest.mark.lake]
ROWS = 250_000


@pytest.fixture(scope="module")
def mixed() -> Iterator[Bench]:
    server, lake = mssql_server.new_catalog(lakes.engine()), lakes.new_lake()
    session = Session(
        {"t": server, "l": lake}, SessionResources(spark=spark(), settings=SettingValues(SETTINGS))
    )
    made = Bench("mssql", session, server)
    made.sql(
        "CREATE SCHEMA l.dbo; CREATE TABLE l.dbo.names AS "
        f"SELECT i AS id, 'name ' || i AS name FROM range(0, {ROWS}, 100) r(i)"
    )
    made.sql(
        "CREATE TABLE t.dbo.facts AS SELECT i AS id, (i % 7)::SMALLINT AS g, i * 0.5 AS v, "
        "DATE '2020-01-01' + (i % 365)::INT AS d, TIMESTAMP '2020-01-01' + INTERVAL (i) SECOND "
        f"AS ts, uuid() AS u, 'text ' || i AS s FROM range({ROWS}) r(i)"
    )
    made.keyed("facts")
    yield made
    session.close()


QUERIES = [
    "SELECT g, count(*) AS n, sum(v) AS v, min(d) AS d, max(ts) AS ts FROM t.dbo.facts GROUP BY g",
    "SELECT n.name, f.s FROM t.dbo.facts f JOIN l.dbo.names n ON f.id = n.id WHERE f.g = 3",
    "SELECT s FROM t.dbo.facts WHERE id BETWEEN 10 AND 20 AND d > DATE '2020-01-12'",
    "SELECT count(*) AS n FROM t.dbo.facts",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", QUERIES)
def test_both_engines_give_the_same(mixed, query):
    found = {}
    for engine in ("duckdb", "spark"):
        mixed.sql(f"SET engine = {engine}")
        found[engine] = sorted(mixed.rows(query))
    mixed.sql("RESET engine")
    assert found["duckdb"] == found["spark"]
    assert found["duckdb"]


def test_spark_reads_ranges_of_the_key_at_once(mixed, monkeypatch):
    """Read at once where tables need not be read as of one moment, on one connection."""
    monkeypatch.setattr(scan, "_SPLIT_ROWS", ROWS // 4)
    table = mixed.catalog.configured({"mssql_snapshot_reads": "false"}).load_schema("dbo")
    relation = table.load_table("facts").spark_relation()
    assert set(relation.missing) == {"u"}
    mixed.sql("SET engine = spark; SET mssql_snapshot_reads = false")
    query = "SELECT count(*) AS n, count(DISTINCT id) AS d, sum(v) AS s FROM t.dbo.facts"
    rows: list[tuple[Any, ...]] = []
    asked = _statements(mixed, query, rows)
    mixed.sql("RESET engine; RESET mssql_snapshot_reads")
    assert rows == [(ROWS, ROWS, Decimal(ROWS * (ROWS - 1)) / 4)]
    ranges = [text for text in asked if "SELECT [" in text and "FROM [dbo].[facts]" in text]
    ends = [("[id] >=" in text, "[id] <" in text) for text in ranges]
    assert sorted(ends) == [(False, True), (True, False), (True, True), (True, True)]
    assert not any("[s]" in text for text in ranges)


def test_columns_and_conditions_go_to_the_server(mixed):
    asked = _statements(mixed, "SELECT s FROM t.dbo.facts WHERE g = 3 AND id < 100")
    (text,) = [each for each in asked if "FROM [dbo].[facts]" in each]
    assert "[s]" in text
    assert "[u]" not in text
    assert "WHERE" in text
    asked = _statements(mixed, "UPDATE t.dbo.facts SET s = 'new' WHERE id = 5")
    (text,) = [each for each in asked if "FROM [dbo].[facts]" in each and each.startswith("SELECT")]
    assert "WHERE" in text


def test_create_table_as_in_the_lake_from_sql_server_and_back(mixed):
    query = "SELECT id, s FROM t.dbo.facts WHERE g = 2"
    for engine in ("duckdb", "spark"):
        mixed.sql(f"SET engine = {engine}")
        mixed.sql(f"CREATE OR REPLACE TABLE l.dbo.copy AS {query}")
        mixed.sql("CREATE OR REPLACE TABLE t.dbo.back AS SELECT id, s FROM l.dbo.copy")
        mixed.sql("RESET engine")
        for one, other in (("t.dbo.back", query), (query, "t.dbo.back")):
            left, right = (f"FROM {x}" if x.startswith("t.") else x for x in (one, other))
            assert mixed.rows(f"SELECT count(*) FROM ({left} EXCEPT ALL {right})") == [(0,)]


def _statements(mixed: Bench, text: str, rows: list[Any] | None = None) -> list[str]:
    """Return what the server was asked meanwhile; `rows` gets the answer."""
    if mssql_server.is_given():
        pytest.skip("only the stand-in tells what it was asked")
    before = len(mssql_server.stand_in().order(counts=True)["batches"])
    answer = mixed.rows(text)
    if rows is not None:
        rows += answer
    batches: list[str] = mssql_server.stand_in().order(counts=True)["batches"]
    return batches[before:]
