"""A catalog sweeps in the background once it is told to, and ends that when it is closed."""

import threading
from contextlib import closing

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.address import Address


def sweeps() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mssql-sweep"]


def test_start_sweeper_begins_a_sweep_that_waits_for_the_first_connection():
    assert sweeps() == []
    with closing(MssqlCatalog("m", Address("127.0.0.1,1", "master", "sa", "x"))) as catalog:
        catalog.start_sweeper()
        assert len(sweeps()) == 1
        assert not catalog.database.server.reached.is_set()
        catalog.start_sweeper()
        assert len(sweeps()) == 1, "one at a time"
    assert sweeps() == []
