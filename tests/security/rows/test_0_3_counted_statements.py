"""Tests that look at the statements of one connection do not see those of others.

A busy machine: `test_fr_021_a_table_that_cannot_be_made` also counted what another connection sent.
"""

import pytest

from jetbridge.sqltext.tsql import END_SNAPSHOT
from tests import mssql_server
from tests.mssql_orders import sent

pytestmark = pytest.mark.mssql


def test_statements_of_other_connections_are_not_counted():
    if mssql_server.is_given():
        pytest.skip("only the stand-in tells what it was sent")
    one, other = mssql_server.server(), mssql_server.server()
    with one.loading() as mine, other.loading() as theirs, sent("counted") as texts:
        theirs.run(END_SNAPSHOT)
        theirs.run("CREATE TABLE dbo.[something_else] (a int)")
        mine.run(END_SNAPSHOT)
        mine.run("SELECT 1")
        mine.run("CREATE TABLE dbo.[counted] (a int)")
    assert texts == ["CREATE TABLE dbo.[counted] (a int)"]
    for each in (one, other):
        each.close()
