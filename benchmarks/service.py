"""Measures the service, as ratios to a pyarrow.flight server in the same run."""

import argparse
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyarrow import flight

from benchmarks.airport import ROWID_INDEX, Session, Table, comparison, new_table
from benchmarks.tools import data
from benchmarks.tools.measure import ROUNDS, WARM_UPS, medians, repeated, touch_memory
from benchmarks.tools.processes import PeakMemory, Running, started
from benchmarks.tools.report import Result, table, write

_RESULTS = Path(__file__).parent / "results" / "service.json"
_MILLION = 1_000_000
_MANY = 10_000_000
_CHANGED = 10_000
_SENT_ROWS = 2048
_PEER_SIZES = (16_384, 32_768, 65_536)
_CALLS = 100
_MIB = 1024 * 1024


class PeerClient:
    """Call the reference server."""

    def __init__(self, location: str) -> None:
        self._client = flight.FlightClient(location)

    def put(self, name: str, table: pa.Table, size: int) -> None:
        writer, _ = self._client.do_put(flight.FlightDescriptor.for_path(name), table.schema)
        with writer:
            writer.write_table(table, max_chunksize=size)

    def read_all(self, name: str) -> pa.Table:
        return self._client.do_get(flight.Ticket(name)).read_all()

    def insert(self, batches: list[pa.RecordBatch], mode: str) -> None:
        descriptor = flight.FlightDescriptor.for_path("inserted", mode)
        writer, reader = self._client.do_exchange(descriptor)
        with writer:
            writer.begin(batches[0].schema)
            assert reader.schema is not None
            for batch in batches:
                writer.write_batch(batch)
                if mode == "echo":
                    assert reader.read_chunk().data.num_rows == batch.num_rows
            writer.done_writing()
            reader.read_chunk()

    def empty_action(self) -> None:
        list(self._client.do_action(flight.Action("nothing", b"")))


class Bench:
    """Hold the clients of both servers, and the rows to write."""

    def __init__(self, subject: Running, peer: Running) -> None:
        self.session, self.peer = Session(subject.location), PeerClient(peer.location)
        self.session.create_schema()
        self.rows = data.rows(_MILLION)
        self.small = data.batches(self.rows, _SENT_ROWS)

    def new_table(self, name: str) -> Table:
        return self.session.create_table(name, data.SCHEMA)

    def filled_table(self, name: str) -> Table:
        filled = self.new_table(name)
        assert filled.insert(self.small, data.SCHEMA) == _MILLION
        return filled


def scans(bench: Bench) -> Iterator[Result]:
    """Read all rows by one DoGet; the reference uses the batch size that is best for it."""
    own = bench.filled_table("scanned")
    rows = own.read_all()
    assert rows.num_rows == _MILLION
    for size in _PEER_SIZES:
        bench.peer.put(str(size), rows, size)
    names = [str(size) for size in _PEER_SIZES]
    by_size = medians({name: partial(bench.peer.read_all, name) for name in names})
    best = min(names, key=by_size.__getitem__)
    seconds = medians({"jetbridge": own.read_all, "peer": partial(bench.peer.read_all, best)})
    yield _ratio(
        "DoGet of 1M rows, rows/s",
        0.9,
        seconds["peer"],
        seconds["jetbridge"],
        peer_batch_rows=int(best),
    )


def inserts(bench: Bench) -> Iterator[Result]:
    """Insert into an empty table each time, so that no server holds more and more rows."""
    own = bench.new_table("inserted")

    def empty() -> None:
        nonlocal own
        bench.session.drop_table("inserted")
        own = bench.new_table("inserted")

    seconds = medians(
        {
            "jetbridge": lambda: own.insert(bench.small, data.SCHEMA),
            "peer": lambda: bench.peer.insert(bench.small, "keep"),
            "jetbridge returning": lambda: own.insert_returning(bench.small, data.SCHEMA),
            "peer returning": lambda: bench.peer.insert(bench.small, "echo"),
        },
        before=empty,
    )
    yield _ratio("INSERT of 1M rows, rows/s", 0.5, seconds["peer"], seconds["jetbridge"])
    name = "INSERT of 1M rows RETURNING, rows/s"
    yield _ratio(name, 0.25, seconds["peer returning"], seconds["jetbridge returning"])


def single_row(bench: Bench) -> Iterator[Result]:
    own, row = bench.new_table("single"), [bench.small[0].slice(0, 1)]
    seconds = medians(
        {
            "insert": repeated(lambda: own.insert(row, data.SCHEMA), _CALLS),
            "action": repeated(bench.peer.empty_action, _CALLS),
        }
    )
    insert, action = (1000 * total / _CALLS for total in seconds.values())
    numbers = {"insert ms": insert, "empty action ms": action}
    excess = insert - 3 * action
    yield Result("INSERT of one row, over 3 empty actions", excess, "ms", 5, False, numbers)


def filters(bench: Bench) -> Iterator[Result]:
    own = bench.filled_table("filtered")
    columns = [0, 1, 2, 3]
    by_id = comparison("COMPARE_EQUAL", 0, "BIGINT", 654_321)
    by_text = comparison("COMPARE_EQUAL", 2, "VARCHAR", "item-654321")
    assert own.select(columns) == _MILLION
    assert own.select(columns, by_id) == 1
    assert own.select(columns, by_text) == 1
    seconds = medians(
        {
            "full scan": lambda: own.select(columns),
            "id = k": lambda: own.select(columns, by_id),
            "s = k": lambda: own.select(columns, by_text),
        }
    )
    for name, column in (("id = k", "ascending bigint"), ("s = k", "shuffled string")):
        yield _ratio(f"point filter on {column}, times", 3, seconds["full scan"], seconds[name])


def changes(bench: Bench) -> Iterator[Result]:
    """Change rows that are selected by `x`, so they are scattered over the table."""
    own = bench.filled_table("changed")
    columns = [1, ROWID_INDEX]
    new = pa.table([bench.rows.column("ts").slice(0, _CHANGED)], names=["ts"])
    low = comparison("COMPARE_LESSTHAN", 0, "DOUBLE", _CHANGED / _MILLION)
    slices = iter(range(100))

    def delete() -> None:
        first = next(slices) * _CHANGED
        start = comparison("COMPARE_GREATERTHANOREQUALTO", 0, "DOUBLE", first / _MILLION)
        end = comparison("COMPARE_LESSTHAN", 0, "DOUBLE", (first + _CHANGED) / _MILLION)
        assert abs(own.delete(columns, start, end) - _CHANGED) <= 1

    def update() -> None:
        assert own.update(columns, new, low) == _CHANGED

    # UPDATE first, because DELETE removes its rows.
    for name, work in (("UPDATE", update), ("DELETE", delete)):
        seconds = medians({name: work, "full scan": lambda: own.select([0, 1, 2, 3])})
        change, scan = seconds.values()
        title = f"{name} of 10,000 of 1M rows, full scans"
        yield Result(title, change / scan, "", 1, False, {name: change, "full scan": scan})


def ddl(bench: Bench) -> Iterator[Result]:
    session = bench.session
    bench.new_table("altered")
    column = pa.schema([("added", pa.int32())]).serialize().to_pybytes()

    def schemas() -> None:
        session.create_schema("other")
        session.drop_schema("other")

    other = new_table("other", data.SCHEMA)

    def tables() -> None:
        session.action("create_table", other)
        session.drop_table("other")

    def columns() -> None:
        session.alter("add_column", "altered", if_column_not_exists=False, column_schema=column)
        session.alter(
            "remove_column",
            "altered",
            removed_column="added",
            if_column_exists=False,
            cascade=False,
        )

    works = {"schema": schemas, "table": tables, "column": columns}
    repeats = {name: repeated(work, _CALLS // 2) for name, work in works.items()}
    seconds = medians({"action": repeated(bench.peer.empty_action, _CALLS), **repeats})
    action = 1000 * seconds["action"] / _CALLS
    for name in works:
        milliseconds = 1000 * seconds[name] / _CALLS
        title = f"create + drop {name}, each, empty actions"
        numbers = {"ms": milliseconds, "empty action ms": action}
        yield Result(title, milliseconds / action, "", 2, False, numbers)


def memory() -> Iterator[Result]:
    """Measure memory in a new server, which other work has not made grow.

    Both growths are counted from before the insert, because the server keeps the rows.
    """
    with started("benchmarks.subjects.subject") as running:
        session = Session(running.location)
        session.create_schema()
        own = session.create_table("large", data.SCHEMA)
        with PeakMemory(running.pid) as inserting:
            own.insert(data.many(_MANY, _SENT_ROWS), data.SCHEMA)
        data_bytes = rows = 0
        with PeakMemory(running.pid) as reading:
            for part in own.stream():
                data_bytes += part.data.slice().select(data.SCHEMA.names).nbytes
                rows += part.data.num_rows
    assert rows == _MANY
    for name, peak in (("INSERT", inserting.peak), ("DoGet", reading.peak)):
        numbers = {
            "growth MiB": (peak - inserting.before) / _MIB,
            "data kept MiB": data_bytes / _MIB,
        }
        excess = numbers["growth MiB"] - numbers["data kept MiB"]
        yield Result(
            f"{name} of 10M rows, memory over the data", excess, "MiB", 200, False, numbers
        )


def _ratio(name: str, target: float, reference: float, own: float, **more: float) -> Result:
    """Return our speed, as a multiple of the reference's."""
    numbers = {"seconds": own, "reference seconds": reference, **more}
    return Result(name, reference / own, "", target, True, numbers)


SUITES: dict[str, Callable[[Bench], Iterator[Result]]] = {
    "scans": scans,
    "inserts": inserts,
    "single_row": single_row,
    "filters": filters,
    "changes": changes,
    "ddl": ddl,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks service", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", choices=[*SUITES, "memory", []], help="default: all, and write results"
    )
    selected = parser.parse_args(arguments).suites
    results: list[Result] = []
    load = os.getloadavg()[0]  # of other processes: above 0.5, ratios on two cores are unreliable
    touch_memory()
    with (
        started("benchmarks.subjects.subject") as subject,
        started("benchmarks.subjects.peer") as peer,
    ):
        bench = Bench(subject, peer)
        for name, suite in SUITES.items():
            if not selected or name in selected:
                results += suite(bench)
    if not selected or "memory" in selected:
        results += memory()
    print(table(results))
    if not selected:
        settings = {"load_before": load, "rounds": ROUNDS, "warm_ups": WARM_UPS, "rows": _MILLION}
        write(_RESULTS, results, settings)
    return 0
