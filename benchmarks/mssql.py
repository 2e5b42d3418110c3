"""The speed targets of SQL Server, as ratios to Microsoft's drivers alone.

Against the stand-in, or the server whose connection string is in JETBRIDGE_TEST_MSSQL.
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
from benchmarks import data
from benchmarks.measure import ROUNDS, WARM_UPS, Work, medians, touch_memory
from benchmarks.mssql_bare import JDBC_SETTINGS, WRITERS, JdbcLoad, bare_load, bare_read
from benchmarks.mssql_memory import memory, on_spark
from benchmarks.processes import started
from benchmarks.report import Result, table, write
from jetbridge.app.sessions import open_session
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.config import CatalogConfig, Config
from jetbridge.dialects.tsql.statements import bracketed
from jetbridge.errors import Unavailable
from jetbridge.pipeline.report import Report
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session
from tests import mssql_server

_RESULTS = Path(__file__).parent / "results" / "mssql.json"
_PACKAGES = ("mssql-python", "pyspark")
_ROWS = 1_000_000
_POLL_SECONDS = 0.002
# Rounds in which Java is busy with compiling, which takes a tenth of both cores.
_COMPILING = 10
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

    def make_anew(self, name: str, more: str = " NULL") -> None:
        with self.server.borrow_core() as connection:
            connection.run(f"DROP TABLE IF EXISTS dbo.{name}")
            connection.run(f"CREATE TABLE dbo.{name} {_COLUMNS.format(more)}")

    def check(self, name: str) -> None:
        """Every row once; whoever lost some was not fast."""
        with self.server.borrow_core() as connection:
            counts = f"SELECT COUNT_BIG(*), COUNT_BIG(DISTINCT id) FROM dbo.{name}"  # noqa: S608
            assert connection.run(counts) == [(self.sizes.rows, self.sizes.rows)], name

    def per_second(self, seconds: float) -> float:
        return self.sizes.rows / seconds


@dataclass
class Ours:
    """CREATE TABLE AS by a session that has the rows in a table in its memory."""

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
        """The median of each phase, without the rounds that warmed up."""
        counted = self.phases[warm_ups:]
        return {f"{p} s": statistics.median(each[p] for each in counted) for p in counted[0]}


@contextmanager
def _ours(bench: Bench, spark: Mapping[str, str]) -> Iterator[Ours]:
    catalogs = {"m": MssqlConfig(address=bench.address), "mem": CatalogConfig("memory")}
    with open_session(Config(catalogs=catalogs, spark=spark)) as session:
        made = Ours(session, bench.sizes.rows)
        made.prepare(bench.file())
        yield made


def loads(bench: Bench) -> Iterator[Result]:
    """CREATE TABLE AS by two writers, and the same rows by the drivers alone."""
    with ExitStack() as stack:
        bare = stack.enter_context(bare_load(bench.address, bench.rows(), bench.folder))
        ours, jdbc = _with_jdbc(bench, stack)

        def by(name: str, load: Callable[[str], float]) -> float:
            bench.make_anew(name)
            seconds = load(f"dbo.{name}")
            bench.check(name)
            return seconds

        works: dict[str, Work] = {"ours": ours.load, "bare": lambda: by("bare", bare.load)}
        if jdbc is not None:
            works["jdbc"] = lambda: by("jdbc", jdbc.load)
        seconds = medians(works, rounds=bench.sizes.rounds, warm_ups=_COMPILING)
        bench.check("ours")
        phases = ours.typical_phases(_COMPILING)
    name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, part of the bare driver"
    yield _part(bench, name, 0.9, seconds["ours"], seconds["bare"], phases)
    if jdbc is not None:
        name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, times Spark's JDBC writer"
        yield _part(bench, name, 2, seconds["ours"], seconds["jdbc"])


def _with_jdbc(bench: Bench, stack: ExitStack) -> tuple[Ours, JdbcLoad | None]:
    """Both in one Spark; where that does not get the jar, ours alone."""
    try:
        with ExitStack() as trying:
            ours = trying.enter_context(_ours(bench, JDBC_SETTINGS))
            runner = ours.session.begin_statement().spark
            assert runner is not None
            jdbc = JdbcLoad(runner.engine, bench.address, bench.file())
            stack.push(trying.pop_all())
        return ours, jdbc
    except Unavailable as error:
        print(f"without Spark's JDBC writer: {error}")
        return stack.enter_context(_ours(bench, {})), None


def _part(
    bench: Bench,
    name: str,
    target: float | None,
    own: float,
    reference: float,
    more: Mapping[str, float] | None = None,
) -> Result:
    """Of rows in a second."""
    speeds = {
        "rows/s": bench.per_second(own),
        "reference rows/s": bench.per_second(reference),
        **(more or {}),
    }
    return Result(name, reference / own, "", target, True, speeds)


def begins(bench: Bench) -> Iterator[Result]:
    """From the statement to the first row that the server has, as its counter tells."""
    if mssql_server.is_given():
        print("without the time to the first row: only the stand-in counts rows as they come")
        return
    with _ours(bench, {}) as ours:
        seconds = medians({"first": lambda: _first_row(ours)}, rounds=bench.sizes.rounds)
        phases = ours.typical_phases()
    name = f"CREATE TABLE AS of {bench.sizes.rows:,} rows, until the first is at the server"
    yield Result(name, seconds["first"], "s", 2, False, phases)


def _first_row(ours: Ours) -> float:
    there = _bulk_rows()
    loading = threading.Thread(target=ours.load)
    start = time.perf_counter()
    loading.start()
    while _bulk_rows() == there and loading.is_alive():
        time.sleep(_POLL_SECONDS)
    seconds = time.perf_counter() - start
    assert loading.is_alive(), "no row has come"
    loading.join()
    return seconds


def _bulk_rows() -> int:
    counted: int = mssql_server.stand_in().order(bulk_rows=True)["bulk_rows"]
    return counted


def reads(bench: Bench) -> Iterator[Result]:
    """All rows of a table by a client of `jetbridge serve`, and by the driver alone."""
    _fill(bench)
    with ExitStack() as stack:
        bare = stack.enter_context(bare_read(bench.address))
        location = stack.enter_context(_serving(bench))
        readers = {"snapshot": "m", "parts": "parts"}
        works: dict[str, Work] = {name: _scan(bench, location, c) for name, c in readers.items()}
        works["bare"] = lambda: _same(bench, bare.count(_QUERY))
        seconds = medians(works, rounds=bench.sizes.rounds)
    name = f"SELECT of {bench.sizes.rows:,} rows over Airport, part of the bare driver"
    yield _part(bench, name, 0.8, seconds["snapshot"], seconds["bare"])
    name = f"SELECT of {bench.sizes.rows:,} rows over Airport in parts, part of the bare driver"
    yield _part(bench, name, None, seconds["parts"], seconds["bare"])


def _fill(bench: Bench) -> None:
    """With a key, so that it can be read in parts; and reads of one moment are allowed."""
    bench.make_anew("source", " NOT NULL PRIMARY KEY")
    rows = bench.rows()
    with bench.server.borrow_core() as connection:
        name = bracketed(bench.address.database)
        connection.run(f"ALTER DATABASE {name} SET ALLOW_SNAPSHOT_ISOLATION ON")
        with connection.transaction():
            connection.load("dbo.source", rows.to_reader(), rows.column_names, lock=True)
    bench.check("source")


def _scan(bench: Bench, location: str, catalog: str) -> Work:
    client = jetbridge.connect(location, catalog)

    def work() -> None:
        with client.scan("dbo", "source") as batches:
            _same(bench, sum(batch.num_rows for batch in batches))

    return work


def _same(bench: Bench, rows: int) -> None:
    assert rows == bench.sizes.rows


@contextmanager
def _serving(bench: Bench) -> Iterator[str]:
    """One database as two catalogs, which differ in how they read."""
    address = bench.address
    given = {
        "type": "mssql",
        "server": address.server,
        "database": address.database,
        "user": address.user,
        "password_env": _PASSWORD,
        "encrypt": address.encrypt,
        "trust_server_certificate": address.trust,
    }
    catalogs = {"m": given, "parts": {**given, "mssql_snapshot_reads": False}}
    file = bench.folder / "serve.toml"
    file.write_text("".join(_toml(name, each) for name, each in catalogs.items()))
    os.environ[_PASSWORD] = address.password
    with started("jetbridge", "serve", "--port", "0", "--config", str(file)) as running:
        yield running.location


def _toml(name: str, given: Mapping[str, object]) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
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
    parser.add_argument("--rows", type=int, default=_ROWS, help="fewer, to try things out")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="after two to warm up")
    options = parser.parse_args(arguments)
    sizes = Sizes(options.rows, options.rounds)
    load = os.getloadavg()[0]  # of others: above 0.5 the ratios of two cores mean little
    touch_memory()
    results = [*_measured(options.suites or list(SUITES), sizes)]
    print(table(results))
    if not options.suites and sizes.are_full:
        server = "given" if mssql_server.is_given() else "stand-in"
        counts = {"rounds": ROUNDS, "warm_ups": WARM_UPS, "rows": _ROWS, "writers": WRITERS}
        write(_RESULTS, results, {"server": server, "load_before": load, **counts}, _PACKAGES)
    return 0


def _measured(chosen: list[str], sizes: Sizes) -> Iterator[Result]:
    """Each in a database of its own, which is gone at the end."""
    try:
        for suite in (SUITES[name] for name in SUITES if name in chosen):
            address = mssql_server.address()
            server = ConnectionPool(address)
            with tempfile.TemporaryDirectory(
                prefix="jetbridge-bench-", ignore_cleanup_errors=True
            ) as made:
                yield from suite(Bench(address, server, Path(made), sizes))
            server.close()
    finally:
        mssql_server.close()
