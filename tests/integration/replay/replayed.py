"""The recordings, run against a server of this package and, as SQL, by a local DuckDB."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.catalog import SchemaInfo
from jetbridge.service import Server
from tests.helpers.airport_functions import Databases
from tests.helpers.wire_calls import Wire
from tests.integration.replay.recordings import Replayer, Rpc, Statement, read_statements

MAIN = "duckdb-1.5.0-airport-f52b27c.jsonl"
FUNCTIONS = "functions.jsonl"

# What the local DuckDB runs instead of the recorded statement; None: nothing. The client knows
# ATTACH and secrets, has no rollback on the wire, and refuses CREATE OR REPLACE itself.
LOCALLY: dict[str, str | None] = {
    "BEGIN": None,
    "ROLLBACK": None,
    "CREATE OR REPLACE TABLE a.sales.ctas1 AS SELECT 2 AS id": None,
    "DROP TABLE a.sales.keys2": "DROP TABLE a.sales.keys",  # ALTER TABLE is not run locally
    "DROP TABLE a.sales.nope": None,
    "DROP SCHEMA a.sales": None,
    "DROP SCHEMA a.nope": None,
    "INSERT INTO a.sales.orders VALUES (5, 'dee', 1, now()::TIMESTAMP) RETURNING *": (
        "INSERT INTO a.sales.orders VALUES (5, 'dee', 1, TIMESTAMP '2026-11-15 09:01:57.679454') "
        "RETURNING *"
    ),
}
NOT_LOCAL = re.compile(r"ATTACH|CREATE SECRET|ALTER TABLE|SELECT .* AT \(")
RETURNING = re.compile(r" RETURNING .*")


@dataclass
class Played:
    statements: list[Statement]
    player: Replayer
    catalog: Any
    local: duckdb.DuckDBPyConnection
    versions: dict[int, str] = field(default_factory=dict)  # of orders: the local table kept
    selected: dict[int, pa.Table] = field(default_factory=dict)  # statement: the local answer
    returned: dict[int, pa.Table] = field(default_factory=dict)

    def rpcs(self) -> Iterator[Rpc]:
        for statement in self.statements:
            yield from statement.rpcs


@contextmanager
def main_played(*, exact_names: bool, make: Callable[[], Any]) -> Iterator[Played]:
    """Run the first recording, also in a local DuckDB; leave a file in the working directory."""
    catalog = make()
    catalog.create_schema(SchemaInfo("s"))  # the reference server has it from the start
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as wire, duckdb.connect() as local:
            local.execute("ATTACH ':memory:' AS a; SET TimeZone = 'UTC'")
            player = Replayer(wire, exact_names=exact_names)
            run = Played(read_statements(MAIN), player, catalog, local)
            for statement in run.statements:
                player.play(statement.rpcs)
                run_locally(run, statement)
            yield run


@contextmanager
def functions_played() -> Iterator[Played]:
    """Run the second recording, whose databases are made by the server's own actions."""
    databases = Databases()
    with Server(databases, port=0, actions=databases.actions()) as server:
        server.start()
        with Wire(server.location) as wire, duckdb.connect() as local:
            run = Played(read_statements(FUNCTIONS), Replayer(wire), databases, local)
            for statement in run.statements:
                run.player.play(statement.rpcs)
            yield run


def run_locally(run: Played, statement: Statement) -> None:
    sql = LOCALLY.get(statement.sql, statement.sql)
    if sql is None or NOT_LOCAL.match(sql):
        return
    if sql.startswith("SELECT"):
        run.selected[statement.n] = run.local.execute(sql).to_arrow_table()
    elif RETURNING.search(sql):
        everything = RETURNING.sub(" RETURNING *", sql)
        run.returned[statement.n] = run.local.execute(everything).to_arrow_table()
    else:
        run.local.execute(sql)
    if "a.sales.orders" in sql:
        version = run.catalog.load_schema("sales").load_table("orders").info().version
        if version not in run.versions:
            run.versions[version] = f"orders_{version}"
            run.local.execute(f"CREATE TABLE orders_{version} AS FROM a.sales.orders")


def assert_same_rows(
    local: duckdb.DuckDBPyConnection, got: pa.Table, expected: str | pa.Table, why: str = ""
) -> None:
    """Compare with `expected`: rows, or a relation of the local DuckDB like `got`."""
    with local.cursor() as cursor:
        cursor.register("got", got)
        wanted = expected if isinstance(expected, str) else "expected"
        if isinstance(expected, pa.Table):
            cursor.register(wanted, expected)
        for one, other in (("got", wanted), (wanted, "got")):
            rest = cursor.execute(f"FROM {one} EXCEPT ALL FROM {other} LIMIT 5").fetchall()
            assert rest == [], f"in {one} but not in {other}: {why}"
