"""Measures the memory of CREATE TABLE AS into SQL Server, in a new process each time.

Run: python -m benchmarks.subjects.mssql_memory ROWS, with the address in JETBRIDGE_BENCH_MSSQL
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

import psutil

from benchmarks.subjects.mssql_bare import WRITERS
from benchmarks.tools.processes import PeakMemory
from benchmarks.tools.report import Result
from jetbridge.app.sessions import open_session
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address, parse
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.config import Config
from jetbridge.pipeline.run import run

_ADDRESS = "JETBRIDGE_BENCH_MSSQL"
_MIB = 1024 * 1024
_TIMES = 10
_MOST_GROWTH_MIB = 150
_SAMPLE_SECONDS = 0.05
_WORKER = "pyspark.daemon"
_STATEMENT = """
CREATE OR REPLACE TABLE m.dbo.memory AS SELECT i AS id, (i * 7919 % {rows}) / {rows} AS x,
    'item-' || (i * 7919 % {rows}) AS s, make_timestamp(i * 1000000) AS ts FROM range({rows}) r(i)
"""


def on_spark(rows: int) -> str:
    """Return settings by which Spark loads so many rows, also if they are fewer than by default."""
    direct = min(MssqlSettings.direct_load_rows, rows - 1)
    return (
        f"SET mssql_copy_parallel_writers = '{WRITERS}'; SET mssql_direct_load_rows = '{direct}';"
    )


def memory(address: Address, rows: int) -> Iterator[Result]:
    """Compare so many rows with ten times as many; Java's memory is not counted."""
    sizes = (rows, _TIMES * rows)
    small, large = (_peaks(address, size) for size in sizes)
    for who, title in (("driver", "the process"), ("worker", "a worker of Spark")):
        name = f"CREATE TABLE AS, memory of {title}, {sizes[0]:,} and {sizes[1]:,} rows apart"
        numbers = {"small MiB": small[who], "large MiB": large[who]}
        yield Result(name, large[who] - small[who], "MiB", _MOST_GROWTH_MIB, False, numbers)


def _peaks(address: Address, rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.subjects.mssql_memory", str(rows)]
    environment = {**os.environ, _ADDRESS: address.for_odbc()}
    process = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    peaks: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return peaks


class WorkerMemory:
    """Measure the most resident bytes of any Python worker of Spark while the block runs."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak = 0

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._done.wait(_SAMPLE_SECONDS):
            for child in own.children(recursive=True):
                with suppress(psutil.Error):
                    if _WORKER in child.cmdline():
                        self.peak = max(self.peak, child.memory_info().rss)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


def _run(address: Address, rows: int) -> dict[str, float]:
    """Return the peak of this process and of a worker, in MiB."""
    config = Config(catalogs={"m": MssqlConfig(address=address)})
    with open_session(config) as session, PeakMemory(os.getpid()) as own, WorkerMemory() as workers:
        for outcome in run(session, on_spark(rows) + _STATEMENT.format(rows=rows)):
            report = outcome.report
    assert report is not None
    assert report.rows_written == rows
    assert workers.peak
    return {"driver": own.peak / _MIB, "worker": workers.peak / _MIB}


if __name__ == "__main__":
    print(json.dumps(_run(parse(os.environ[_ADDRESS]), int(sys.argv[1]))))
