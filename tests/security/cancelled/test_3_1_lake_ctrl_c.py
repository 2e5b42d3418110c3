"""Ctrl-C in `jetbridge sql` ends a statement at once, and the command reports what was kept."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.helpers.waiting import wait_until_computing
from tests.integration.command.test_sql_command import HEEDING_CTRL_C

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group(__name__)]

SLOW = "SELECT count(*) AS n FROM range(100000000) a, range(100000000) b WHERE hash(a, b) = 1"
READY = "CREATE SCHEMA lake.s; CREATE TABLE lake.s.t AS SELECT 1 AS n; "
STATEMENTS = {
    # Spark takes seconds to start, and the first statement that needs it waits for that.
    "while Spark starts": (
        "SELECT 1 AS ready; ",
        "CREATE SCHEMA lake.s; CREATE TABLE lake.s.t (n INT)",
    ),
    "insert": (READY + "SELECT 1 AS ready; ", f"INSERT INTO lake.s.t {SLOW}"),
    "replace": (READY + "SELECT 1 AS ready; ", f"CREATE OR REPLACE TABLE lake.s.t AS {SLOW}"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_ends_at_once_and_nothing_of_it_is_kept(tmp_path: Path, name: str) -> None:
    before, statement = STATEMENTS[name]
    command = [sys.executable, "-c", HEEDING_CTRL_C, "sql", "--format", "json"]
    child = subprocess.Popen(
        [*command, before + statement],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        while '"ready"' not in child.stdout.readline():
            pass
        if name == "while Spark starts":
            time.sleep(0.7)  # nothing shows from outside that a statement waits
        else:
            wait_until_computing(psutil.Process(child.pid))
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=120)
    finally:
        child.kill()
    assert told == ("jetbridge: interrupted: the statement was stopped and changed nothing\n")
    assert child.returncode == 130
    assert time.monotonic() - began < 60  # Spark ends in that time, too, while a JVM may start
    staging = tmp_path / "jetbridge-data" / ".jetbridge" / "staging"
    assert not staging.is_dir() or list(staging.rglob("*")) == []
    versions = list((tmp_path / "jetbridge-data").rglob("*.metadata.json"))
    assert len(versions) == (0 if name == "while Spark starts" else 1)
