"""One statement stays one: no text of a client runs as another statement in the server's DuckDB.

Attacked: `run` with text that DuckDB and the cursor of the pipeline read differently, or that ends
its part of a statement and begins another one.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jetbridge.config import LakeConfig
from tests.security.sandbox.clients import Caller, serving


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a lake that the client may use: its DuckDB reads and could write the files there."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def ours(warehouse: Path) -> Iterator[Caller]:
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


@pytest.mark.parametrize("attack", SMUGGLED)
def test_1_2_text_that_would_run_another_statement_is_refused(
    ours: Caller, warehouse: Path, attack: str
) -> None:
    """The other statement would write a file into the warehouse, or end with its own error."""
    before = set(warehouse.iterdir())
    for evil in (
        f"COPY (SELECT 1 AS a) TO '{warehouse}/proof.csv'",
        "SELECT error('smug'||'gled')",
    ):
        answer = ours.run(SMUGGLED[attack].format(evil=evil))
        assert set(warehouse.iterdir()) == before, "the statement of the attack was run"
        assert "smuggled" not in answer.message, "the statement of the attack was run"
        assert answer.status in ("INVALID_ARGUMENT", "UNIMPLEMENTED"), answer.message
    assert ours.run("FROM mema.s.q").status == "NOT_FOUND"


def test_1_2_parsing_reads_no_files(ours: Caller, tmp_path: Path) -> None:
    """DuckDB reads the files of IMPORT DATABASE when it parses it, and quotes what is in them."""
    (tmp_path / "schema.sql").write_text("hidden content;")
    (tmp_path / "load.sql").write_text("")
    answer = ours.run(f"IMPORT DATABASE '{tmp_path}'")
    assert "hidden" not in answer.message
    assert answer.status == "UNIMPLEMENTED"
