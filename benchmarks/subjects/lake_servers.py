"""Measures memory and the start of the lake, each in a new server."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import jetbridge
from benchmarks.tools import data, statements
from benchmarks.tools.processes import PeakMemory, Running, started
from benchmarks.tools.report import Result
from benchmarks.tools.statements import SCHEMA
from jetbridge.client.client import Client

HEAP = "2g"  # the default of `jetbridge.spark.settings`
_SENT_ROWS = 2048
_TIMES = 10
_MIB = 1024 * 1024
_SMALL = 100_000
_STARTS = 3


@contextmanager
def _folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(
        prefix="jetbridge-bench-", ignore_cleanup_errors=True
    ) as folder:
        yield folder


def memory(rows: int) -> Iterator[Result]:
    """Insert and read ten times as many rows, generated as they are sent, in a new server."""
    count = _TIMES * rows
    with _folder() as folder, started("benchmarks.subjects.lake_subject", folder) as running:
        client = jetbridge.connect(running.location, "lake")
        client.create_schema(SCHEMA)
        client.create_table(SCHEMA, "large", data.SCHEMA)
        with PeakMemory(running.pid) as inserting:
            inserted = client.insert(SCHEMA, "large", data.many(count, _SENT_ROWS)).affected_rows
        with PeakMemory(running.pid) as reading, client.scan(SCHEMA, "large") as batches:
            read = sum(batch.num_rows for batch in batches)
    assert inserted == read == count
    before = inserting.before
    for name, peak in (("INSERT", inserting.peak), ("scan", reading.peak)):
        numbers = {"before MiB": before / _MIB, "peak MiB": peak / _MIB}
        growth = (peak - before) / _MIB
        yield Result(f"{name} of {count:,} rows, growth", growth, "MiB", 300, False, numbers)


def startup(_: int) -> Iterator[Result]:
    """Start servers with an existing table; measure the time until the first results."""
    with _folder() as folder:
        with _serve(folder) as running:
            client = jetbridge.connect(running.location, "lake")
            client.create_schema(SCHEMA)
            client.create_table(SCHEMA, "existing", data.SCHEMA)
            client.insert(SCHEMA, "existing", data.rows(_SMALL))
        seconds = [_first_results(folder) for _ in range(_STARTS)]
    listening, scan, update = (statistics.median(times) for times in zip(*seconds, strict=True))
    numbers = {"listening s": listening}
    yield Result("`jetbridge serve` to the first scan", scan, "s", None, False, numbers, 3)
    yield Result(
        "`jetbridge serve` to the first UPDATE, which needs Spark", update, "s", None, False, {}
    )


def _serve(warehouse: str) -> AbstractContextManager[Running]:
    return started("jetbridge", "serve", "--port", "0", "--warehouse", warehouse)


def _first_results(folder: str) -> tuple[float, float, float]:
    start = time.perf_counter()
    with _serve(folder) as running:
        listening = time.perf_counter() - start
        client = jetbridge.connect(running.location, "lake")
        assert client.read(SCHEMA, "existing").num_rows == _SMALL
        scanned = time.perf_counter() - start
        _update(client)
        return listening, scanned, time.perf_counter() - start


def _update(client: Client) -> None:
    field = data.SCHEMA.field("x")
    value = data.rows(1).column("x")[0]
    where = statements.equals("id", _SMALL // 2)
    assert statements.update(client, "existing", where, field, value) == 1
