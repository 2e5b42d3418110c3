"""The next user of a database drops what killed loads have left in it.

Seen: a staging table and a ledger lay 19 minutes through seven SELECTs.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.core import CoreConnection
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.write import load_tables
from jetbridge.client import connect
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from jetbridge.service import Server as FlightServer
from tests.helpers import mssql_server
from tests.helpers.mssql_orders import failing, stand_in
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.mssql
DEAD, LIVING = "jetbridge_0123456789abcdef", "jetbridge_fedcba9876543210"
TABLES = "SELECT name FROM sys.tables WHERE name LIKE N'jetbridge[_]%' ORDER BY name"


@pytest.fixture
def server() -> Iterator[ConnectionPool]:
    made = mssql_server.server()
    with made.borrow_core() as connection:
        connection.run("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    yield made
    made.close()


@pytest.fixture
def catalog(server: ConnectionPool) -> Iterator[MssqlCatalog]:
    with closing(MssqlCatalog("m", server.address)) as made:
        yield made


def leave(server: ConnectionPool, load: str = DEAD) -> list[str]:
    names = [f"{load}_ledger", f"{load}_rows"]
    with server.borrow_core() as connection:
        for name in names:
            connection.run(f"CREATE TABLE dbo.{name} (id int)")
    return names


def left(server: ConnectionPool) -> list[str]:
    return [name for (name,) in server.query(TABLES)]


def sql(catalog: MssqlCatalog, text: str) -> None:
    with closing(Session({"m": catalog})) as session:
        for outcome in run(session, text):
            outcome.table()


def over_the_wire(work: Callable[[str], None]) -> Callable[[MssqlCatalog], None]:
    def served(catalog: MssqlCatalog) -> None:
        with FlightServer({"m": catalog}, port=0) as flight:
            flight.start()
            work(flight.location)

    return served


def attach(location: str) -> None:
    """Send the requests of ATTACH by a DuckDB client."""
    with connect(location, "m") as client:
        client.list_schemas()


def read(location: str) -> None:
    with connect(location, "m") as client:
        client.read("dbo", "t")


FIRST_USES = {
    "select": lambda catalog: sql(catalog, "FROM m.dbo.t"),
    "insert": lambda catalog: sql(catalog, "INSERT INTO m.dbo.t VALUES (1)"),
    "delete": lambda catalog: sql(catalog, "DELETE FROM m.dbo.t"),
    "create": lambda catalog: sql(catalog, "CREATE TABLE m.dbo.other (id INT)"),
    "drop": lambda catalog: sql(catalog, "DROP TABLE m.dbo.t"),
    "attach": over_the_wire(attach),
    "read": over_the_wire(read),
}


@pytest.mark.parametrize("use", FIRST_USES)
def test_the_first_use_of_any_kind_sweeps(server, catalog, use):
    leave(server)
    FIRST_USES[use](catalog)
    wait_until(lambda: left(server) == [])


def test_a_command_that_ends_at_once_has_swept(server):
    leave(server)
    with closing(MssqlCatalog("m", server.address)) as catalog:
        sql(catalog, "FROM m.dbo.t")
    assert left(server) == []


def test_the_statement_does_not_wait_for_the_sweep(server, catalog):
    names = leave(server)
    with server.borrow_core() as other:
        other.run("BEGIN TRANSACTION")
        other.run(f"INSERT INTO dbo.{names[1]} VALUES (1)")
        sql(catalog, "FROM m.dbo.t")
        other.run("ROLLBACK")
    wait_until(lambda: left(server) == [])


def test_a_living_load_keeps_its_tables(server, catalog):
    dead, living = leave(server), leave(server, LIVING)
    with closing(CoreConnection(server.address)) as holder:
        assert holder.run(tsql_load.lock_run(LIVING)) == [(0,)]
        sql(catalog, "FROM m.dbo.t")
        wait_until(lambda: not set(dead) & set(left(server)))
        assert left(server) == living


def test_a_server_sweeps_again_while_it_is_used(server, catalog, monkeypatch):
    monkeypatch.setattr(load_tables, "_SWEEP_SECONDS", 0.0)
    sql(catalog, "FROM m.dbo.t")
    leave(server)
    sql(catalog, "FROM m.dbo.t")
    wait_until(lambda: left(server) == [])


def test_several_sweeps_at_once_disturb_nobody(server):
    for number in range(10):
        leave(server, f"jetbridge_{number:016x}")
    catalogs = [MssqlCatalog("m", server.address) for _ in range(4)]
    failed: list[Exception] = []

    def sweep(catalog: MssqlCatalog) -> None:
        try:
            catalog.sweep()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=sweep, args=(each,)) for each in catalogs]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert left(server) == []
    for catalog in catalogs:
        catalog.close()


def test_a_table_that_cannot_be_dropped_is_logged_and_the_others_are_dropped(server, caplog):
    caplog.set_level(logging.INFO, "jetbridge")
    refused, other = leave(server), leave(server, LIVING)
    with failing(3701, f"DROP TABLE .*{DEAD}"):
        with closing(MssqlCatalog("m", server.address)) as catalog:
            sql(catalog, "FROM m.dbo.t")
        assert left(server) == refused
    assert "could not drop the tables" in caplog.text
    assert not set(other) & set(left(server))


def test_the_sweep_does_not_log_in_by_itself(server):
    """Failed logins lock accounts."""
    before = stand_in().order(counts=True)["connections"]
    wrong = MssqlCatalog("m", replace(server.address, password="wrong"))
    with closing(wrong), pytest.raises(FailedPrecondition, match="18456"):
        wrong.list_schemas()
    # A knock, the login, and another that asks why it was refused.
    assert stand_in().order(counts=True)["connections"] == before + 3
