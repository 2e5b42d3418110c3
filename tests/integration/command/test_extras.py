"""Commands where extras are not installed, `lake` above all: the defaults name no such catalog.

The quick tests hide the packages from a process. Those marked `installs` build the wheel and
install it into new environments, from uv's cache where that holds what they need.
"""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jetbridge.app.configuration import (
    BACKENDS,
    load_config,
    missing_packages,
    with_default_catalogs,
)
from jetbridge.cli import doctor, main
from jetbridge.config import Config
from tests.helpers import mssql_server

ROOT = Path(__file__).parents[3]
LAKE = (
    "duckdb_extension_avro",
    "duckdb_extension_httpfs",
    "duckdb_extension_iceberg",
    "py4j",
    "pyiceberg",
    "pyroaring",
    "pyspark",
    "sqlalchemy",
)
NOTICE = (
    "the default catalog is 'memory', whose tables are lost when this process ends, because "
    "{} not installed; for durable tables run pip install 'jetbridge[lake]'"
)
ALL_MISSING = NOTICE.format(", ".join(name.replace("_", "-") for name in LAKE) + " are")
STORY = "CREATE SCHEMA memory.s; CREATE TABLE memory.s.t AS SELECT 42 AS x; FROM memory.s.t"
HIDING = """
import sys
hidden, *arguments = sys.argv[1:]
sys.modules.update(dict.fromkeys(hidden.split(",")))
from jetbridge.cli import main
sys.exit(main(arguments))
"""
# Tests that share an environment share a process.
INSTALLS = pytest.mark.xdist_group(f"{__name__} installs")
# Spark starts, and may fetch its jars first.
SECONDS = 180


@pytest.fixture
def missing(monkeypatch):
    """Hide packages from this process."""

    def hide(*packages: str) -> None:
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_one_missing_package_of_the_extra_is_named(missing):
    missing("pyspark")
    notices: list[str] = []
    config = load_config(notify=notices.append)
    assert list(config.catalogs) == list(with_default_catalogs(Config())) == ["memory"]
    assert notices == [NOTICE.format("pyspark is")]


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        ("[catalogs.memory]\ntype = 'memory'", []),
        ("[catalogs.l]\ntype = 'lake'", []),
        ("[sql]\nmemory_limit = '1GB'", [ALL_MISSING]),
    ],
)
def test_file_that_names_catalogs_needs_no_notice(missing, tmp_path, text, notices):
    missing(*LAKE)
    file = tmp_path / "jetbridge.toml"
    file.write_text(text)
    messages: list[str] = []
    load_config(file, notify=messages.append)
    assert messages == notices


def test_nothing_is_said_where_the_extra_is_installed():
    notices: list[str] = []
    assert list(load_config(notify=notices.append).catalogs) == ["lake", "memory"]
    assert notices == []


@pytest.mark.usefixtures("log_as_it_was")
def test_optimize_without_the_extra_says_why_there_is_no_lake(missing, capsys):
    missing(*LAKE)
    assert main(["optimize", "lake.s.t"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        ALL_MISSING,
        "jetbridge: there is no catalog 'lake'; known: memory",
    ]


def test_doctor_says_what_the_default_is(missing):
    missing(*LAKE)
    findings = {each.name: each for each in doctor.examine(None)}
    configuration = findings["configuration"]
    assert (configuration.state, configuration.found) == ("ok", "the default one")
    assert configuration.remedy == ALL_MISSING


@pytest.mark.parametrize("backend", [BACKENDS["lake"], BACKENDS["mssql"]], ids=["lake", "mssql"])
def test_packages_of_a_backend_are_those_of_its_extra(backend):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = project["optional-dependencies"][backend.extra]
    names = [re.split(r"[\[=<>]", each)[0] for each in requirements]
    assert names == list(backend.packages.values())
    assert missing_packages(backend) == []


class Command:
    """Run `jetbridge` as a process in an empty folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.words = folder, words
        # An environment of its own sees nothing of that of the tests.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, *arguments],
            cwd=self.folder,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def serve(self) -> tuple[str, str, int]:
        """Return the first line, the log up to SIGTERM, and the exit code."""
        with subprocess.Popen(
            [*self.words, "serve", "--port", "0"],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                _, log = process.communicate(timeout=SECONDS)
                return line, log, process.returncode
            finally:
                process.kill()


def hiding(folder: Path, *packages: str) -> Command:
    return Command(folder, sys.executable, "-c", HIDING, ",".join(packages))


def check_memory_story(command: Command) -> None:
    done = command.run("sql", "--format", "csv", STORY)
    assert (done.returncode, done.stdout) == (0, "x\n42\n"), done.stderr
    assert done.stderr.splitlines()[0] == ALL_MISSING
    assert done.stderr.count(ALL_MISSING) == 1
    assert list(command.folder.iterdir()) == []


def check_server(command: Command) -> None:
    line, log, code = command.serve()
    assert line.startswith("listening on grpc://127.0.0.1:"), log
    assert code == 0
    (notice,) = [each for each in log.splitlines() if "pip install" in each]
    assert notice.endswith(f"WARNING jetbridge.app.configuration: {ALL_MISSING}")


def test_without_the_extra_the_default_catalog_is_memory_and_one_line_says_so(tmp_path):
    check_memory_story(hiding(tmp_path, *LAKE))


def test_server_without_the_extra_serves_memory_and_logs_one_line(tmp_path):
    check_server(hiding(tmp_path, *LAKE))


def test_warehouse_asks_for_a_lake_so_its_packages_are_needed(tmp_path):
    done = hiding(tmp_path, *LAKE).run("sql", "SELECT 1", "--warehouse", str(tmp_path / "lake"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "jetbridge: catalog 'lake' needs pyiceberg, which is not installed: run "
        "pip install 'jetbridge[lake]', or configure other catalogs "
        "and pass the file with --config\n"
    )


def test_attaching_a_lake_without_its_packages_is_one_line(tmp_path):
    """End in order: the process was aborted while a thread still opened DuckDB."""
    done = hiding(tmp_path, *LAKE).run("sql", "ATTACH './other' AS o (TYPE lake)")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        ALL_MISSING,
        "jetbridge: catalog 'o' needs pyiceberg, which is not installed: run "
        "pip install 'jetbridge[lake]', or configure other catalogs "
        "and pass the file with --config",
    ]


def test_programs_are_told_by_the_log(tmp_path):
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({LAKE!r}));"
        "import jetbridge; print(jetbridge.sql('SELECT 42 AS x').to_pylist())"
    )
    done = Command(tmp_path, sys.executable, "-c", code).run()
    assert (done.returncode, done.stdout) == (0, "[{'x': 42}]\n"), done.stderr
    assert done.stderr.splitlines() == [ALL_MISSING]


def uv(*arguments: str, offline: bool = True) -> None:
    """Install from the cache if it holds all that is needed, else from the index."""
    command = [str(Path(sys.executable).with_name("uv")), *arguments]
    done = subprocess.run(
        [*command, *(["--offline"] if offline else [])],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and offline:
        uv(*arguments, offline=False)
    elif done.returncode:
        pytest.fail(f"{' '.join(arguments[:2])}: {done.stderr}")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture
def installed(tmp_path, wheel, request) -> Command:
    """Return the command of a new environment; the parameter is the list of extras."""
    place = tmp_path / "environment"
    python = str(place / "bin" / "python")
    uv("venv", "-q", "--python", sys.executable, str(place))
    lock = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line.rstrip(" \\") for line in lock if line[:1].isalnum()]
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    constraints = ("--constraint", str(tmp_path / "pins.txt"))
    uv("pip", "install", "-q", "--python", python, *constraints, f"{wheel}{request.param}")
    folder = tmp_path / "folder"
    folder.mkdir()
    return Command(folder, str(place / "bin" / "jetbridge"))


@INSTALLS
@pytest.mark.installs
@pytest.mark.parametrize("installed", [""], indirect=True)
def test_wheel_without_extras_runs_every_command_on_memory(installed):
    check_memory_story(installed)
    check_server(installed)
    done = installed.run("doctor", "--format", "json")
    assert '"name": "pyiceberg", "state": "optional"' in done.stdout


LAKE_STORY = "CREATE SCHEMA lake.s; CREATE TABLE lake.s.t AS SELECT 42 AS x; FROM lake.s.t"


@INSTALLS
@pytest.mark.installs
@pytest.mark.lake
@pytest.mark.parametrize("installed", ["[lake]", "[lake,mssql]"], indirect=True)
def test_wheel_with_the_extra_lake_runs_sql_and_serve_on_durable_tables(installed):
    done = installed.run("sql", "--format", "csv", LAKE_STORY)
    assert (done.returncode, done.stdout) == (0, "x\n42\n"), done.stderr
    again = installed.run("sql", "--format", "csv", "FROM lake.s.t")
    assert (again.returncode, again.stdout, again.stderr) == (0, "x\n42\n", "")
    line, log, code = installed.serve()
    assert line.startswith("listening on grpc://127.0.0.1:"), log
    assert (code, [each for each in log.splitlines() if "pip install" in each]) == (0, [])


@INSTALLS
@pytest.mark.installs
@pytest.mark.mssql
@pytest.mark.skipif(mssql_server.is_given(), reason="the password of a real server is not known")
@pytest.mark.parametrize("installed", ["[lake,mssql]"], indirect=True)
def test_wheel_with_both_extras_copies_from_the_lake_into_sql_server(installed, database):
    statements = f"{LAKE_STORY}; ATTACH '{database}' AS sales; "
    statements += "CREATE TABLE sales.dbo.t AS FROM lake.s.t; FROM sales.dbo.t"
    done = installed.run("sql", "--format", "csv", statements, MSSQL_PASSWORD="secret")
    assert (done.returncode, done.stdout) == (0, "x\n42\nx\n42\n"), done.stderr


@pytest.fixture
def database() -> str:
    """Return the address of a new database for ATTACH, without the password, which is `secret`."""
    address = mssql_server.address()
    host, port = address.server.split(",")
    return f"mssql://{address.user}@{host}:{port}/{address.database}?encrypt=no"


@INSTALLS
@pytest.mark.installs
@pytest.mark.mssql
@pytest.mark.skipif(mssql_server.is_given(), reason="the password of a real server is not known")
@pytest.mark.parametrize("installed", ["[mssql]"], indirect=True)
def test_quickstart_of_sql_server_runs_with_the_extra_mssql_alone(installed, database):
    (installed.folder / "orders.csv").write_text("id,item\n1,lamp\n2,desk\n")
    statements = (
        f"ATTACH '{database}' AS sales;"
        "CREATE OR REPLACE TABLE sales.dbo.orders AS FROM read_csv('orders.csv');"
        "FROM sales.dbo.orders ORDER BY id"
    )
    done = installed.run("sql", "--format", "csv", statements, MSSQL_PASSWORD="secret")
    assert (done.returncode, done.stdout) == (0, "id,item\n1,lamp\n2,desk\n"), done.stderr
    assert done.stderr.splitlines()[0] == ALL_MISSING
    check_server(installed)
