"""The engine with a real JVM. Starts are slow: all tests share one, and leave it usable."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from jetbridge.errors import Unavailable
from jetbridge.spark import SparkEngine, is_java, java_class, java_message
from tests.helpers import lakes
from tests.helpers.jvms import jvms
from tests.integration.spark.small_catalog import catalog_properties

pytestmark = pytest.mark.lake

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 60


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    """Return a Spark with a catalog `here`, which holds one table of two rows."""
    shared = lakes.engine()
    shared.add_catalog("here", catalog_properties(tmp_path_factory.mktemp("here")))
    with shared.session() as session:
        session.sql("CREATE NAMESPACE here.s")
        session.sql("CREATE TABLE here.s.t (i INT) TBLPROPERTIES ('format-version' = '3')")
        session.sql("INSERT INTO here.s.t VALUES (1), (2)")
    return shared


def total(engine: SparkEngine) -> int:
    with engine.session() as session:
        return int(session.sql("SELECT sum(i) FROM here.s.t").collect()[0][0])


def jvm_of(process: psutil.Process) -> psutil.Process:
    (found,) = jvms(process)
    return found


def test_sql_and_iceberg_share_a_catalog(engine):
    assert total(engine) == 3
    with engine.session() as session:
        identifier = session.jvm.org.apache.iceberg.catalog.TableIdentifier.parse("s.t")
        table = session.catalog("here").loadTable(identifier)
        assert table.currentSnapshot().summary()["added-records"] == "2"


def test_catalog_added_to_a_running_spark_is_there(engine, tmp_path):
    engine.add_catalog("late", catalog_properties(tmp_path))
    with engine.session() as session:
        session.sql("CREATE NAMESPACE late.s")
        assert session.sql("SHOW NAMESPACES IN late").collect()[0][0] == "s"


def test_threads_use_spark_at_once(engine):
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: total(engine), range(8))) == [3] * 8


def test_tasks_in_python_run_in_this_python(engine):
    def executable(_: int) -> str:
        return sys.executable

    with engine.session() as session:
        context = session.spark.sparkContext
        assert context.parallelize([1], 1).map(executable).collect() == [sys.executable]


def test_tasks_in_python_read_no_archives_and_share_what_is_imported(engine):
    def worker_state(_: int) -> tuple[list[str], bool]:
        archives = [entry for entry in sys.path if Path(entry).is_file()]
        return archives, "duckdb" in sys.modules

    with engine.session() as session:
        tasks = session.spark.sparkContext.parallelize(range(2), 2)
        assert tasks.map(worker_state).collect() == [([], True)] * 2


def test_errors_of_java_pass_and_tell_their_class(engine):
    with pytest.raises(Exception, match="boom") as caught, engine.session() as session:
        raised = session.jvm.java.lang.IllegalStateException("boom\nand more")
        failed = session.jvm.java.util.concurrent.CompletableFuture.failedFuture(raised)
        failed.get()
    assert java_class(caught.value) == "java.util.concurrent.ExecutionException"
    assert is_java(caught.value, "java.lang.IllegalStateException")
    assert java_message(caught.value) == "java.lang.IllegalStateException: boom"


def test_captured_errors_tell_their_class(engine):
    with pytest.raises(Exception, match="nowhere") as caught, engine.session() as session:
        session.sql("SELECT * FROM here.s.nowhere")
    assert java_class(caught.value).endswith("AnalysisException")
    assert java_message(caught.value).startswith("[TABLE_OR_VIEW_NOT_FOUND]")


@pytest.mark.soak  # command/test_serve_lake.py does the same through a server
def test_killed_jvm_is_unavailable_once_and_comes_back(engine, capfd):
    with (
        pytest.raises(
            Unavailable, match=r"Spark stopped unexpectedly \(killed by signal 9\).* run the st"
        ),
        engine.session() as session,
    ):
        jvm_of(psutil.Process()).kill()
        session.sql("SELECT 1").collect()
    assert total(engine) == 3
    assert engine.alive()
    assert capfd.readouterr() == ("", "")


@contextmanager
def child(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run it in an empty working directory, and in a process group of its own."""
    for name in ("cwd", "scratch"):
        (folder / name).mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.spark.child", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder / "cwd",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_spark_is_silent_survives_ctrl_c_and_ends_with_its_owner(tmp_path):
    with child(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        process.stdin.write("again\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1\n"
        jvm = jvm_of(psutil.Process(process.pid))
        process.kill()
        assert process.communicate(timeout=SECONDS) == ("", "")
        assert jvm.wait(SECONDS) is None
    assert list((tmp_path / "cwd").iterdir()) == []
    assert (tmp_path / "spark.log").exists()
