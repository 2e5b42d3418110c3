"""Measures the lake, as ratios to the memory backend and to Spark in the same run."""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import jetbridge
from benchmarks.subjects.lake_servers import HEAP, memory, startup
from benchmarks.tools import data, statements
from benchmarks.tools.measure import ROUNDS, WARM_UPS, Work, medians, repeated, summed, touch_memory
from benchmarks.tools.processes import Running, started
from benchmarks.tools.report import Result, table, write
from benchmarks.tools.statements import SCHEMA

_RESULTS = Path(__file__).parent / "results" / "lake.json"
_PACKAGES = ("pyspark", "pyiceberg", "duckdb-extension-iceberg")
_MILLION = 1_000_000
_SENT_ROWS = 2048
_CALLS = 10
_MANY_INSERTS = 202
_AROUND = 2  # inserts before and after the measured one
_SLICES = 100
_KEY = data.SCHEMA.field("id")
_SET = data.SCHEMA.field("ts")
_VALUE = pa.scalar(1_700_000_000_000_000, _SET.type)


class Bench:
    """Hold the clients of one server, and the rows to write."""

    def __init__(self, subject: Running, folder: Path, rows: int) -> None:
        self.folder = folder
        self.memory = jetbridge.connect(subject.location, "memory")
        self.lake = jetbridge.connect(subject.location, "lake")
        for client in (self.memory, self.lake):
            client.create_schema(SCHEMA)
        self.rows = data.rows(rows)
        self.small = data.batches(self.rows, _SENT_ROWS)

    @property
    def count(self) -> int:
        return int(self.rows.num_rows)

    def filled_table(self, name: str) -> str:
        self.lake.create_table(SCHEMA, name, data.SCHEMA)
        assert self.lake.insert(SCHEMA, name, self.small).affected_rows == self.count
        return name

    def by_hand(self, action: str, argument: str) -> float:
        """Run an action of `by_hand`; return the seconds of its work."""
        (seconds,) = self.lake.action(f"bench_{action}", argument.encode())
        return float(seconds)

    def metadata(self, name: str) -> str:
        """Return the current metadata file of a table."""
        (location,) = self.lake.action("bench_metadata", f"{SCHEMA}.{name}".encode())
        return location.decode()

    def key(self, number: int) -> int:
        """Return keys from all parts of the table, each once."""
        return (number * 654_321 + 12_345) % self.count


def scans(bench: Bench) -> Iterator[Result]:
    bench.filled_table("scanned")
    bench.memory.create_table(SCHEMA, "scanned", data.SCHEMA)
    bench.memory.insert(SCHEMA, "scanned", bench.small)
    for client in (bench.lake, bench.memory):
        assert client.read(SCHEMA, "scanned").num_rows == bench.count
    seconds = medians(
        {
            "lake": lambda: bench.lake.read(SCHEMA, "scanned"),
            "memory": lambda: bench.memory.read(SCHEMA, "scanned"),
            "spark": lambda: bench.by_hand("to_arrow", f"lake.{SCHEMA}.scanned"),
        }
    )
    bench.memory.drop_table(SCHEMA, "scanned")
    for against, target, goal in (("memory", 0.7, 1.0), ("spark", 4, None)):
        name = f"full scan, rows/s, of {_REFERENCES[against]}"
        yield _faster(name, target, goal, seconds["lake"], seconds[against])


_REFERENCES = {"memory": "the memory backend's", "spark": "spark.table(t).toArrow()'s"}


def inserts(bench: Bench) -> Iterator[Result]:
    """Insert into an empty table each time."""

    def empty() -> None:
        for client in (bench.lake, bench.memory):
            client.drop_table(SCHEMA, "inserted", ignore_not_found=True)
            client.create_table(SCHEMA, "inserted", data.SCHEMA)

    seconds = medians(
        {
            "lake": lambda: bench.lake.insert(SCHEMA, "inserted", bench.small),
            "memory": lambda: bench.memory.insert(SCHEMA, "inserted", bench.small),
        },
        before=empty,
    )
    assert bench.lake.read(SCHEMA, "inserted").num_rows in (0, bench.count)
    name = "INSERT in batches of 2,048, rows/s, of the memory backend's"
    yield _faster(name, 0.25, 0.4, seconds["lake"], seconds["memory"])


def single_row(bench: Bench) -> Iterator[Result]:
    row = bench.small[0].slice(0, 1)
    for name in ("single", "bare"):
        bench.lake.create_table(SCHEMA, name, data.SCHEMA)
    seconds = medians(
        {
            "lake": repeated(lambda: bench.lake.insert(SCHEMA, "single", row), _CALLS),
            "bare": summed(lambda: bench.by_hand("append", f"{SCHEMA}.bare"), _CALLS),
        }
    )
    per_call = {name: total / _CALLS for name, total in seconds.items()}
    yield _times("INSERT of one row, bare commits", 2, None, per_call["lake"], per_call["bare"])


def piling(bench: Bench) -> Iterator[Result]:
    """Insert many single rows: a later INSERT must not take longer than an early one."""
    row = bench.small[0].slice(0, 1)
    bench.lake.create_table(SCHEMA, "piled", data.SCHEMA)
    seconds = []
    for _ in range(_MANY_INSERTS):
        start = time.perf_counter()
        bench.lake.insert(SCHEMA, "piled", row)
        seconds.append(time.perf_counter() - start)

    def about(number: int) -> float:
        return statistics.median(seconds[number - 1 - _AROUND : number + _AROUND])

    name = "the 200th INSERT of one row, times the 10th"
    yield _times(name, 2, None, about(200), about(10))


def lookups(bench: Bench) -> Iterator[Result]:
    """Look up single rows by the ascending key, so that file statistics can exclude files."""
    name = bench.filled_table("sorted")
    connection = statements.plain_duckdb()
    source = bench.metadata(name).replace("'", "''")
    keys = {who: iter(map(bench.key, range(_MANY_INSERTS))) for who in ("lake", "bare")}

    def lookup() -> None:
        where = statements.equals(_KEY.name, next(keys["lake"]))
        assert bench.lake.read(SCHEMA, name, filters=where).num_rows == 1

    def bare() -> None:
        query = f"FROM iceberg_scan('{source}') WHERE id = {next(keys['bare'])}"
        assert connection.execute(query).to_arrow_table().num_rows == 1
        bench.lake.action("bench_nothing")

    seconds = medians({"lake": repeated(lookup, _CALLS), "bare": repeated(bare, _CALLS)})
    connection.close()
    per_call = {who: total / _CALLS for who, total in seconds.items()}
    name = "point lookup on a sorted key, times iceberg_scan + an empty action"
    yield _times(name, 2, None, per_call["lake"], per_call["bare"])


def changes(bench: Bench) -> Iterator[Result]:
    """Change two tables with the same rows by the same statements, once by hand."""
    ours, theirs = bench.filled_table("ours"), f"lake.{SCHEMA}.{bench.filled_table('theirs')}"
    own_keys = iter(range(10**9))
    keys = iter(range(10**9))  # the same keys, for the work by hand

    def update() -> None:
        where = statements.equals(_KEY.name, bench.key(next(own_keys)))
        assert statements.update(bench.lake, ours, where, _SET, _VALUE) == 1

    def delete() -> None:
        where = statements.equals(_KEY.name, bench.key(next(own_keys)))
        assert statements.delete(bench.lake, ours, where) == 1

    def merge(then: str) -> Work:
        def run() -> float:
            source = f"(SELECT {bench.key(next(keys))}L AS id, {_TYPED} AS ts)"
            return bench.by_hand("sql", _merge(theirs, source, then))

        return run

    for name, work, then in (("UPDATE", update, _UPDATE), ("DELETE", delete, "DELETE")):
        seconds = medians({"lake": work, "by hand": merge(then)})
        title = f"{name} of one row by key, times that MERGE by hand"
        yield _times(title, 1, 0.5, seconds["lake"], seconds["by hand"])
    yield _many_changed(bench, ours, theirs)


def _many_changed(bench: Bench, ours: str, theirs: str) -> Result:
    """Update one row in a hundred, from all parts of the table; other rows in each round."""
    size = bench.count // _SLICES
    _stage(bench, size)
    slices = {who: iter(range(_SLICES)) for who in ("lake", "by hand")}

    def update() -> None:
        start = next(slices["lake"]) * size
        where = statements.between("x", start / bench.count, (start + size) / bench.count)
        changed = statements.update(bench.lake, ours, where, _SET, _VALUE)
        assert 0 < size - changed + 20 <= 40, changed  # some rows were deleted before

    def merge() -> float:
        return bench.by_hand("sql", _merge(theirs, f"part{next(slices['by hand'])}", _UPDATE))

    seconds = medians({"lake": update, "by hand": merge})
    name = f"UPDATE of {size:,} of {bench.count:,} rows, times the same MERGE by hand"
    return _times(name, 1.5, None, seconds["lake"], seconds["by hand"])


def _stage(bench: Bench, size: int) -> None:
    """Keep the new values in Spark's memory, so that the MERGE by hand need not read them."""
    part = (bench.rows.column("x").to_numpy() * bench.count + 0.5).astype("int64") // size
    staged = pa.table(
        {"part": part, "id": bench.rows.column("id"), "ts": pa.repeat(_VALUE, bench.count)}
    )
    path = bench.folder / "staged.parquet"
    pq.write_table(staged.filter(part < WARM_UPS + ROUNDS), path)
    for number in range(WARM_UPS + ROUNDS):
        query = f"SELECT id, ts FROM parquet.`{path}` WHERE part = {number}"  # noqa: S608
        bench.by_hand("sql", f"CACHE TABLE part{number} AS {query}")


_TYPED = f"timestamp_ntz'{_VALUE.as_py()}'"
_UPDATE = "UPDATE SET t.ts = u.ts"


def _merge(target: str, source: str, then: str) -> str:
    return f"MERGE INTO {target} t USING {source} u ON t.id = u.id WHEN MATCHED THEN {then}"


def _faster(name: str, target: float, goal: float | None, own: float, reference: float) -> Result:
    """Return our speed, as a multiple of the reference's."""
    numbers = {"seconds": own, "reference seconds": reference}
    return Result(name, reference / own, "", target, True, numbers, goal)


def _times(name: str, target: float, goal: float | None, own: float, reference: float) -> Result:
    """Return our time, as a multiple of the reference's."""
    numbers = {"ms": 1000 * own, "reference ms": 1000 * reference}
    return Result(name, own / reference, "", target, False, numbers, goal)


SUITES: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "scans": scans,
    "inserts": inserts,
    "single_row": single_row,
    "piling": piling,
    "lookups": lookups,
    "changes": changes,
}
# These start servers of their own.
SEPARATE: dict[str, Callable[[int], Iterator[Result]]] = {"memory": memory, "startup": startup}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks lake", description=__doc__)
    known = [*SUITES, *SEPARATE, []]
    parser.add_argument("suites", nargs="*", choices=known, help="default: all, and write results")
    parser.add_argument(
        "--rows", type=int, default=_MILLION, help="number of rows; only the default writes results"
    )
    options = parser.parse_args(arguments)
    selected = options.suites or [*SUITES, *SEPARATE]
    load = os.getloadavg()[0]  # of other processes: above 0.5, ratios on two cores are unreliable
    touch_memory()
    results = [*_in_one_server(selected, options.rows)]
    for name, suite in SEPARATE.items():
        if name in selected:
            results += suite(options.rows)
    print(table(results))
    if not options.suites and options.rows == _MILLION:
        settings = {"load_before": load, "rounds": ROUNDS, "warm_ups": WARM_UPS, "rows": _MILLION}
        write(_RESULTS, results, {**settings, "spark.driver.memory": HEAP}, _PACKAGES)
    return 0


def _in_one_server(selected: list[str], rows: int) -> Iterator[Result]:
    suites = [suite for name, suite in SUITES.items() if name in selected]
    if not suites:
        return
    with (
        tempfile.TemporaryDirectory(
            prefix="jetbridge-bench-", ignore_cleanup_errors=True
        ) as folder,
        started("benchmarks.subjects.lake_subject", folder) as subject,
    ):
        bench = Bench(subject, Path(folder), rows)
        for suite in suites:
            yield from suite(bench)
