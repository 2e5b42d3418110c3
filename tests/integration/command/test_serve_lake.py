"""`jetbridge serve` with its default lake, as users run it: restarts, signals, a Spark that dies.

Each test starts where the one before stopped, in one folder: a start of Spark takes seconds.
"""

import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jetbridge.client import Client, connect
from jetbridge.errors import Unavailable
from tests.helpers.jvms import jvms
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]

COMMAND = (sys.executable, "-m", "jetbridge")
# Runs the command on a machine that has no Java.
WITHOUT_JAVA = """
import sys
from jetbridge.spark import jvm
jvm._homes = lambda: iter(())
from jetbridge.cli import main
sys.exit(main())
"""
# Other programs may keep the machine busy; a hang is what these tell from slowness.
SECONDS = 60
SPARK_SECONDS = 240
END_SECONDS = 20
ROWS = 5_000
SPARK_IS_UP = "Spark is up"
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+ [A-Z]+ jetbridge[\w.]*: .+")


class Served:
    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self._log = process, log
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"listening on grpc://127\.0\.0\.1:\d+\n", line), line + self.log()
        self.location = line.split()[-1]

    def log(self) -> str:
        return self._log.read_text()

    def client(self, catalog: str = "lake") -> Client:
        return connect(self.location, catalog)

    def jvm(self) -> psutil.Process:
        (jvm,) = jvms(psutil.Process(self.process.pid))
        return jvm

    def stop(self) -> float:
        """Stop the server, check that nothing is left of it, and return how long that took."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=SECONDS)
        seconds = time.monotonic() - began
        assert (self.process.returncode, out) == (0, "")
        assert [each for each in children if lives(each)] == []
        assert [line for line in self.log().splitlines() if not LOG_LINE.fullmatch(line)] == []
        return seconds


def lives(process: psutil.Process) -> bool:
    """Return whether a process runs; one that has ended may still be a zombie."""
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working directory; the log is elsewhere, so all files in it are the server's."""
    return tmp_path_factory.mktemp("here")


@contextmanager
def serving(folder: Path, *command: str) -> Iterator[Served]:
    log = folder.parent / f"{folder.name}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*(command or COMMAND), "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
        ) as process,
    ):
        try:
            yield Served(process, log)
        finally:
            process.kill()


def numbered(start: int, count: int) -> pa.Table:
    numbers = list(range(start, start + count))
    columns = {"n": numbers, "s": [f"row {n}" for n in numbers]}
    return pa.table(columns, schema=pa.schema([("n", pa.int64()), ("s", pa.string())]))


def figures(client: Client) -> tuple[int, int, int]:
    """Return count, sum, and number of distinct values."""
    rows = client.read("shop", "orders")
    return rows.num_rows, pc.sum(rows["n"]).as_py() or 0, pc.count_distinct(rows["s"]).as_py()


def expected(count: int) -> tuple[int, int, int]:
    return count, count * (count - 1) // 2, count


@contextmanager
def locked_catalog(folder: Path) -> Iterator[None]:
    """Let Spark wait with its commit; readers go on."""
    with closing(sqlite3.connect(folder / "jetbridge-data/catalog.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def new_file(folder: Path) -> Iterator[Callable[[], None]]:
    """Wait for the metadata that Spark writes right before it asks the catalog."""
    before = set(folder.rglob("*.metadata.json"))

    def wait_for_it() -> None:
        wait_until(lambda: set(folder.rglob("*.metadata.json")) - before, SECONDS)

    yield wait_for_it


def test_first_start_makes_the_lake_and_nothing_else(folder):
    with serving(folder) as served, served.client() as client:
        assert [each.name for each in client.list_schemas()] == ["jetbridge"]
        client.create_schema("shop")
        client.create_table("shop", "orders", numbered(0, 0).schema)
        client.insert("shop", "orders", numbered(0, ROWS))
        assert figures(client) == expected(ROWS)
        with served.client("memory") as memory:
            assert [each.name for each in memory.list_schemas()] == ["jetbridge"]
        jvm = served.jvm()
        assert served.stop() < END_SECONDS
        assert not lives(jvm)
    assert [each.name for each in folder.iterdir()] == ["jetbridge-data"]
    assert (folder / "jetbridge-data" / ".jetbridge" / "logs" / "spark.log").exists()


def test_scan_after_a_restart_does_not_wait_for_spark(folder):
    with serving(folder) as served, served.client() as client:
        assert [each.name for each in client.list_schemas()] == ["jetbridge", "shop"]
        assert figures(client) == expected(ROWS)
        assert SPARK_IS_UP not in served.log()
        # Spark is still starting, and must not hold up the end.
        assert served.stop() < END_SECONDS


def test_without_java_reads_work_and_writes_say_what_to_install(folder):
    with (
        serving(folder, sys.executable, "-c", WITHOUT_JAVA) as served,
        served.client() as client,
        served.client("memory") as memory,
    ):
        assert figures(client) == expected(ROWS)
        with pytest.raises(Unavailable, match=r"Spark needs Java 17 or 21.*install it with"):
            client.insert("shop", "orders", numbered(ROWS, 1))
        memory.create_schema("s")
        memory.create_table("s", "t", numbered(0, 0).schema)
        assert memory.insert("s", "t", numbered(0, 2)).affected_rows == 2
        assert figures(client) == expected(ROWS)
        assert served.stop() < END_SECONDS


def test_call_that_meets_a_dead_spark_is_unavailable_and_the_next_works(folder):
    with serving(folder) as served, served.client() as client, ThreadPoolExecutor(1) as pool:
        client.insert("shop", "orders", numbered(ROWS, 1))
        with locked_catalog(folder), new_file(folder) as wait_for_it:
            met = pool.submit(client.insert, "shop", "orders", numbered(ROWS + 1, 1))
            wait_for_it()
            served.jvm().kill()
            with pytest.raises(
                Unavailable, match="Spark stopped unexpectedly .* run the statement again"
            ):
                met.result(SPARK_SECONDS)
        assert figures(client) == expected(ROWS + 1)
        client.insert("shop", "orders", numbered(ROWS + 1, 1))
        assert figures(client) == expected(ROWS + 2)
        # One that does not answer is not waited for.
        served.jvm().suspend()
        assert served.stop() < END_SECONDS


def optimize(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "optimize", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=2 * SPARK_SECONDS,
        check=False,
    )


def fill(folder: Path) -> None:
    """Insert what the tests before have inserted, where they did not run."""
    with serving(folder) as served, served.client() as client:
        if "shop" not in [schema.name for schema in client.list_schemas()]:
            client.create_schema("shop")
            client.create_table("shop", "orders", numbered(0, 0).schema)
            for start, count in ((0, ROWS), (ROWS, 1), (ROWS + 1, 1)):
                client.insert("shop", "orders", numbered(start, count))


@pytest.mark.full
def test_optimize_says_what_was_there_before_and_after(folder):
    fill(folder)
    done = optimize(folder, "lake.shop.orders", "--older-than", "0s")
    assert done.returncode == 0, done.stderr
    heading, *rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    found = {row[0]: row[1:] for row in rows}
    assert heading == ["before", "after"]
    assert found["rows"] == [f"{ROWS + 2:,}"] * 2
    assert found["data files"] == ["3", "1"]
    steps = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert steps[:2] == ["starting Spark", "compaction"]
    with serving(folder) as served, served.client() as client:
        assert figures(client) == expected(ROWS + 2)


def test_optimize_of_a_table_that_is_not_there_is_one_line_and_exit_one(folder):
    done = optimize(folder, "lake.shop.nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "jetbridge: table 'shop.nowhere' does not exist\n"
    assert [each.name for each in folder.iterdir()] == ["jetbridge-data"]
