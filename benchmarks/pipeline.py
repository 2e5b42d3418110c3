"""Measures the pipeline, as ratios to PySpark by hand and between the two engines."""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.subjects.pipeline_memory import memory
from benchmarks.tools.measure import ROUNDS, WARM_UPS, Work, medians, touch_memory
from benchmarks.tools.report import Result, table, write
from jetbridge.app.sessions import open_session
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.config import Config
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from jetbridge.spark.settings import complete
from tests.pipeline import tpch

_RESULTS = Path(__file__).parent / "results" / "pipeline.json"
_PACKAGES = ("pyspark", "sqlglot", "duckdb-extension-iceberg", "duckdb-extension-tpch")
_ROWS = 10_000_000
_SCALES = (0.1, 1.0)
# A pass over all queries takes minutes at the larger scale.
_PASSES = 3
_MOST_MS, _MOST_PART = 150, 0.05
_SOURCE = """
SELECT i AS id, (i * 7919 % {rows}) / {rows} AS x, 'item-' || (i * 7919 % {rows}) AS s,
    make_timestamp(i * 1000000) AS ts
FROM range({rows}) r(i)
"""
# `spark`: Spark runs every query that it can run, of any size.
_SETTINGS = {
    "auto": "SET engine = 'auto'; RESET spark_from",
    "spark": "SET engine = 'auto'; SET spark_from = '0'",
    "duckdb": "SET engine = 'duckdb'",
}


@dataclass(frozen=True)
class Sizes:
    rows: int
    scales: tuple[float, ...]
    rounds: int

    @property
    def are_full(self) -> bool:
        return self == Sizes(_ROWS, _SCALES, ROUNDS)


@dataclass(frozen=True)
class Bench:
    session: Session
    folder: Path
    sizes: Sizes

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Return the rows of the last statement, or its report."""
        rows: list[dict[str, Any]] = []
        for outcome in run(self.session, text):
            rows = outcome.table().to_pylist()
        return rows

    def by_hand(self, source: str, target: str) -> None:
        spark = self.session.begin_statement().spark
        assert spark is not None
        with spark.engine.session() as session:
            session.spark.table(source).writeTo(target).using("iceberg").createOrReplace()


def copies(bench: Bench) -> Iterator[Result]:
    """Copy all rows of a table into another one, which each run replaces."""
    rows = bench.sizes.rows
    bench.sql(f"CREATE SCHEMA lake.copies; CREATE TABLE lake.copies.source AS {source(rows)}")

    def copy(engine: str) -> None:
        query = f"CREATE OR REPLACE TABLE lake.copies.{engine} AS FROM lake.copies.source"
        (report,) = bench.sql(f"SET engine = '{engine}'; {query}")
        assert (report["engine"], report["rows_written"]) == (engine, rows)

    works: dict[str, Work] = {
        "spark": partial(copy, "spark"),
        "by hand": partial(bench.by_hand, "lake.copies.source", "lake.copies.by_hand"),
        "duckdb": partial(copy, "duckdb"),
    }
    seconds = medians(works, rounds=bench.sizes.rounds)
    bench.sql("RESET engine")
    name = f"CREATE TABLE AS of {rows:,} rows on Spark, times writeTo by hand"
    yield _times(name, 1.3, seconds["spark"], seconds["by hand"])
    name = f"CREATE TABLE AS of {rows:,} rows in DuckDB, times writeTo by hand"
    yield _times(name, None, seconds["duckdb"], seconds["by hand"])


def source(rows: int) -> str:
    return _SOURCE.format(rows=rows)


def queries(bench: Bench) -> Iterator[Result]:
    for scale in bench.sizes.scales:
        with _tpch(bench, scale) as files:
            yield from _planning(bench, files, scale)
            yield from _totals(bench, files, scale)


@contextmanager
def _tpch(bench: Bench, scale: float) -> Iterator[tpch.Benchmark]:
    """Create the tables of TPC-H in a schema of their own, and USE it."""
    schema = f"lake.tpch_{str(scale).replace('.', '_')}"
    with tpch.made(bench.folder / "tpch", scale) as files:
        bench.sql(f"CREATE SCHEMA {schema}; USE {schema}; SET engine = 'duckdb'")
        for name in files.tables:
            bench.sql(f"CREATE TABLE {name} AS FROM {files.source(name)}")
        yield files


def _planning(bench: Bench, files: tpch.Benchmark, scale: float) -> Iterator[Result]:
    """Measure the time until Spark, or DuckDB if Spark cannot run the query, could begin."""
    bench.sql(_SETTINGS["spark"])
    planning = {number: _plan_seconds(bench, query) for number, query in files.queries.items()}
    running = {number: _run_seconds(bench, files, number) for number in files.queries}
    used = {n: _used(planning[n], planning[n] + running[n]) for n in planning}
    worst = max(used, key=lambda number: used[number])
    numbers = {
        "worst query": float(worst),
        "its ms": 1000 * planning[worst],
        "its run s": running[worst],
        "all ms": 1000 * sum(planning.values()),
        "all runs s": sum(running.values()),
        **{f"q{number} ms": 1000 * seconds for number, seconds in planning.items()},
    }
    allowance = f"{_MOST_MS} ms or {_MOST_PART:.0%} of the run"
    name = f"parse, plan and translate at {scale:g}, part of {allowance}"
    yield Result(name, used[worst], "", 1, False, numbers)


def _plan_seconds(bench: Bench, query: str) -> float:
    def explain() -> float:
        start = time.perf_counter()
        bench.sql(f"EXPLAIN CREATE OR REPLACE TABLE answer AS {query}")
        return time.perf_counter() - start

    return statistics.median(explain() for _ in range(ROUNDS))


def _used(planning: float, total: float) -> float:
    """Return the part of the larger of the two allowances that planning takes."""
    return planning / max(_MOST_MS / 1000, _MOST_PART * total)


def _run_seconds(bench: Bench, files: tpch.Benchmark, number: int) -> float:
    start = time.perf_counter()
    bench.sql(f"CREATE OR REPLACE TABLE q{number} AS {files.queries[number]}")
    return time.perf_counter() - start


def _totals(bench: Bench, files: tpch.Benchmark, scale: float) -> Iterator[Result]:
    def run_all(setting: str) -> float:
        bench.sql(setting)
        return sum(_run_seconds(bench, files, number) for number in files.queries)

    works: dict[str, Work] = {
        name: partial(run_all, setting) for name, setting in _SETTINGS.items()
    }
    rounds = bench.sizes.rounds if scale < 1 else min(bench.sizes.rounds, _PASSES)
    seconds = medians(works, rounds=rounds)
    best = min(seconds["spark"], seconds["duckdb"])
    name = f"TPC-H at {scale:g}, all queries by auto, times the better engine"
    numbers = {f"{engine} s": value for engine, value in seconds.items()}
    yield Result(name, seconds["auto"] / best, "", 1.1, False, numbers)


def _times(name: str, target: float | None, own: float, reference: float) -> Result:
    numbers = {"seconds": own, "reference seconds": reference}
    return Result(name, own / reference, "", target, False, numbers)


SUITES: dict[str, Callable[[Bench], Iterator[Result]]] = {"copies": copies, "queries": queries}
_MEMORY = "memory"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pipeline", description=__doc__)
    known = [*SUITES, _MEMORY, []]
    parser.add_argument("suites", nargs="*", choices=known, help="default: all, and write results")
    parser.add_argument(
        "--rows", type=int, default=_ROWS, help="number of rows; only the default writes results"
    )
    parser.add_argument(
        "--scales", type=float, nargs="*", default=_SCALES, help="scale factors of TPC-H"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds after the warm-ups")
    options = parser.parse_args(arguments)
    sizes = Sizes(options.rows, tuple(options.scales), options.rounds)
    selected = options.suites or [*SUITES, _MEMORY]
    load = os.getloadavg()[0]  # of other processes: above 0.5, ratios on two cores are unreliable
    touch_memory()
    results = [*_in_one_session(selected, sizes)]
    if _MEMORY in selected:
        results += memory(source, sizes.rows)
    print(table(results))
    if not options.suites and sizes.are_full:
        counts = {"rounds": ROUNDS, "rounds_at_1": _PASSES, "warm_ups": WARM_UPS, "rows": _ROWS}
        settings = {"load_before": load, **counts, **_heap()}
        write(_RESULTS, results, settings, _PACKAGES)
    return 0


def _heap() -> dict[str, str]:
    name = "spark.driver.memory"
    return {name: complete({}, Path())[name]}


def _in_one_session(selected: list[str], sizes: Sizes) -> Iterator[Result]:
    suites = [suite for name, suite in SUITES.items() if name in selected]
    if not suites:
        return
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(
            prefix="jetbridge-bench-", ignore_cleanup_errors=True
        )
        folder = Path(stack.enter_context(temporary))
        config = Config(catalogs={"lake": LakeConfig(warehouse=str(folder / "warehouse"))})
        session = stack.enter_context(open_session(config))
        for suite in suites:
            yield from suite(Bench(session, folder, sizes))
