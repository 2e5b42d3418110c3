"""Measures SQL Server, as ratios to Microsoft's drivers alone.

Runs against the stand-in, or the server whose connection string is in JETBRIDGE_TEST_MSSQL.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import jetbridge
from benchmarks.subjects.mssql_bare import JDBC_SETTINGS, WRITERS, JdbcLoad, bare_load, bare_read
from benchmarks.subjects.mssql_memory import memory, on_spark
from benchmarks.tools import data
from benchmarks.tools.measure import ROUNDS, WARM_UPS, Work, medians, touch_memory
from benchmarks.tools.processes import started
from benchmarks.tools.report import Result, table, write
from jetbridge.app.sessions import open_session
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.config import CatalogConfig, Config
from jetbridge.dialects.tsql.statements import bracket
from jetbridge.errors import Unavailable
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from tests.helpers import mssql_server

_RESULTS = Path(__file__).parent / "results" / "mssql.json"
_PACKAGES = ("mssql-python", "pyspark")
_ROWS = 1_000_000
_POLL_SECONDS = 0.002
# Warm-ups, because Java compiles in the first rounds, which takes a tenth of both cores.
_JDBC_WARM_UPS = 10
_PASSWORD = "JETBRIDGE_BENCH_PASSWORD"  # noqa: S105 - the name of a variable
_COLUMNS = "(id bigint{}, x float NULL, s nvarchar(max) NULL, ts datetime2(7) NULL)"
_COPY = "CREATE OR REPLACE TABLE m.dbo.ours AS FROM mem.s.source"
_QUERY = "SELECT id, x, s, ts FROM dbo.source"


@dataclass(frozen=True)
class Sizes:
    rows: int
    rounds: int

    @property
    def are_full(self) -> bool:
        return self == Sizes(_ROWS, ROUNDS)


@dataclass(frozen=True)
class Bench:
    address: Address
    server: ConnectionPool
    folder: Path
    sizes: Sizes

    def rows(self) -> pa.Table:
        return data.rows(self.sizes.rows)

    def file(self) -> Path:
        file = self.folder / "source.parquet"
        if not file.exists():
            pq.write_table(self.rows(), file)
        return file

    def recreate(self, name: str, more: str = " NULL") -> None:
        with self.server.borrow_core() as connection:
            connection.run(f"DROP TABLE IF EXISTS dbo.{name}")
            connection.run(f"CREATE TABLE dbo.{name} {_COLUMNS.format(more)}")

    def check(self, name: str) -> None:
        """Check that the table has every row once."""
        with self.server.borrow_core() as connection:
            counts = f"SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT id) FROM dbo.{name}"  # noqa: S608
            assert connection.run(counts) == [(self.sizes.rows, self.sizes.rows)], name

    def per_second(self, seconds: float) -> float:
        return self.sizes.rows / seconds


@dataclass
class SessionLoad:
    """Run CREATE TABLE AS in a session that has the rows in a table in memory."""

    session: Session
    rows: int
    phases: list[Mapping[str, float]] = field(default_factory=list)

    def load(self) -> None:
        report = self._run(_COPY)
        assert report.rows_written == self.rows
        self.phases.append(report.seconds)

    def _run(self, text: str) -> Report:
        for outcome in run(self.session, text):
            report = outcome.report
        assert report is not None
        return report

    def prepare(self, file: Path) -> None:
        self._run(f"{on_spark(self.rows)} CREATE SCHEMA mem.s")
        self._run(f"CREATE TABLE mem.s.source AS FROM read_parquet('{file}')")

    def typical_phases(self, warm_ups: int = WARM_UPS) -> dict[str, float]:
        """Return the median of each phase, without the warm-ups."""
        rounds = self.phases[warm_ups:]
        return {f"{p} s": statistics.median(phases[p] for phases in rounds) for p in rounds[0]}


@contextmanager
def _open_session_load(bench: Bench, spark: Mapping[str, str]) -> Iterator[SessionLoad]:
    catalogs = {"m": MssqlConfig(address=bench.address), "mem": CatalogConfig("memory")}
    with open_session(Config(catalogs=catalogs, spark=spark)) as session:
        load = SessionLoad(session, bench.sizes.rows)
        load.prepare(bench.file())
        yield load


def loads(bench: Bench) -> Iterator[Result]:
    """Load rows by CREATE TABLE AS with two writers, and by the drivers alone."""
    with ExitStack() as stack:
        bare = stack.enter_context(bare_load(bench.address, bench.rows(), bench.folder))
        ours, jdbc = _with_jdbc(bench, stack)

        def run_load(name: str, load: Callable[[str], float]) -> float:
            bench.recreate(name)
            seconds = load(f"dbo.{name}")
            bench.check(name)
            return seconds

        works: dict[str, Work] = {"ours": ours.load, "bare": lambda: run_load("bare", bare.load)}
        if jdbc is not None:
            works["jdbc"] = lambda: run_load("jdbc", jdbc.load)
        seconds = medians(works, rounds=bench.sizes.rounds, warm_ups=_JDBC_WARM_UPS)
        bench.check("ours")
        phases = ours.typical_phases(_JDBC_WARM_UPS)
    name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, part of the bare driver"
    yield _part(bench, name, 0.9, seconds["ours"], seconds["bare"], phases)
    if jdbc is not None:
        name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, times Spark's JDBC writer"
        yield _part(bench, name, 2, seconds["ours"], seconds["jdbc"])


def _with_jdbc(bench: Bench, stack: ExitStack) -> tuple[SessionLoad, JdbcLoad | None]:
    """Open both in one Spark; without the second if the jar of its driver cannot be fetched."""
    try:
        with ExitStack() as attempt:
            ours = attempt.enter_context(_open_session_load(bench, JDBC_SETTINGS))
            runner = ours.session.begin_statement().spark
            assert runner is not None
            jdbc = JdbcLoad(runner.engine, bench.address, bench.file())
            stack.push(attempt.pop_all())
        return ours, jdbc
    except Unavailable as error:
        print(f"Spark's JDBC writer is not measured: {error}")
        return stack.enter_context(_open_session_load(bench, {})), None


def _part(
    bench: Bench,
    name: str,
    target: float | None,
    own: float,
    reference: float,
    more: Mapping[str, float] | None = None,
) -> Result:
    """Return our rows per second, as a part of the reference's."""
    speeds = {
        "rows/s": bench.per_second(own),
        "reference rows/s": bench.per_second(reference),
        **(more or {}),
    }
    return Result(name, reference / own, "", target, True, speeds)


def begins(bench: Bench) -> Iterator[Result]:
    """Measure the time from the statement to the first row, which the stand-in counts."""
    if mssql_server.is_given():
        print("the time to the first row is not measured: only the stand-in counts rows")
        return
    with _open_session_load(bench, {}) as ours:
        seconds = medians({"first": lambda: _first_row(ours)}, rounds=bench.sizes.rounds)
        phases = ours.typical_phases()
    name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, until the first is at the server"
    yield Result(name, seconds["first"], "s", 2, False, phases)


def _first_row(ours: SessionLoad) -> float:
    before = _bulk_rows()
    loading = threading.Thread(target=ours.load)
    start = time.perf_counter()
    loading.start()
    while _bulk_rows() == before and loading.is_alive():
        time.sleep(_POLL_SECONDS)
    seconds = time.perf_counter() - start
    assert loading.is_alive(), "no row has arrived"
    loading.join()
    return seconds


def _bulk_rows() -> int:
    rows: int = mssql_server.stand_in().order(bulk_rows=True)["bulk_rows"]
    return rows


def reads(bench: Bench) -> Iterator[Result]:
    """Read all rows of a table by a client of `jetbridge serve`, and by the driver alone."""
    _fill(bench)
    with ExitStack() as stack:
        bare = stack.enter_context(bare_read(bench.address))
        location = stack.enter_context(_serve(bench))
        readers = {"snapshot": "m", "parts": "parts"}
        works: dict[str, Work] = {name: _scan(bench, location, c) for name, c in readers.items()}
        works["bare"] = lambda: _check_rows(bench, bare.count(_QUERY))
        seconds = medians(works, rounds=bench.sizes.rounds)
    name = f"SELECT of {bench.sizes.rows:,} rows over Airport, part of the bare driver"
    yield _part(bench, name, 0.8, seconds["snapshot"], seconds["bare"])
    name = f"SELECT of {bench.sizes.rows:,} rows over Airport in parts, part of the bare driver"
    yield _part(bench, name, None, seconds["parts"], seconds["bare"])


def _fill(bench: Bench) -> None:
    """Fill a table with a key, so that it can be read in parts, and allow snapshots."""
    bench.recreate("source", " NOT NULL PRIMARY KEY")
    rows = bench.rows()
    with bench.server.borrow_core() as connection:
        name = bracket(bench.address.database)
        connection.run(f"ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON")
        with connection.transaction():
            connection.load("dbo.source", rows.to_reader(), rows.column_names, lock=True)
    bench.check("source")


def _scan(bench: Bench, location: str, catalog: str) -> Work:
    client = jetbridge.connect(location, catalog)

    def work() -> None:
        with client.scan("dbo", "source") as batches:
            _check_rows(bench, sum(batch.num_rows for batch in batches))

    return work


def _check_rows(bench: Bench, rows: int) -> None:
    assert rows == bench.sizes.rows


@contextmanager
def _serve(bench: Bench) -> Iterator[str]:
    """Serve one database as two catalogs: with snapshot reads, and without."""
    address = bench.address
    options = {
        "type": "mssql",
        "server": address.server,
        "database": address.database,
        "user": address.user,
        "password_env": _PASSWORD,
        "encrypt": address.encrypt,
        "trust_server_certificate": address.trust,
    }
    catalogs = {"m": options, "parts": {**options, "mssql_snapshot_reads": False}}
    file = bench.folder / "serve.toml"
    file.write_text("".join(_toml(name, table) for name, table in catalogs.items()))
    os.environ[_PASSWORD] = address.password
    with started("jetbridge", "serve", "--port", "0", "--config", str(file)) as running:
        yield running.location


def _toml(name: str, options: Mapping[str, object]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in options.items()]
    return "\n".join([f"[catalogs.{name}]", *lines, ""])


SUITES: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "loads": loads,
    "begins": begins,
    "reads": reads,
    "memory": lambda bench: memory(bench.address, bench.sizes.rows),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mssql", description=__doc__)
    known = [*SUITES, []]
    parser.add_argument("suites", nargs="*", choices=known, help="default: all, and write results")
    parser.add_argument(
        "--rows", type=int, default=_ROWS, help="number of rows; only the default writes results"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds after the warm-ups")
    options = parser.parse_args(arguments)
    sizes = Sizes(options.rows, options.rounds)
    load = os.getloadavg()[0]  # of other processes: above 0.5, ratios on two cores are unreliable
    touch_memory()
    results = [*_run_suites(options.suites or list(SUITES), sizes)]
    print(table(results))
    if not options.suites and sizes.are_full:
        server = "given" if mssql_server.is_given() else "stand-in"
        counts = {"rounds": ROUNDS, "warm_ups": WARM_UPS, "rows": _ROWS, "writers": WRITERS}
        write(_RESULTS, results, {"server": server, "load_before": load, **counts}, _PACKAGES)
    return 0


def _run_suites(selected: list[str], sizes: Sizes) -> Iterator[Result]:
    """Run each suite in a database of its own, which is dropped at the end."""
    try:
        for suite in (SUITES[name] for name in SUITES if name in selected):
            address = mssql_server.address()
            server = ConnectionPool(address)
            with tempfile.TemporaryDirectory(
                prefix="jetbridge-bench-", ignore_cleanup_errors=True
            ) as folder:
                yield from suite(Bench(address, server, Path(folder), sizes))
            server.close()
    finally:
        mssql_server.close()
