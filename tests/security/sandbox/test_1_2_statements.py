"""One statement stays one: no text of a client runs as another statement in the server's DuckDB.

Attacked: `run` with text that DuckDB and the cursor of the pipeline read differently, or that ends
its part of a statement and begins another one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jetbridge.backends.lake.config import LakeConfig
from tests.security.sandbox.clients import Caller, serving


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a lake that the client may use: its DuckDB reads and could write the files there."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def ours() -> Iterator[Caller]:
    with serving() as (caller, _):
        yield caller


@pytest.fixture(scope="module")
def lake_user(warehouse: Path) -> Iterator[Caller]:
    with serving(catalogs={"lakea": LakeConfig("lake", warehouse=str(warehouse))}) as (caller, _):
        yield caller


SMUGGLED = {
    "jinja comment in GENERATED": (
        "CREATE TABLE mema.s.q (x INT, y INT GENERATED ALWAYS AS (MAP {{#1: 2}})); {evil}; --#}}))"
    ),
    "jinja comment in DEFAULT": (
        "CREATE TABLE mema.s.q (x INT DEFAULT (MAP {{#1: 2}})); {evil}; --#}}))"
    ),
    "jinja comment in CHECK": (
        "CREATE TABLE mema.s.q (x INT, CHECK ((MAP {{#1: 2}}) IS NULL)); {evil}; --#}}) IS NULL))"
    ),
    "jinja comment in ALTER": (
        "ALTER TABLE mema.s.t ADD c INT DEFAULT (MAP {{#1: 2}}); {evil}; --#}})"
    ),
    "jinja comment in a type": (
        "ALTER TABLE mema.s.t ALTER a TYPE STRUCT(x INT {{#1: 2}})); {evil}; --#}})"
    ),
    "jinja comment in a query": "SELECT MAP {{#1: 2}} FROM mema.s.t; {evil}; --#}} FROM mema.s.t",
    "string of E with a backslash": "SELECT e'\\' FROM mema.s.t; {evil}; --'",
}


# It says that it was run by its own error.
PROOF = "SELECT error('smug' || 'gled')"


@pytest.mark.parametrize("attack", SMUGGLED)
def test_1_2_text_that_would_run_another_statement_is_refused(ours: Caller, attack: str) -> None:
    answer = ours.run(SMUGGLED[attack].format(evil=PROOF))
    assert "smuggled" not in answer.message, "the statement of the attack was run"
    assert answer.status == "INVALID_ARGUMENT", answer.message
    assert ours.run("FROM mema.s.q").status == "NOT_FOUND"


def test_1_2_nothing_is_written_into_a_warehouse(lake_user: Caller, warehouse: Path) -> None:
    before = set(warehouse.iterdir())
    for text in SMUGGLED.values():
        answer = lake_user.run(text.format(evil=f"COPY (SELECT 1) TO '{warehouse}/proof.csv'"))
        assert answer.status == "INVALID_ARGUMENT", answer.message
    assert set(warehouse.iterdir()) == before, "the statement of the attack was run"


def test_1_2_parsing_reads_no_files(ours: Caller, tmp_path: Path) -> None:
    """DuckDB reads the files of IMPORT DATABASE when it parses it, and quotes what is in them."""
    (tmp_path / "schema.sql").write_text("hidden content;")
    (tmp_path / "load.sql").write_text("")
    answer = ours.run(f"IMPORT DATABASE '{tmp_path}'")
    assert "hidden" not in answer.message
    assert answer.status == "UNIMPLEMENTED"


# Parts of statements that would end where they stand, and go on as something else.
ESCAPES = {
    "UPDATE": "UPDATE mema.s.t SET a = 1) FROM x; {evil}; -- WHERE a = 1",
    "UPDATE of several": "UPDATE mema.s.t SET a = (1), (SELECT 2) WHERE TRUE",
    "DELETE": "DELETE FROM mema.s.t WHERE a = 1 OR (TRUE)) UNION {evil}; --",
    "RETURNING": "DELETE FROM mema.s.t WHERE a = 9 RETURNING a FROM (SELECT 1); {evil}",
    "MERGE": (
        "MERGE INTO mema.s.t USING (SELECT 1 AS a) s ON TRUE WHEN MATCHED AND TRUE) OR (TRUE "
        "THEN DELETE"
    ),
    "VALUES": "INSERT INTO mema.s.t VALUES (1, DEFAULT), (2, 'x')) UNION ({evil}); --",
    "AT": "SELECT * FROM mema.s.t AT (VERSION => 1) FROM x; {evil})",
    "CHECK": "ALTER TABLE mema.s.t ADD CHECK (a > 0) OR (1 = 1)); {evil}; --",
    "USING": "ALTER TABLE mema.s.t ALTER a TYPE BIGINT USING a) FROM x; {evil}; --",
    "DEFAULT": "ALTER TABLE mema.s.t ALTER a SET DEFAULT 1) ; {evil}; --",
    "two columns": "ALTER TABLE mema.s.t ADD COLUMN c INT, d INT",
    "columns and a query": "CREATE TABLE mema.s.q (a INT) AS ({evil})",
}


@pytest.mark.parametrize("attack", ESCAPES)
def test_1_2_parts_of_statements_stay_parts(ours: Caller, attack: str) -> None:
    answer = ours.run(ESCAPES[attack].format(evil=PROOF))
    assert answer.status in ("INVALID_ARGUMENT", "UNIMPLEMENTED"), answer.message
    assert "smuggled" not in answer.message
    assert ours.run("FROM mema.s.q").status == "NOT_FOUND"
    assert ours.reports("SELECT a, b FROM mema.s.t")[0]["rows_produced"] == 1


def test_1_2_names_that_are_keywords_end_no_part(ours: Caller) -> None:
    ours.reports('CREATE OR REPLACE TABLE mema.s.k AS SELECT 1 AS "end", 2 AS "case"')
    (deleted,) = ours.reports("DELETE FROM mema.s.k WHERE k.end = 1 AND k.case = 2 RETURNING k.end")
    assert (deleted["statement"], deleted["rows_written"]) == ("DELETE", 1)
    assert ours.reports("FROM mema.s.k")[0]["rows_produced"] == 0


def test_1_2_sharp_edges_of_sql_still_work(ours: Caller) -> None:
    text = (
        "CREATE OR REPLACE TABLE mema.s.e AS SELECT e'it\\'s; --' AS a, $x$;'$x$ AS b, "
        "'\u00a0' AS c, {'a': [1, 2]} AS d, /* ; /* ' */ ; */ .5 AS f -- ; '\n, "
        "'a'\n'b' AS g, x'ab' AS h\u00a0;"
    )
    assert ours.reports(text)[0]["rows_written"] == 1
    kept = (
        "a = 'it''s; --' AND b = $x$;'$x$ AND c = chr(160) AND d.a[2] = 2 AND f = 0.5 AND g = 'ab' "
        "AND h = 'xab'"
    )
    assert ours.reports(f"FROM mema.s.e WHERE {kept}")[0]["rows_produced"] == 1
