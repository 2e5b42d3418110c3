"""Measures the memory of CREATE TABLE AS in the Python process, in a new process each time.

Run: python -m benchmarks.subjects.pipeline_memory WAREHOUSE STATEMENTS
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

from benchmarks.tools.processes import PeakMemory
from benchmarks.tools.report import Result
from jetbridge.app.sessions import open_session
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.config import Config
from jetbridge.pipeline.run import run

_MIB = 1024 * 1024
_TIMES = 10
_MOST_GROWTH_MIB = 200
_ENGINES = ("spark", "duckdb")


def memory(source: Callable[[int], str], rows: int) -> Iterator[Result]:
    """Compare a table of so many rows with a tenth of them; Java's memory is not counted."""
    sizes = (rows // _TIMES, rows)
    with tempfile.TemporaryDirectory(
        prefix="jetbridge-bench-", ignore_cleanup_errors=True
    ) as folder:
        tables = [f"CREATE TABLE lake.s.source{size} AS {source(size)}" for size in sizes]
        _peak(folder, "; ".join(["CREATE SCHEMA lake.s", *tables]))
        for engine in _ENGINES:
            small, large = (_peak(folder, _copy(engine, size)) for size in sizes)
            name = (
                f"memory of CREATE TABLE AS by {engine}, {sizes[0]:,} and {sizes[1]:,} rows apart"
            )
            numbers = {"small MiB": small, "large MiB": large}
            yield Result(name, large - small, "MiB", _MOST_GROWTH_MIB, False, numbers)


def _copy(engine: str, size: int) -> str:
    query = f"CREATE OR REPLACE TABLE lake.s.copy AS FROM lake.s.source{size}"
    return f"SET engine = '{engine}'; {query}"


def _peak(warehouse: str, statements: str) -> float:
    command = [sys.executable, "-m", "benchmarks.subjects.pipeline_memory", warehouse, statements]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(process.stdout.splitlines()[-1])


def _run(warehouse: str, statements: str) -> float:
    """Run the statements; return the peak of this process, in MiB."""
    config = Config(catalogs={"lake": LakeConfig(warehouse=warehouse)})
    with open_session(config) as session, PeakMemory(os.getpid()) as own:
        for outcome in run(session, statements):
            outcome.table()
    return own.peak / _MIB


if __name__ == "__main__":
    print(_run(sys.argv[1], sys.argv[2]))
