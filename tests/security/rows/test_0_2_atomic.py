"""`run` publishes all rows of a statement or none, as README's "When a client fails" says."""

from collections.abc import Iterator

import pytest

from jetbridge.app.compose import build_application
from jetbridge.client import connect
from jetbridge.config import CatalogConfig, Config, ServerConfig
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Wire

ROWS = [(number, f"row {number}") for number in range(3)]
# Fails after several batches have been written.
FAILING = (
    "SELECT CASE WHEN i = 400000 THEN error('row 400000') ELSE i END, 'x' FROM range(500000) r(i)"
)


@pytest.fixture
def location() -> Iterator[str]:
    config = Config(server=ServerConfig(port=0), catalogs={"mem": CatalogConfig("memory")})
    app = build_application(config)
    app.server.start()
    yield app.server.location
    app.close(1.0)


def rows(location: str) -> list[tuple[int, str]]:
    with connect(location, "mem") as client:
        table = client.scan("s", "t").read_all()
    return sorted(
        zip(table.column("id").to_pylist(), table.column("name").to_pylist(), strict=True)
    )


@pytest.mark.parametrize(
    "statement",
    [
        f"INSERT INTO s.t {FAILING}",
        f"UPDATE s.t SET name = q.b FROM ({FAILING}) q(a, b) WHERE q.a = t.id",
        f"DELETE FROM s.t USING ({FAILING}) q(a, b) WHERE q.a = t.id",
        f"CREATE OR REPLACE TABLE s.t AS {FAILING}",
    ],
    ids=["insert", "update", "delete", "replace"],
)
def test_a_statement_of_run_that_fails_midway_leaves_the_table_unchanged(location, statement):
    with Wire(location) as wire:
        values = ", ".join(f"({number}, '{name}')" for number, name in ROWS)
        created = "CREATE SCHEMA s; CREATE TABLE s.t (id BIGINT, name VARCHAR)"
        assert run_sql(wire, f"{created}; INSERT INTO s.t VALUES {values}", "mem").status == "OK"
        failed = run_sql(wire, statement, "mem")
        assert failed.status == "INVALID_ARGUMENT"
        assert "row 400000" in failed.message
        assert rows(location) == ROWS
