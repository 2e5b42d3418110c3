"""One limit holds for old versions of all tables in memory; the oldest are dropped first.

Attacked: many tables, each changed often; every one kept its own 1 GiB of old versions.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import psutil
import pyarrow as pa
import pytest

from jetbridge.app.compose import open_catalogs
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.catalog.backend import SharedResources
from jetbridge.client import Client, connect
from jetbridge.config import CatalogConfig, Config
from jetbridge.config.model import Limits
from jetbridge.errors import ServerError
from jetbridge.service import Server

ROWS = 100_000
COLUMNS = pa.schema({"n": pa.int64()})
CHANGED = pa.schema({"n": pa.int64(), "rowid": pa.int64()})
MIB = 1024 * 1024


def clock() -> Iterator[datetime]:
    """Yield times, one second apart."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    while True:
        yield now
        now += timedelta(seconds=1)


def served(catalog: MemoryCatalog) -> tuple[Server, Client]:
    server = Server({"m": catalog}, port=0)
    server.start()
    client = connect(server.location, "m")
    client.create_schema("s")
    return server, client


def rewrite(client: Client, table: str, value: int) -> None:
    """Change all rows, so that the version before needs memory of its own."""
    rows = pa.record_batch({"n": np.full(ROWS, value), "rowid": np.arange(ROWS)}, CHANGED)
    client.update("s", table, rows)


def values(client: Client, table: str, version: int) -> set[int]:
    read = client.read("s", table, at=AsOf(AtUnit.VERSION, str(version)))
    return set(read["n"].to_pylist())


def kept(client: Client, table: str, newest: int) -> list[int]:
    """Return the versions that can be read; each has one value."""
    found = []
    for version in range(1, newest + 1):
        try:
            [value] = values(client, table, version)
        except ServerError:
            continue
        assert value == version
        found.append(version)
    return found


def test_the_oldest_versions_of_all_tables_go_first() -> None:
    times = clock()
    most = 11 * 8 * ROWS  # five versions, which are estimated at twice their size
    catalog = MemoryCatalog(total_history_bytes=most, clock=lambda: next(times))
    server, client = served(catalog)
    with server, client:
        for table in ("old", "busy"):
            client.create_table("s", table, COLUMNS)
            client.insert("s", table, pa.record_batch({"n": np.full(ROWS, 1)}, COLUMNS))
        rewrite(client, "old", 2)
        for value in (2, 3, 4):
            rewrite(client, "busy", value)
        assert (kept(client, "old", 2), kept(client, "busy", 4)) == ([1, 2], [1, 2, 3, 4])
        for value in (5, 6, 7, 8):
            rewrite(client, "busy", value)
        assert kept(client, "old", 2) == [2]
        last = kept(client, "busy", 8)
        assert last == list(range(last[0], 9))
        assert 3 <= len(last) <= 6


def test_many_tables_share_one_limit() -> None:
    """10 tables with 12 versions take 220 MiB without the limit."""
    process = psutil.Process()
    server, client = served(MemoryCatalog(total_history_bytes=10 * MIB))
    with server, client:
        tables = [f"t{number}" for number in range(10)]
        for table in tables:
            client.create_table("s", table, COLUMNS)
            client.insert("s", table, pa.record_batch({"n": np.full(ROWS, 1)}, COLUMNS))
        before = process.memory_info().rss
        for value in range(2, 13):
            for table in tables:
                rewrite(client, table, value)
        grown = (process.memory_info().rss - before) / MIB
        assert [values(client, table, 12) for table in tables] == [{12}] * 10
    assert grown < 130


def test_dropped_tables_do_not_count() -> None:
    server, client = served(MemoryCatalog(total_history_bytes=5 * 8 * ROWS))
    with server, client:
        for _ in range(4):
            client.create_table("s", "gone", COLUMNS)
            client.insert("s", "gone", pa.record_batch({"n": np.full(ROWS, 1)}, COLUMNS))
            rewrite(client, "gone", 2)
            rewrite(client, "gone", 3)
            assert kept(client, "gone", 3) == [1, 2, 3]
            client.drop_table("s", "gone")


@pytest.mark.parametrize("most", [0, 5_000_000])
def test_the_limit_is_a_setting(most: int) -> None:
    config = Config(catalogs={"m": CatalogConfig("memory")}, limits=Limits(history_bytes=most))
    catalog = open_catalogs(config, SharedResources(config.limits, None))["m"]
    assert isinstance(catalog, MemoryCatalog)
    server, client = served(catalog)
    with server, client:
        client.create_table("s", "t", COLUMNS)
        client.insert("s", "t", pa.record_batch({"n": np.full(ROWS, 1)}, COLUMNS))
        rewrite(client, "t", 2)
        assert kept(client, "t", 2) == ([2] if most == 0 else [1, 2])
