"""An archive of the classes that Spark loads: JVMs that have it start in half the time.

A whole run starts some forty JVMs. In the first run, the first process that needs Spark has the
archive made beside its tests. It stays in pytest's cache folder, for JVMs that start later and for
later runs, until Java or a jar of Spark changes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil

from jetbridge.spark import jvm
from jetbridge.spark.engine import SparkEngine
from tests.helpers.cluster import kill

OPTIONS = "JDK_JAVA_OPTIONS"
# To write some 200 MB of classes takes a while.
SECONDS = 300.0
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".pytest_cache" / "d" / "spark-classes"


@cache
def file() -> Path:
    """Return the path of the archive for this Java and these jars, which may not exist yet.

    A JVM compares what it runs with the archive, and takes none that does not fit, so nothing goes
    wrong where Spark finds another Java than this.
    """
    about = "".join(f"{path} {size} {time}\n" for path, size, time in _files())
    return FOLDER / f"{hashlib.sha256(about.encode()).hexdigest()[:16]}.jsa"


def _files() -> Iterator[tuple[Path, int, int]]:
    java = os.environ.get("JAVA_HOME") or shutil.which("java") or ""
    for path in (Path(java).resolve(), *sorted((jvm.spark_home() / "jars").iterdir())):
        status = path.stat()
        yield path, status.st_size, status.st_mtime_ns


def use() -> None:
    """Name the archive to the JVMs that start from now on, if it exists.

    A JVM that it does not fit would say so, where Spark reads answers.
    """
    if "SharedArchiveFile" not in os.environ[OPTIONS] and file().exists():
        os.environ[OPTIONS] += f" -XX:SharedArchiveFile={file()} -Xlog:disable"


@cache
def begin() -> psutil.Popen | None:
    """Make the archive, in a run of several processes, one of which does it."""
    if not RUN or file().exists():
        return None
    try:
        _unfinished().mkdir(parents=True)
    except FileExistsError:
        return None
    command = [
        "nice",
        sys.executable,
        "-m",
        "tests.plugins.class_archive",
        str(_unfinished() / "new.jsa"),
    ]
    return psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def _unfinished() -> Path:
    return FOLDER / f"run-{RUN}"


def end() -> None:
    """Stop making the archive, if this process has begun that."""
    if begin.cache_info().currsize:
        making = begin()
        if making is not None:
            kill(making)
            shutil.rmtree(_unfinished(), ignore_errors=True)


def make(unfinished: Path) -> None:
    """Make the archive of a Spark that has written to a table of Iceberg and read it."""
    jvm.END_SECONDS = SECONDS
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
    for older in FOLDER.glob("*.jsa"):
        older.unlink()
    unfinished.rename(file())


if __name__ == "__main__":
    make(Path(sys.argv[1]))
