"""Temporary files of a killed Spark are removed at its restart, or at the next start."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jetbridge.runtime.temporary_folders import sweep
from tests.helpers.jvms import jvms
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.lake, pytest.mark.full, pytest.mark.xdist_group(__name__)]

SECONDS = 120.0
# A Spark whose owner answers each line with a query of it.
OWNER = """
import sys
from pathlib import Path
from jetbridge.errors import Unavailable
from jetbridge.spark import SparkEngine
from jetbridge.runtime.temporary_folders import start_sweep

folder = Path(sys.argv[1])
engine = SparkEngine({"spark.driver.memory": "512m"}, log_file=folder / "spark.log")
start_sweep()
for line in sys.stdin:
    try:
        with engine.session() as session:
            print(session.sql("SELECT 1").collect()[0][0], flush=True)
    except Unavailable as error:
        print("lost", flush=True)
"""


class Owner:
    """Run a process that owns a Spark; `temporary` is its temporary directory."""

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.process = psutil.Popen(
            [sys.executable, "-c", OWNER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )

    def ask(self) -> str:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return str(self.process.stdout.readline().strip())

    def jvm(self) -> psutil.Process:
        (found,) = jvms(self.process)
        return found

    def close(self) -> None:
        children = [self.process, *jvms(self.process)] if self.process.is_running() else []
        for each in children:
            each.kill()
        psutil.wait_procs([self.process, *children], SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            pipe.close()


def spark_folders(temporary: Path) -> list[Path]:
    return list(temporary.glob("jetbridge-spark-*"))


def test_folders_of_killed_sparks_do_not_stay(tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    owner = Owner(tmp_path, temporary)
    try:
        assert owner.ask() == "1"
        (first,) = spark_folders(temporary)
        assert first.stat().st_mode & 0o777 == 0o700

        owner.jvm().kill()
        assert owner.ask() in ("lost", "1")
        assert owner.ask() == "1"
        (second,) = spark_folders(temporary)
        assert second != first

        killed = [owner.jvm(), owner.process]
        for each in killed:
            each.kill()
        psutil.wait_procs(killed, SECONDS)
        assert spark_folders(temporary) == [second]
    finally:
        owner.close()
    # What every start of ours does.
    wait_until(lambda: not sweep(temporary) and spark_folders(temporary) == [], SECONDS)
    assert [path.name for path in temporary.iterdir() if path.name.startswith("jetbridge")] == []
