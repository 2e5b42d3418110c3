"""The next server removes the temporary folders of a killed one."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from jetbridge.client import connect
from tests.helpers.run_calls import run_sql
from tests.helpers.waiting import wait_until
from tests.helpers.wire_calls import Wire

CONFIG = """
[server]
port = 0
[limits]
spill_bytes = 1000000
[sql]
memory_limit = "200MB"
[catalogs.mem]
type = "memory"
[catalogs.lake]
type = "lake"
warehouse = "lake"
"""
# Reads and writes of memory need no Spark, which would take seconds to start.
SERVE = """
import sys
from jetbridge.spark import jvm
jvm._homes = lambda: iter(())
from jetbridge.cli import main
sys.exit(main(sys.argv[1:]))
"""
SPILLING = "SELECT count(*) FROM (SELECT i, md5(i::VARCHAR) m FROM range(20000000) r(i) ORDER BY m)"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `jetbridge serve` with the temporary directory `folder/tmp`; kill it at the end."""
    (folder / "jetbridge.toml").write_text(CONFIG)
    (folder / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-c", SERVE, "serve", "--config", str(folder / "jetbridge.toml")]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), (folder / "log").read_text()
        yield process, line.split()[-1]
    finally:
        process.kill()
        process.communicate()


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_a_killed_server_leaves_is_removed_by_the_next_one(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    with serving(tmp_path) as (process, location), Wire(location) as wire:
        assert run_sql(wire, "CREATE SCHEMA s", "mem").status == "OK"
        spilling = threading.Thread(target=run_sql, args=(wire, SPILLING, "mem"))
        spilling.start()
        wait_until(lambda: sum(map(_size, files_in(temporary))) > 10_000_000)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        spilling.join(10)
    left = {path.name for path in temporary.iterdir()}
    assert left, "the server has left nothing, so this test shows nothing"
    with serving(tmp_path) as (_, location):
        wait_until(lambda: not left & {path.name for path in temporary.iterdir()})
        with connect(location, "mem") as client:
            client.create_schema("s")
            columns = pa.schema([("n", pa.int64())])
            client.create_table("s", "t", columns)
            client.insert("s", "t", pa.table({"n": [1, 2]}, columns))
            assert client.scan("s", "t").read_all().column("n").to_pylist() == [1, 2]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
