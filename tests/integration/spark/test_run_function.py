"""`FROM a.jetbridge.run('...')`: statements of clients, with their rights, without our files."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.app.compose import build_application
from jetbridge.client import connect
from jetbridge.config import CatalogConfig, Config, Credentials, ServerConfig, SqlConfig
from jetbridge.config.model import Token
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Answer, Wire, read_rows

ALL, ONE = "a" * 32, "b" * 32
Run = Callable[..., Answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("allowed")
    pq.write_table(pa.table({"n": [1, 2, 3]}), made / "n.parquet")
    return made


@pytest.fixture(scope="module")
def location(folder: Path) -> Iterator[str]:
    tokens = (Token("all", ALL), Token("one", ONE, frozenset({"first"})))
    config = Config(
        server=ServerConfig(port=0),
        catalogs={"first": CatalogConfig("memory"), "second": CatalogConfig("memory")},
        sql=SqlConfig(folders=(folder,)),
        credentials=Credentials(tokens=tokens),
    )
    app = build_application(config)
    app.server.start()
    yield app.server.location
    app.close(1.0)


@pytest.fixture(scope="module")
def run(location: str) -> Iterator[Run]:
    with Wire(location) as wire:

        def call(text: str, token: str = ALL, catalog: str = "first") -> Answer:
            return run_sql(wire, text, catalog, token)

        call("CREATE SCHEMA first.s; CREATE SCHEMA second.s")
        call("CREATE TABLE second.s.x AS SELECT 1 AS a")
        yield call


def reports(answer: Answer) -> list[dict[str, Any]]:
    assert answer.status == "OK", answer.message
    found: list[dict[str, Any]] = read_rows(answer).to_pylist()
    return found


def test_what_the_client_refuses_is_run_by_the_server(run, location):
    text = "CREATE OR REPLACE TABLE first.s.t AS SELECT i AS id, 'x' AS n FROM range(1000) r(i)"
    (report,) = reports(run(text))
    assert (report["statement"], report["target"]) == ("CREATE TABLE AS", "first.s.t")
    assert (report["rows_written"], report["engine"]) == (1000, "duckdb")
    with connect(location, "first", token=ALL) as client:
        assert client.scan("s", "t").read_all().num_rows == 1000


def test_each_statement_has_a_row(run):
    text = "CREATE TABLE first.s.u (a INT); INSERT INTO first.s.u VALUES (1); FROM first.s.u"
    found = reports(run(text))
    assert [each["statement"] for each in found] == ["CREATE TABLE", "INSERT", "SELECT"]
    assert found[2]["rows_produced"] == 1


def test_short_names_are_those_of_the_catalog_that_is_attached(run):
    assert (
        reports(run("CREATE OR REPLACE TABLE s.short AS SELECT 1 AS a"))[0]["target"]
        == "first.s.short"
    )
    found = reports(run("CREATE OR REPLACE TABLE s.short AS SELECT 1 AS a", catalog="second"))
    assert found[0]["target"] == "second.s.short"


def test_it_is_listed_for_clients(location):
    with connect(location, "first", token=ALL) as client:
        assert "jetbridge" in [schema.name for schema in client.list_schemas()]


@pytest.mark.parametrize(
    "text",
    [
        "FROM second.s.x",
        "CREATE TABLE first.s.stolen AS FROM second.s.x",
        "INSERT INTO second.s.x VALUES (2)",
        "DROP TABLE second.s.x",
        "SELECT (SELECT max(a) FROM second.s.x)",
    ],
)
def test_a_token_of_one_catalog_sees_no_other(run, text):
    answer = run(text, token=ONE)
    assert answer.status in ("NOT_FOUND", "PERMISSION_DENIED")
    assert run("FROM second.s.x", token=ALL).status == "OK"


def test_a_token_of_one_catalog_does_not_run_in_another(run):
    assert run("SELECT 1", token=ONE, catalog="second").status == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    "text",
    [
        "FROM read_csv('/etc/hostname')",
        "FROM read_text('/etc/hostname')",
        "FROM '/etc/hostname'",
        "FROM glob('/*')",
        "CREATE TABLE first.s.f AS FROM read_parquet('/etc/*.parquet')",
        "SELECT * FROM query('SELECT 1')",
        "FROM duckdb_settings()",
        "FROM duckdb_secrets()",
        "FROM pragma_version()",
        "SELECT current_setting('temp_directory')",
        "FROM iceberg_scan('/tmp/x')",
        "SELECT * FROM information_schema.tables",
        "UPDATE first.s.t SET n = (SELECT content FROM read_text('/etc/hostname'))",
        "DELETE FROM first.s.t WHERE EXISTS (FROM read_text('/etc/hostname'))",
        "INSERT INTO first.s.t SELECT 1, content FROM read_text('/etc/hostname')",
        "ATTACH '/tmp/x' AS x (TYPE lake)",
        "COPY first.s.t TO '/tmp/x.csv'",
        "SET dialect = 'spark'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FROM read_parquet('https://example.com/x.parquet')",
        "SELECT getenv('HOME')",
    ],
)
def test_nothing_of_the_server_is_read(run, text):
    answer = run(text)
    assert answer.status in (
        "PERMISSION_DENIED",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "UNIMPLEMENTED",
        "FAILED_PRECONDITION",
        "UNAVAILABLE",
    )
    assert "\n" not in answer.message


def test_files_in_the_folders_of_the_configuration_are_read(run, folder):
    text = f"CREATE OR REPLACE TABLE first.s.n AS FROM read_parquet('{folder}/n.parquet')"
    assert reports(run(text))[0]["rows_written"] == 3
    joined = f"SELECT count(*) FROM first.s.n JOIN read_parquet('{folder}/*.parquet') USING (n)"
    assert reports(run(joined))[0]["rows_produced"] == 1


def test_an_open_transaction_ends_with_the_call(run):
    assert run("BEGIN; INSERT INTO second.s.x VALUES (7)").status == "OK"
    assert run("BEGIN; INSERT INTO second.s.x VALUES (8); COMMIT").status == "OK"
    assert reports(run("SELECT * FROM second.s.x WHERE a = 7"))[0]["rows_produced"] == 0
    assert reports(run("SELECT * FROM second.s.x WHERE a = 8"))[0]["rows_produced"] == 1


@pytest.mark.parametrize("text", ["", "  ", "SELEC 1"])
def test_what_is_no_statement(run, text):
    assert run(text).status == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("text", "status", "remedy"),
    [
        ("UPDATE s.w SET (a, b) = (1, 2)", "UNIMPLEMENTED", "write SET a = ..., b = ..."),
        ("DELETE FROM s.a.b.c", "INVALID_ARGUMENT", "NameList|too many"),
        ("UPDATE s.w SET a = 1 RETURNING a LIMIT 1", "INVALID_ARGUMENT", "RETURNING|LIMIT|more"),
        (
            "MERGE INTO s.w USING range(2) r(i) ON a = i WHEN MATCHED THEN DELETE",
            "UNIMPLEMENTED",
            "write USING (FROM ...) AS s",
        ),
        (
            "MERGE INTO s.w USING s.w AS v USING (a) WHEN MATCHED THEN DO NOTHING",
            "INVALID_ARGUMENT",
            "needs a WHEN clause",
        ),
        (
            "MERGE INTO s.w USING s.u USING (a) WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
            "INVALID_ARGUMENT",
            "names 2 columns and has 1 values",
        ),
        ("ALTER TABLE s.w SET (x = 1)", "UNIMPLEMENTED", "use ADD, DROP, RENAME"),
        ("CREATE TABLE s.v (a INT REFERENCES s.w (a))", "UNIMPLEMENTED", "foreign keys"),
        ("CREATE OR REPLACE SCHEMA s", "UNIMPLEMENTED", "use DROP SCHEMA first"),
        ("EXPLAIN DROP TABLE s.w", "UNIMPLEMENTED", "EXPLAIN supports queries"),
        ("SET engin = 'spark'", "INVALID_ARGUMENT", "did you mean engine"),
        ("SET engine = 'hive'", "INVALID_ARGUMENT", "Must be 'auto'"),
        ("SET dialect = 'spark'", "INVALID_ARGUMENT", "local command"),
        ("ATTACH '/tmp/x' AS x (TYPE lake)", "FAILED_PRECONDITION", "ATTACH"),
        ("CREATE SECRET x (TYPE mssql)", "FAILED_PRECONDITION", "CREATE SECRET"),
    ],
)
def test_no_statement_runs_before_a_later_one_is_refused(run, text, status, remedy):
    answer = run(f"CREATE TABLE first.s.early AS SELECT 1 AS a; {text}")
    assert answer.status == status, answer.message
    assert re.search(remedy, answer.message) or remedy in answer.message
    assert run("FROM first.s.early").status == "NOT_FOUND"


def test_the_schema_of_functions_stays(run):
    assert run("DROP SCHEMA first.jetbridge").status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("text", "statement", "written"),
    [
        ("INSERT INTO first.s.r VALUES (4, 'd'), (5, 'e')", "INSERT", 2),
        ("INSERT INTO first.s.r SELECT 6, 'f' WHERE FALSE", "INSERT", 0),
        ("UPDATE first.s.r SET n = upper(n) WHERE id <= 2", "UPDATE", 2),
        ("DELETE FROM first.s.r WHERE id IN (1, 5)", "DELETE", 1),
    ],
)
def test_returning_changes_nothing_of_the_report(run, text, statement, written):
    rows = "(VALUES (1, 'a'), (2, 'b'), (3, 'c')) v(id, n)"
    fresh = f"CREATE OR REPLACE TABLE first.s.r AS FROM {rows}"
    plain = reports(run(f"{fresh}; {text}"))[1]
    returning = reports(run(f"{fresh}; {text} RETURNING id + 1 AS next, n"))[1]
    assert (plain["statement"], plain["target"]) == (statement, "first.s.r")
    assert plain["rows_written"] == written
    assert {**returning, "seconds": ""} == {**plain, "seconds": ""}


def test_explain_answers_its_text_as_notes_and_runs_nothing(run):
    explained = "EXPLAIN CREATE TABLE first.s.explained AS SELECT a + 1 AS b FROM second.s.x"
    rows = reports(run(f"{explained}; EXPLAIN SELECT 1 AS one; SELECT 1"))
    assert [(r["statement"], r["target"], r["note"]) for r in rows] == [
        ("EXPLAIN", "first.s.explained", "column: b INTEGER"),
        ("EXPLAIN", "first.s.explained", "reads: second.s.x"),
        ("EXPLAIN", "first.s.explained", "engine: duckdb"),
        (
            "EXPLAIN",
            "first.s.explained",
            "because: Spark is not available: no catalog of this session uses it",
        ),
        (
            "EXPLAIN",
            "first.s.explained",
            'target DDL: CREATE TABLE "first"."s"."explained" ("b" INTEGER)',
        ),
        ("EXPLAIN", "", "column: one INTEGER NOT NULL"),
        ("EXPLAIN", "", "engine: duckdb"),
        ("EXPLAIN", "", "because: Spark is not available: no catalog of this session uses it"),
        ("SELECT", "", ""),
    ]
    assert run("FROM first.s.explained").status == "NOT_FOUND"


@pytest.mark.parametrize(
    ("text", "token", "status"),
    [
        ("INSERT INTO second.s.x VALUES (2)", ONE, "NOT_FOUND"),
        ("INSERT INTO second.x VALUES (2)", ONE, "NOT_FOUND"),
        ("CREATE TABLE second.s.y AS SELECT 1 AS a", ONE, "NOT_FOUND"),
        ("CREATE TABLE second.y AS SELECT 1 AS a", ONE, "NOT_FOUND"),
        ("INSERT INTO first.s.nothing VALUES (2)", ALL, "NOT_FOUND"),
        ("CREATE TABLE first.nowhere.y AS SELECT 1 AS a", ALL, "NOT_FOUND"),
        ("CREATE TABLE second.s.x AS SELECT 1 AS a", ALL, "ALREADY_EXISTS"),
        ("CREATE TABLE second.s.y AS SELECT 1 AS a, 2 AS A", ALL, "INVALID_ARGUMENT"),
        ("INSERT INTO second.s.x VALUES (1, 2)", ALL, "INVALID_ARGUMENT"),
        ("INSERT INTO second.s.x SELECT 1, 2", ALL, "INVALID_ARGUMENT"),
        ("INSERT INTO second.s.x (b) SELECT 1", ALL, "INVALID_ARGUMENT"),
        ("INSERT INTO second.s.x BY NAME SELECT 1 AS b", ALL, "INVALID_ARGUMENT"),
        ("INSERT INTO second.s.x VALUES (1) RETURNING b", ALL, "INVALID_ARGUMENT"),
        (
            "INSERT INTO second.s.x VALUES (1) RETURNING (SELECT max(a) FROM second.s.x)",
            ALL,
            "INVALID_ARGUMENT",
        ),
    ],
)
def test_explain_is_refused_as_the_statement_is(run, text, token, status):
    statement = run(text, token=token)
    explain = run(f"EXPLAIN {text}", token=token)
    assert statement.status == status
    assert (explain.status, explain.message) == (status, statement.message)


def test_a_field_of_a_struct_is_added_as_the_error_of_the_client_says(run):
    text = "CREATE OR REPLACE TABLE first.s.places AS SELECT {x: 1} AS s"
    reports(run(f"{text}; ALTER TABLE first.s.places ADD COLUMN s.w DOUBLE"))
    query = "FROM first.s.places WHERE s = {x: 1, w: NULL}"
    assert reports(run(query))[0]["rows_produced"] == 1


def test_a_bit_in_the_columns_of_a_query(run):
    reports(run("CREATE OR REPLACE TABLE first.s.bits AS SELECT '101'::BIT AS b"))
    query = "SELECT b, '11111111'::BIT AS c FROM first.s.bits"
    reports(run(f"CREATE OR REPLACE TABLE first.s.more_bits AS {query}"))
    assert reports(run("FROM first.s.more_bits WHERE c = '11111111'"))[0]["rows_produced"] == 1


@pytest.mark.parametrize(
    ("kind", "less", "more"),
    [
        ("BIT", "'101'", "'11'"),
        ("BIT", "'00100010'", "'11111111'"),
        ("BIGNUM", "12", "130"),
        ("TIMESTAMP_NS", "'1677-09-21 00:12:43.145225'", "'1677-09-21 00:12:43.145226'"),
        ("BLOB", "'a\\x00\"'", "'\\xFF'"),
    ],
)
def test_constants_that_json_or_a_filter_cannot_hold(run, kind, less, more):
    name = f"constants_{kind}"
    values = f"({less}::{kind}), ({more}), (NULL)"
    reports(run(f"CREATE OR REPLACE TABLE first.s.{name} AS FROM (VALUES {values}) v(b)"))
    queries = (
        f"FROM first.s.{name} WHERE b = {less}::{kind}",
        f"FROM first.s.{name} WHERE b >= {less}::{kind}",
        f"FROM first.s.{name} WHERE b IN ({less}::{kind}, {more}::{kind})",
        f"FROM first.s.{name} WHERE b <> {less}::{kind} OR b IS NULL",
    )
    found = [reports(run(query))[0]["rows_produced"] for query in queries]
    assert found == [1, 2, 2, 2]
