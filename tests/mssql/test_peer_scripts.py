"""Scripts written for DuckDB's mssql extension, run as they are by `jetbridge sql`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import jetbridge
from jetbridge.app.sessions import Statements
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.config import CatalogConfig, Config
from jetbridge.errors import BadRequest, FailedPrecondition, NotFound
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql
COMMAND = [sys.executable, "-m", "jetbridge", "sql", "--format", "json", "--echo"]
LOAD = "INSTALL mssql FROM community; LOAD mssql;"
OTHERS = (
    "Driver={ODBC Driver 18 for SQL Server};Persist Security Info=False;Connect Timeout=30;"
    'MultipleActiveResultSets=False;Application Name="nightly; etl";Trusted_Connection=no'
)


@pytest.fixture(scope="module")
def address() -> Address:
    return mssql_server.address()


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a configuration without a lake, so without Spark."""
    file = tmp_path_factory.mktemp("sql") / "jetbridge.toml"
    file.write_text('[catalogs.memory]\ntype = "memory"\n')
    return file


@pytest.fixture
def run(address: Address, config: Path):
    """Return the lines of the answer, and what else is said; the password is in neither of them."""

    def call(script: str, *options: str, code: int = 0, **environment: str):
        done = subprocess.run(
            [*COMMAND, "--config", str(config), *options, "-"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, **environment},
        )
        assert done.returncode == code, done.stderr
        assert address.password not in done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return call


def of_rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if "report" not in line]


def notes(lines: list[dict[str, Any]]) -> dict[str, str]:
    reports = [line["report"] for line in lines if "report" in line]
    return {each["statement"]: each["note"] for each in reports if "note" in each}


def connection(address: Address, more: str = "") -> str:
    trust = "true" if address.trust else "false"
    return (
        f"Server={address.server};Database={address.database};User Id={address.user};"
        f"Password={{{address.password}}};Encrypt={address.encrypt};"
        f"TrustServerCertificate={trust};{more}"
    )


def of(address: Address, more: str = "") -> str:
    return f"'{connection(address, more)}' AS m (TYPE mssql"


def attach(address: Address, more: str = "", options: str = "") -> str:
    return f"ATTACH {of(address, more)}{options});"


def test_connection_string(run, address):
    lines, _ = run(
        f"{LOAD} {attach(address)}"
        "CREATE TABLE m.dbo.t AS SELECT i::INT AS id, 'row ' || i AS s FROM range(3) r(i);"
        "INSERT INTO m.dbo.t VALUES (7, NULL);"
        "SELECT id, s FROM m.dbo.t WHERE id > 0 ORDER BY id; DROP TABLE m.dbo.t;"
        "DETACH m"
    )
    assert of_rows(lines) == [
        {"id": 1, "s": "row 1"},
        {"id": 2, "s": "row 2"},
        {"id": 7, "s": None},
    ]
    built_in = "it is built in here; nothing was done"
    assert notes(lines) == {"INSTALL": built_in, "LOAD": built_in}


def test_address_with_the_password_in_the_environment(run, address):
    server = address.server.replace(",", ":")
    trust = f"encrypt={address.encrypt}&trustservercertificate={str(address.trust).lower()}"
    place = f"mssql://{quote(address.user)}@{server}/{address.database}/?{trust}&applicationname=x"
    lines, _ = run(
        f"{LOAD} ATTACH '{place}' AS m (TYPE mssql);"
        "CREATE OR REPLACE TABLE m.dbo.u AS SELECT 1.5::DECIMAL(9, 2) AS d, DATE '2026-01-02' AS e;"
        "FROM m.dbo.u",
        MSSQL_PASSWORD=address.password,
    )
    assert of_rows(lines) == [{"d": 1.5, "e": "2026-01-02"}]


def test_secret(run, address):
    host, _, port = address.server.partition(",")
    quoted = address.password.replace("'", "''")
    trusts = str(address.trust).lower()
    lines, said = run(
        f"{LOAD} CREATE SECRET s (TYPE mssql, PROVIDER config, host '{host}', port {port or 1433},"
        f" database '{address.database}', user '{address.user}', password '{quoted}',"
        f" use_encrypt {str(address.encrypt != 'no').lower()},"
        f" trust_server_certificate {trusts}, application_name 'nightly');"
        "ATTACH '' AS m (TYPE mssql, SECRET s);"
        "CREATE TABLE m.dbo.v AS SELECT true AS b, TIMESTAMP '2026-01-02 03:04:05.678' AS t;"
        "FROM m.dbo.v; DROP TABLE m.dbo.v; DETACH m; DROP SECRET s;"
    )
    assert of_rows(lines) == [{"b": True, "t": "2026-01-02 03:04:05.678"}]
    assert "> CREATE SECRET s (TYPE mssql" in said


def test_settings_and_a_connection_string_of_other_tools(run, address):
    lines, said = run(
        "SET mssql_query_timeout = 0; SET mssql_default_table_kind = 'HEAP';"
        f"{attach(address, OTHERS, ', application_name nightly')}"
        "CREATE TABLE m.dbo.w AS SELECT 'x' AS s; SET mssql_default_string_length = 20;"
        "CREATE OR REPLACE TABLE m.dbo.w AS SELECT 'y' AS s; FROM m.dbo.w;"
        "SHOW mssql_default_table_kind",
        "--set",
        "mssql_connection_limit=20",
    )
    assert of_rows(lines) == [{"s": "y"}, {"mssql_default_table_kind": "heap"}]
    assert notes(lines) == {"SET": "it has no effect here"}
    assert said.startswith("--set mssql_connection_limit: it has no effect here\n")


@pytest.fixture
def session() -> Iterator[Statements]:
    with jetbridge.session(Config(catalogs={"memory": CatalogConfig("memory")})) as opened:
        yield opened


def rows(session: Statements, text: str) -> list[dict[str, Any]]:
    """Return the rows of the last statement."""
    found: list[dict[str, Any]] = session.sql(text).to_pylist()
    return found


def test_names_without_a_schema_are_in_dbo(session):
    """Take the schema that is named, or `dbo`; another one must exist (FR-009)."""
    session.sql(attach(mssql_server.address()))
    (report,) = rows(session, "CREATE TABLE m.x AS SELECT 1 AS id")
    assert report["target"] == "m.dbo.x"
    assert rows(session, "FROM m.dbo.x") == rows(session, "FROM m.x WHERE id = 1") == [{"id": 1}]
    assert rows(session, "USE m; SHOW TABLES") == [{"name": "x"}]
    session.sql(
        "CREATE TABLE y AS SELECT id + 1 AS id FROM x; ALTER TABLE m.x ADD PRIMARY KEY (id)"
    )
    matched = "MERGE INTO x USING m.y ON x.id + 1 = y.id WHEN MATCHED THEN UPDATE SET id = y.id"
    assert rows(session, f"{matched}; FROM x") == [{"id": 2}]
    for schema in ("main", "nope"):
        with pytest.raises(NotFound, match=f"schema 'm.{schema}' does not exist"):
            session.sql(f"CREATE TABLE m.{schema}.z AS SELECT 1 AS id")
    assert rows(session, "DROP TABLE m.x; DROP TABLE y; SHOW TABLES") == []


def test_read_only(session):
    address = mssql_server.address()
    session.sql(f"{attach(address)} CREATE TABLE m.r AS SELECT 1 AS id;")
    session.sql(
        f"ALTER TABLE m.r ADD PRIMARY KEY (id); ATTACH OR REPLACE {of(address)}, READ_ONLY)"
    )
    merge = "MERGE INTO m.dbo.r USING (SELECT 1 AS a) ON id = a WHEN MATCHED THEN DELETE"
    for text in ("INSERT INTO m.dbo.r VALUES (2)", "DROP TABLE m.r", "CREATE SCHEMA m.s", merge):
        with pytest.raises(FailedPrecondition, match="catalog 'm' is attached READ_ONLY"):
            session.sql(f"USE m.dbo; {text}")
    assert rows(session, "FROM m.r") == [{"id": 1}]


@pytest.mark.parametrize(
    ("more", "options", "problem"),
    [
        ("Trusted_Connection=yes", "", "Trusted_Connection must be no"),
        ("SchemaFilter=^dbo$", "", "SchemaFilter is not supported"),
        ("Colour=red", "", "pair 7 of the connection string has an unknown name"),
        ("", ", order_pushdown true", "ORDER_PUSHDOWN must be false"),
        ("", ", colour red", "ATTACH has no option COLOUR"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(session, address, more, options, problem):
    with pytest.raises(BadRequest, match=problem) as refused:
        session.sql(attach(address, more, options))
    assert address.password not in str(refused.value)


def test_wrong_password_is_not_told(run, address):
    wrong = "not" + address.password
    text = connection(address).replace(address.password, wrong)
    _, said = run(f"ATTACH '{text}' AS m (TYPE mssql); FROM m.dbo.t", code=1)
    assert "18456" in said
    assert wrong not in said
