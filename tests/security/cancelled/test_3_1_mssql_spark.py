"""A load by Spark's workers that is cancelled leaves nothing in SQL Server."""

from collections.abc import Iterator

import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.errors import Cancelled
from tests.helpers import lakes, mssql_server
from tests.helpers.waiting import wait_until
from tests.security.cancelled.mssql_commands import loads
from tests.security.cancelled.test_3_1_mssql import Running, create, insert, table, tables

pytestmark = [pytest.mark.mssql, pytest.mark.lake]
# Spark gives a worker two seconds to end by itself; until then it holds the staging table.
SOON = 10.0


@pytest.fixture(scope="module")
def catalog() -> Iterator[MssqlCatalog]:
    if mssql_server.is_given():
        pytest.skip("only the stand-in tells how many rows it has got")
    with lakes.engine().session():
        pass
    made = mssql_server.new_catalog(lakes.engine(), mssql_direct_load_rows="1000")
    yield made
    made.close()


def test_create_table_as(catalog):
    with loads(1):
        running = Running(lambda: create(catalog, "made"))
    assert running.cancel() < SOON
    assert isinstance(running.error, Cancelled)
    assert tables(catalog) == []


@pytest.mark.full
def test_insert(catalog):
    with table(catalog, "filled"):
        with loads(1):
            running = Running(lambda: insert(catalog, "filled"))
        assert running.cancel() < SOON
        assert isinstance(running.error, Cancelled)
        assert tables(catalog) == ["filled"]
        wait_until(
            lambda: catalog.database.server.query("SELECT COUNT(*) FROM dbo.filled") == [(2,)]
        )
