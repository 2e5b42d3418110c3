"""Errors for remote callers name no folder of the server; its log does."""

import logging
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from jetbridge.app.run_function import RunFunction
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import Scan
from jetbridge.client import connect
from jetbridge.errors import LimitExceeded, ServerError, without_paths
from jetbridge.pipeline.report import Report
from jetbridge.service import Server
from jetbridge.spark import SparkEngine

NUMBERS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})

HIDDEN = {
    "see /var/log/jetbridge/spark.log": "see …/spark.log",
    "see /var/log/spark.log.": "see …/spark.log.",
    'Cannot open file "/srv/my lake/t/0 1.parquet": No such file': (
        'Cannot open file "…/0 1.parquet": No such file'
    ),
    "IO Error: '/home/ada/lake/catalog.db'": "IO Error: '…/catalog.db'",
    "PosixPath('/tmp/jetbridge-1/x')": "PosixPath('…/x')",
    "java.io.FileNotFoundException: file:/srv/lake/a.avro (gone)": (
        "java.io.FileNotFoundException: …/a.avro (gone)"
    ),
    "at file:///srv/lake/t/, then": "at …/t, then",
    "jdbc:sqlite:/srv/lake/catalog.db is locked": "…/catalog.db is locked",
    "[/usr/lib/jvm/java-17,/opt/java]": "[…/java-17,…/java]",
    "staged in '/tmp': full": "staged in '…/tmp': full",
    "path=/etc/krb5.conf:3": "path=…/krb5.conf:3",
}
KEPT = [
    "1/2 is 0.5",
    "table 'a/b' does not exist",
    "column '/no-such-root/b' does not exist",
    "s3://bucket/tmp/t has no metadata",
    "s3://bucket/home",
    "https://example.org/usr/x",
    "hdfs://namenode:8020/user/tmp",
    "km/h, and/or, n/a, /, //, 'a / b'",
    "./tmp/x and ../etc/y",
    "value '/tmpfile' and /homework",
]


@pytest.mark.parametrize(("said", "told"), HIDDEN.items())
def test_only_the_last_name_of_a_path_is_shown(said: str, told: str) -> None:
    assert without_paths(said) == told


@pytest.mark.parametrize("said", KEPT)
def test_text_that_is_no_path_of_the_server_stays(said: str) -> None:
    assert without_paths(said) == said


def test_a_staging_folder_that_is_gone_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = MemoryCatalog(spill_bytes=0)
    with Server({"m": catalog}, port=0) as server:
        server.start()
        with connect(server.location, "m") as client:
            client.create_schema("s")
            client.create_table("s", "t", NUMBERS.schema)
            gone = tmp_path / "secret" / "gone"
            monkeypatch.setattr(tempfile, "tempdir", str(gone))
            with caplog.at_level(logging.INFO), pytest.raises(LimitExceeded) as refused:
                client.insert("s", "t", NUMBERS)
    said = str(refused.value)
    assert str(tmp_path) not in said
    assert "secret" not in said
    assert "rows cannot be staged" in said
    trace = said.rpartition("trace id ")[2].rstrip(")")
    [line] = [r.getMessage() for r in caplog.records if trace in r.getMessage()]
    assert str(gone) in line


def test_a_report_names_no_folder_either() -> None:
    """It quotes the error of an engine that could not run the query."""
    reason = "it failed on Spark: no space left in /var/spool/jetbridge-1"
    row = Report("SELECT", reason=reason, note="see /var/log/x").as_row()
    function = RunFunction("m", lambda *_: [row])
    [batch] = function.rows(pa.record_batch({"sql": ["SELECT 1"]}), Scan())
    [told] = batch.to_pylist()
    assert told["reason"] == "it failed on Spark: no space left in …/jetbridge-1"
    assert told["note"] == "see …/x"


@pytest.mark.lake
def test_files_of_a_lake_that_are_gone_are_not_named(tmp_path: Path) -> None:
    """Nor is their folder, by the reader in DuckDB and by PyIceberg."""
    folder = tmp_path / "secret"
    folder.mkdir()
    made = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    made.create_namespace("s")
    for name in ("data", "manifests", "metadata"):
        made.create_table(f"s.{name}", NUMBERS.schema).append(NUMBERS)
    made.close()
    for pattern in ("data/data/*.parquet", "manifests/metadata/*.avro", "metadata/metadata/*.json"):
        for each in (folder / "s").glob(pattern):
            each.unlink()
    engine = SparkEngine({}, log_file=tmp_path / "spark.log")
    lake = LakeCatalog("lake", folder, engine)
    with Server({"lake": lake}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as client:
            for name in ("data", "manifests", "metadata"):
                with pytest.raises(ServerError) as refused:
                    client.read("s", name)
                assert "secret" not in str(refused.value), name
                assert str(tmp_path.parent) not in str(refused.value), name
    lake.close()
