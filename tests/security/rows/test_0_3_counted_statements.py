"""Tests that count the statements of one connection do not count those of others.

A busy machine: `test_fr_021_a_table_that_cannot_be_made` also counted what another connection sent.
"""

from collections.abc import Iterator

import pytest

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.dialects.tsql import load as tsql_load
from jetbridge.dialects.tsql.statements import END_SNAPSHOT
from tests.helpers import mssql_server
from tests.helpers.mssql_orders import sent

pytestmark = pytest.mark.mssql


DEAD, LIVING = "jetbridge_0123456789abcdef", "jetbridge_fedcba9876543210"


@pytest.fixture
def server() -> Iterator[ConnectionPool]:
    if mssql_server.is_given():
        pytest.skip("only the stand-in tells what it was sent")
    made = mssql_server.server()
    yield made
    made.close()


def test_statements_of_other_connections_are_not_counted(server):
    with server.borrow_core() as mine, server.borrow_core() as theirs, sent("counted") as texts:
        theirs.run(END_SNAPSHOT)
        theirs.run("CREATE TABLE dbo.[something_else] (a int)")
        mine.run(END_SNAPSHOT)
        mine.run("SELECT 1")
        mine.run("CREATE TABLE dbo.[counted] (a int)")
    assert texts == ["CREATE TABLE dbo.[counted] (a int)"]


def swept() -> list[str]:
    """Return the log of a sweeper about a dead load."""
    drop = tsql_load.drop_if_exists("dbo", f"{DEAD}_rows")
    return [tsql_load.lock_run(DEAD), drop, tsql_load.unlock_run(DEAD)]


def test_statements_of_a_sweeper_are_not_counted_on_any_connection(server):
    with server.borrow_core() as theirs:
        theirs.run(f"CREATE TABLE dbo.[{DEAD}_rows] (a int)")
    with server.borrow_core() as mine, server.borrow_core() as theirs, sent("counted") as texts:
        for text in swept():
            theirs.run(text)
        mine.run("CREATE TABLE dbo.[counted] (a int)")
        for text in swept():
            mine.run(text)
    assert texts == ["CREATE TABLE dbo.[counted] (a int)"]


def test_what_a_load_puts_beside_its_table_is_counted(server):
    load = [
        tsql_load.lock_run(LIVING),
        f"CREATE TABLE dbo.[{LIVING}_rows] (a int)",
        f"INSERT INTO dbo.[{LIVING}_rows] VALUES (1)",
        tsql_load.drop_if_exists("dbo", f"{LIVING}_rows"),
        tsql_load.unlock_run(LIVING),
    ]
    with server.borrow_core() as held, server.borrow_core() as other, sent("counted") as texts:
        held.run(load[0])
        for text in load[1:4]:
            other.run(text)
        held.run(load[4])
    assert texts == load
