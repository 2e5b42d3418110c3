"""An archive of the classes that Spark loads: JVMs that have it start in half the time.

A whole run starts some forty of them. The first process that needs Spark has the archive made
beside its tests; JVMs that start later take it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import psutil

from jetbridge.spark import jvm
from jetbridge.spark.engine import SparkEngine
from tests.cluster import kill

OPTIONS = "JDK_JAVA_OPTIONS"
# To write some 200 MB of classes takes a while.
SECONDS = 300.0
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
FOLDER = Path(tempfile.gettempdir()) / f"jetbridge-classes-{RUN}"
FILE = FOLDER / "spark.jsa"
ROOT = Path(__file__).resolve().parents[1]


def use() -> None:
    """If it is there. A JVM that does not fit it would say so, where Spark reads answers."""
    if RUN and str(FILE) not in os.environ[OPTIONS] and FILE.exists():
        os.environ[OPTIONS] += f" -XX:SharedArchiveFile={FILE} -Xlog:disable"


@cache
def begin() -> psutil.Popen | None:
    """Makes it, in a run of several processes, one of which does it."""
    if not RUN:
        return None
    try:
        FOLDER.mkdir()
    except FileExistsError:
        return None
    command = ["nice", sys.executable, "-m", "tests.class_archive", str(FILE)]
    return psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def end() -> None:
    """Nobody needs it any more."""
    if begin.cache_info().currsize:
        making = begin()
        if making is not None:
            kill(making)
            shutil.rmtree(FOLDER, ignore_errors=True)


def make(file: Path) -> None:
    """Of a Spark that has written to a table of Iceberg and read it."""
    jvm.END_SECONDS = SECONDS
    unfinished = file.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(
            {"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={unfinished}"},
            log_file=Path(folder) / "spark.log",
            scratch=Path(folder),
        )
        engine.add_catalog("lake", {"type": "hadoop", "warehouse": f"{folder}/warehouse"})
        with engine.session() as session:
            rows = "SELECT id, CAST(id AS STRING) AS name FROM range(100)"
            properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
            session.sql("CREATE NAMESPACE lake.s")
            session.sql(
                f"CREATE TABLE lake.s.t USING iceberg TBLPROPERTIES ({properties}) AS {rows}"
            )
            session.sql(f"INSERT INTO lake.s.t {rows}")
            session.sql("DELETE FROM lake.s.t WHERE id = 7")
            session.sql("SELECT name, count(*) FROM lake.s.t GROUP BY name").collect()
        engine.stop(SECONDS)
    unfinished.rename(file)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
