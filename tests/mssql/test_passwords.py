"""What is said and kept of a load: its sizes and seconds where asked for, and never the password.

Spark's configuration, its event log and its log, our log, and the files of a spool are searched.
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog, SpoolOptions
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import SETTINGS
from jetbridge.backends.mssql.write import staged_load
from jetbridge.errors import LimitExceeded
from jetbridge.pipeline.session import Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from standins.tds import process
from standins.tds.engine import DuckEngine
from tests.faults.mssql.driver import driver
from tests.faults.mssql.scene import DATABASE
from tests.helpers import lakes, mssql_server
from tests.helpers.mssql_server import StandIn
from tests.pipeline.targets import Bench, spark

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.lake,
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in takes a new password"),
]
PASSWORD = "correctHorse7batteryStaple"
FIVE = "SELECT i AS id, 'row ' || i AS name FROM range(5) r(i)"
MANY = "SELECT i AS id, 'row ' || i AS name FROM range(400) r(i)"
ROWS = [(i, f"row {i}") for i in range(400)]
PLAIN = {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}


def guarded(databases: tuple[str, ...] = ()) -> DuckEngine:
    """Use another password: `secret`, that of other tests, is a word of Spark's settings."""
    return DuckEngine(PASSWORD, databases)


class Guarded(StandIn):
    def master(self) -> Address:
        return replace(super().master(), password=PASSWORD)


@pytest.fixture(scope="module")
def server() -> Iterator[Guarded]:
    options = ("--engine", "tests.mssql.test_passwords:guarded", "--database", DATABASE)
    started = Guarded(*process.start(*options))
    yield started
    started.stop()


@pytest.fixture
def bench(server: Guarded, tmp_path: Path) -> Iterator[Bench]:
    address = replace(server.master(), database=DATABASE)
    spool = tmp_path / "spool"
    spool.mkdir()
    options = SpoolOptions(spool=str(spool))
    catalog = MssqlCatalog("t", address, engine=lakes.engine(), options=options)
    session = Session(
        {"t": catalog}, SessionResources(spark=spark(), settings=SettingValues(SETTINGS))
    )
    yield Bench("mssql", session, catalog)
    session.close()
    catalog.close()


def files_with(text: str, *folders: Path, since: float = 0.0) -> list[str]:
    """Return those that hold the text, in the bytes of a file or of Java and Windows."""
    wanted = [text.encode(each) for each in ("utf-8", "utf-16-le", "utf-16-be")]
    found = []
    for file in (each for folder in folders for each in folder.rglob("*")):
        try:
            if file.is_file() and file.stat().st_mtime >= since:
                data = file.read_bytes()
                found += [str(file)] * any(each in data for each in wanted)
        except FileNotFoundError:  # Spark removes some of its own meanwhile
            continue
    return found


@contextmanager
def event_log(folder: Path) -> Iterator[None]:
    """Provide what Spark writes for `spark.eventLog.enabled`, but for its configuration."""
    with lakes.engine().session() as session:
        core = session.spark.sparkContext._jsc.sc()
        conf = core.getConf()
        for name, value in PLAIN.items():
            conf.set(name, value)
        place = session.jvm.java.net.URI(folder.as_uri())
        listener = session.jvm.org.apache.spark.scheduler.EventLoggingListener(
            core.applicationId(),
            core.applicationAttemptId(),
            place,
            conf,
            core.hadoopConfiguration(),
        )
        listener.start()
        core.addSparkListener(listener)
        try:
            yield
        finally:
            core.listenerBus().waitUntilEmpty(10_000)
            core.removeSparkListener(listener)
            listener.stop()


def spark_settings() -> str:
    with lakes.engine().session() as session:
        conf = session.spark.sparkContext.getConf().getAll()
        rows = [tuple(row) for row in session.sql("SET").collect()]
        return f"{conf} {rows} {session.jvm.java.lang.System.getProperties().toString()}"


def test_no_load_by_spark_leaves_a_password(server, bench, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "jetbridge")
    began = time.time()
    stage, seen = staged_load.load_with_spark, []

    def watched(*given):
        stage(*given)
        folders = (tmp_path, lakes.folder())
        seen.append(bool(files_with("row 17", tmp_path / "spool")))
        seen.append(not files_with(PASSWORD, *folders, since=began))

    monkeypatch.setattr(staged_load, "load_with_spark", watched)
    events = tmp_path / "events"
    events.mkdir()
    bench.sql("SET mssql_direct_load_rows = 100")
    with event_log(events):
        bench.sql(f"CREATE TABLE t.dbo.loaded AS {MANY}; INSERT INTO t.dbo.loaded {MANY}")
        bench.sql("SET engine = 'spark'")
        found = bench.rows("SELECT id, name FROM t.dbo.loaded ORDER BY id")
        bench.sql("RESET engine")
        server.order(fault={"when": "bulk row", "at": 300, "number": 9002, "times": None})
        with pytest.raises(LimitExceeded):
            bench.sql(f"INSERT INTO t.dbo.loaded {MANY}")
        server.order(clear=True)
    assert sorted(ROWS * 2) == found
    assert seen == [True] * 4
    (file,) = events.iterdir()
    told = [json.loads(line)["Event"] for line in file.read_text().splitlines()]
    assert told.count("SparkListenerJobStart") >= 4
    assert "9002" in file.read_text()
    assert files_with(PASSWORD, tmp_path, lakes.folder(), since=began) == []
    assert PASSWORD not in spark_settings()
    assert PASSWORD not in caplog.text


@pytest.mark.soak
def test_no_process_with_an_event_log_leaves_a_password(server, tmp_path):
    """Search the event log, which has the configuration in it."""
    events, spool = tmp_path / "events", tmp_path / "spool"
    events.mkdir()
    spool.mkdir()
    told = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), **PLAIN}
    with driver(server, spool, {"mssql_direct_load_rows": "100"}, told) as running:
        assert "error" not in running.sql(f"CREATE TABLE t.dbo.told AS {MANY}")
        answer = running.sql("SELECT count(*) AS n, sum(id)::BIGINT AS s FROM t.dbo.told")
        assert answer == {"rows": [{"n": 400, "s": sum(range(400))}]}
    (file,) = events.iterdir()
    found = [json.loads(line)["Event"] for line in file.read_text().splitlines()]
    assert {"SparkListenerEnvironmentUpdate", "SparkListenerTaskEnd"} <= set(found)
    assert files_with(PASSWORD, tmp_path) == []


def test_fr_021_sc_013_the_command_tells_sizes_and_phases_on_standard_error(server, tmp_path):
    """Set MSSQL_DEBUG alone."""
    file = tmp_path / "jetbridge.toml"
    address = server.master()
    file.write_text(
        f"[catalogs.t]\ntype = 'mssql'\nserver = '{address.server}'\ndatabase = '{DATABASE}'\n"
        "user = 'sa'\npassword_env = 'THE_PASSWORD'\nencrypt = 'no'\n"
    )
    server.order(fault={"when": "statement", "pattern": r"TABLE \[dbo\]\.\[bad\]", "number": 262})
    statements = f"CREATE TABLE t.dbo.good AS {FIVE}; CREATE TABLE t.dbo.bad AS {FIVE}"
    quiet = {k: v for k, v in os.environ.items() if k != "MSSQL_DML_DEBUG"}
    done = subprocess.run(
        [sys.executable, "-m", "jetbridge", "sql", "--config", str(file), statements],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**quiet, "MSSQL_DEBUG": "1", "THE_PASSWORD": PASSWORD},
    )
    server.order(clear=True)
    said = [line.partition("CTAS dbo.")[2] for line in done.stderr.splitlines()]
    ddl = "CREATE TABLE [dbo].[{}] ([id] bigint NULL, [name] nvarchar(max) NULL)"
    good, bad = (
        [line.partition(": ")[2] for line in said if line.startswith(f"{name}: ")]
        for name in ("good", "bad")
    )
    size = "DDL statement of {} bytes"
    assert good[:2] == ["5 rows produced by the query", size.format(len(ddl.format("good")))]
    assert [line[:14] for line in good[2:4]] == ["DDL phase took", "DML phase took"]
    assert good[4:] == ["5 rows inserted"]
    assert bad[:2] == ["5 rows produced by the query", size.format(len(ddl.format("bad")))]
    assert bad[-1].startswith("failed in the DDL phase: ")
    assert "262" in bad[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert PASSWORD not in done.stderr
