"""What is measured in servers of their own: memory, and the start."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import jetbridge
from benchmarks import data, statements
from benchmarks.processes import PeakMemory, Running, started
from benchmarks.report import Result
from benchmarks.statements import SCHEMA
from jetbridge.client.client import Client

HEAP = "2g"  # the default of `jetbridge.spark.settings`
_SENT_ROWS = 2048
_TIMES = 10
_MIB = 1024 * 1024
_SMALL = 100_000
_STARTS = 3


@contextmanager
def _folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="jetbridge-bench-", ignore_cleanup_errors=True) as made:
        yield made


def memory(rows: int) -> Iterator[Result]:
    """Ten times as many rows, made as they are sent, into a server that has just started."""
    count = _TIMES * rows
    with _folder() as made, started("benchmarks.lake_subject", made) as running:
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
    """From the command to the first answers, with a table that is there."""
    with _folder() as made:
        with _serving(made) as running:
            client = jetbridge.connect(running.location, "lake")
            client.create_schema(SCHEMA)
            client.create_table(SCHEMA, "there", data.SCHEMA)
            client.insert(SCHEMA, "there", data.rows(_SMALL))
        taken = [_first_answers(made) for _ in range(_STARTS)]
    listening, scan, update = (sorted(each)[_STARTS // 2] for each in zip(*taken, strict=True))
    numbers = {"listening s": listening}
    yield Result("`jetbridge serve` to the first scan", scan, "s", None, False, numbers, 3)
    yield Result(
        "`jetbridge serve` to the first UPDATE, which needs Spark", update, "s", None, False, {}
    )


def _serving(warehouse: str) -> AbstractContextManager[Running]:
    return started("jetbridge", "serve", "--port", "0", "--warehouse", warehouse)


def _first_answers(made: str) -> tuple[float, float, float]:
    start = time.perf_counter()
    with _serving(made) as running:
        listening = time.perf_counter() - start
        client = jetbridge.connect(running.location, "lake")
        assert client.read(SCHEMA, "there").num_rows == _SMALL
        scanned = time.perf_counter() - start
        _update(client)
        return listening, scanned, time.perf_counter() - start


def _update(client: Client) -> None:
    field = data.SCHEMA.field("x")
    value = data.rows(1).column("x")[0]
    where = statements.equals("id", _SMALL // 2)
    assert statements.update(client, "there", where, field, value) == 1
