"""Another process locks the SQLite file of a lake's catalog while statements run."""

import itertools
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
import pytest

from jetbridge.errors import Unavailable
from tests.faults.lake.model import COLUMNS, differences, made, read
from tests.faults.lake.process import BUSY, LakeServer
from tests.faults.leftovers import CATALOG, leftovers

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group("lake-server")]

TABLE = ("locked", "t")
# EXCLUSIVE keeps readers out too, IMMEDIATE only writers.
LOCKS = ("EXCLUSIVE", "IMMEDIATE")
# Each takes seconds; all of them run in `make soak`.
QUICK = (("insert", "EXCLUSIVE"), ("update", "IMMEDIATE"))
HELD = [
    pytest.param(*each, marks=() if each in QUICK else pytest.mark.soak)
    for each in itertools.product(("insert", "update", "delete"), LOCKS)
]


class Shared:
    """Hold a server, and what its table must hold."""

    def __init__(self, server: LakeServer) -> None:
        self.server, self.rows = server, made(0, 1000)

    def add(self, rows: pa.Table) -> None:
        self.rows = pa.concat_tables([self.rows, rows])

    def check(self, client) -> None:
        assert differences(read(client, TABLE), self.rows) == {}
        self.server.order("sweep")
        assert leftovers(self.server.warehouse) == []


@pytest.fixture(scope="module")
def shared(lake_server: LakeServer) -> Shared:
    there = Shared(lake_server)
    with lake_server.client() as client:
        client.create_schema(TABLE[0])
        client.create_table(*TABLE, COLUMNS)
        client.insert(*TABLE, there.rows)
    return there


@contextmanager
def locked(shared: Shared, kind: str) -> Iterator[None]:
    file = shared.server.warehouse / CATALOG
    with closing(sqlite3.connect(file, isolation_level=None, timeout=BUSY)) as catalog:
        catalog.execute(f"BEGIN {kind}")
        try:
            yield
        finally:
            catalog.execute("ROLLBACK")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", LOCKS)
def test_insert_waits_for_a_lock_that_is_soon_released(shared, kind):
    rows = made(len(shared.rows), 100)
    with shared.server.client() as client:
        insert = threading.Thread(target=client.insert, args=(*TABLE, rows))
        with locked(shared, kind):
            insert.start()
            insert.join(BUSY / 3)
            assert insert.is_alive()
        insert.join(60)
        shared.add(rows)
        shared.check(client)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("operation", "kind"), HELD)
def test_lock_that_is_held_makes_the_commit_unavailable_and_undone(shared, kind, operation):
    with shared.server.client() as client:
        found = client.read(*TABLE, ["v", "rowid"]).slice(0, 10).combine_chunks()
        batch = {
            "insert": made(0, 100).to_batches()[0],
            "update": found.to_batches()[0],
            "delete": found.select(["rowid"]).to_batches()[0],
        }[operation]
        statement = client.exchange(operation, *TABLE, batch.schema)
        statement.write(batch)
        with locked(shared, kind), pytest.raises(Unavailable, match="try again"):
            statement.finish()
        shared.check(client)
        rows = made(len(shared.rows), 100)
        client.insert(*TABLE, rows)
        shared.add(rows)
        shared.check(client)


@pytest.mark.full
def test_statement_that_begins_while_the_catalog_is_locked_is_unavailable(shared):
    with shared.server.client() as client:
        with locked(shared, "EXCLUSIVE"), pytest.raises(Unavailable, match="try again"):
            client.insert(*TABLE, made(0, 100))
        shared.check(client)
