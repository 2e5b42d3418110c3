"""What is put together from a configuration, and what is loaded for it."""

import subprocess
import sys
from pathlib import Path

import pytest

from jetbridge.app.compose import build_application
from jetbridge.app.configuration import load_config
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.cli import serve
from jetbridge.config import Config
from jetbridge.errors import BadRequest, Unavailable
from jetbridge.spark import SparkEngine, engine

BUILD = """
import sys
from jetbridge.app.compose import build_application
from jetbridge.app.configuration import load_config
from pathlib import Path
file, *loaded = sys.argv[1:]
build_application(load_config(Path(file)))
print(*[name for name in loaded if name in sys.modules])
"""
WITHOUT_EXTRA = """
import sys
sys.modules["pyiceberg"] = None
from jetbridge.cli import main
sys.exit(main(["serve", "--port", "0", "--warehouse", sys.argv[1]]))
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def with_lake(**keys) -> Config:
    return Config(catalogs={"lake": LakeConfig(**keys)})


@pytest.mark.parametrize(
    ("kind", "never"),
    [
        ("memory", ("pyiceberg", "sqlalchemy", "pyspark", "py4j")),
        ("lake", ("pyspark", "pandas", "requests")),
    ],
)
def test_what_a_server_does_not_need_is_not_loaded(tmp_path, kind, never):
    file = tmp_path / "jetbridge.toml"
    file.write_text(f"[catalogs.c]\ntype = '{kind}'")
    done = run(BUILD, str(file), *never)
    assert (done.stdout, done.stderr) == ("\n", "")


SQL = """
import sys
from jetbridge.cli import main
file, *never = sys.argv[1:]
assert main(["sql", "--config", file, "--format", "csv", "SELECT 1 AS one"]) == 0
print(*[name for name in never if name in sys.modules])
"""


def test_sql_loads_only_the_backends_that_are_configured(tmp_path):
    file = tmp_path / "jetbridge.toml"
    file.write_text("[catalogs.c]\ntype = 'memory'")
    never = ["pyiceberg", "pyspark", "py4j", "mssql_python", "mssql_py_core"]
    never += ["jetbridge.backends.lake", "jetbridge.backends.mssql", "grpc"]
    done = run(SQL, str(file), *never)
    assert done.stdout == "one\n1\n\n", done.stderr


def test_missing_extra_is_one_line_with_the_remedy(tmp_path):
    done = run(WITHOUT_EXTRA, str(tmp_path / "lake"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "jetbridge: catalog 'lake' needs pyiceberg, which is not installed: run "
        "pip install 'jetbridge[lake]', or configure other catalogs "
        "and pass the file with --config\n"
    )


def test_lakes_of_a_server_share_one_spark_which_waits_for_its_start(tmp_path):
    catalogs = {name: LakeConfig(warehouse=str(tmp_path / name)) for name in ("a", "b")}
    app = build_application(Config(catalogs=catalogs, spark={"spark.driver.memory": "1g"}))
    assert app.engine is not None
    assert app.engine.status() == "not started"
    assert sorted(app.engine._catalogs) == ["a", "b"]
    assert app.engine._settings == {"spark.driver.memory": "1g"}
    app.close(0)
    assert app.engine.status() == "stopped"


def test_server_without_a_lake_has_no_spark():
    path = Path(__file__).parent / "memory.toml"
    app = build_application(load_config(path))
    assert app.engine is None
    app.start_background()
    app.close(0)


@pytest.mark.parametrize(
    ("warehouse", "log"),
    [
        ("{tmp}/lake", "{tmp}/lake/.jetbridge/logs/spark.log"),
        ("file://{tmp}/lake", "{tmp}/lake/.jetbridge/logs/spark.log"),
        ("s3://bucket/lake", "{tmp}/cache/jetbridge/logs/spark.log"),
    ],
)
def test_log_of_spark_is_beside_the_tables_or_in_the_cache(tmp_path, monkeypatch, warehouse, log):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    properties = {"uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    app = build_application(
        with_lake(warehouse=warehouse.format(tmp=tmp_path), properties=properties)
    )
    assert app.engine is not None
    assert str(app.engine._log_file) == log.format(tmp=tmp_path)


@pytest.mark.parametrize(
    ("keys", "error", "problem"),
    [
        ({"warehouse": "{tmp}/file/lake"}, Unavailable, "the warehouse .* cannot be used: Not a d"),
        ({"warehouse": "s3://bucket/lake"}, BadRequest, "needs a uri for its catalog"),
        ({"properties": {"uri": "ftp://x"}}, BadRequest, "is not a catalog: it must begin with"),
        (
            {"properties": {"uri": "jdbc:postgresql://127.0.0.1:1/lake"}},
            Unavailable,
            "does not answer",
        ),
    ],
)
def test_lake_that_cannot_be_opened_is_named(tmp_path, monkeypatch, capsys, keys, error, problem):
    monkeypatch.setattr(serve, "_stop_on_signals", lambda: None)
    (tmp_path / "file").write_text("")
    keys = {"warehouse": "{tmp}/lake", **keys}
    config = with_lake(**{**keys, "warehouse": keys["warehouse"].format(tmp=tmp_path)})
    with pytest.raises(error, match=f"^catalog 'lake': .*{problem}"):
        build_application(config)
    assert serve.serve_until_signal(config) == (2 if error is BadRequest else 1)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_limits_and_keys_reach_the_lake(tmp_path, monkeypatch):
    made = []
    original = LakeCatalog.__init__

    def seen(self, *arguments, options, **rest):
        made.append(options)
        original(self, *arguments, options=options, **rest)

    monkeypatch.setattr(LakeCatalog, "__init__", seen)
    build_application(with_lake(warehouse=str(tmp_path), enforce_keys_rows=5))
    (options,) = made
    assert (options.warehouse, options.enforce_keys_rows) == (str(tmp_path), 5)
    assert options.spill_bytes == Config().limits.spill_bytes


def test_spark_is_not_waited_for_at_the_end(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(SparkEngine, "stop", lambda _, seconds: given.append(seconds))
    build_application(with_lake(warehouse=str(tmp_path))).close()
    assert given[0] < engine.STOP_SECONDS


def test_background_work_begins_when_told_and_ends_with_the_server(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(SparkEngine, "start", lambda _: done.append("Spark"))
    monkeypatch.setattr(LakeCatalog, "start_sweeper", lambda _: done.append("sweeper"))
    monkeypatch.setattr(LakeCatalog, "close", lambda _: done.append("closed"))
    app = build_application(with_lake(warehouse=str(tmp_path)))
    assert done == []
    app.start_background()
    app.close(0)
    assert done == ["Spark", "sweeper", "closed"]
