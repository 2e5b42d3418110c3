"""`jetbridge sql` as a process: formats, exit codes, and what goes where."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import jetbridge
from jetbridge.config import CatalogConfig, Config
from jetbridge.errors import NotFound
from tests.helpers.waiting import wait_until_computing

COMMAND = [sys.executable, "-m", "jetbridge", "sql"]

# A shell that runs the tests in the background has Ctrl-C ignored, and so has all that they start.
# Not by preexec_fn: what gRPC does in a forked child may kill it before it is a program of its own.
HEEDING_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("jetbridge", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a configuration without a lake, so without Spark."""
    file = tmp_path_factory.mktemp("sql") / "jetbridge.toml"
    file.write_text('[catalogs.memory]\ntype = "memory"\n')
    return file


@pytest.fixture
def run(config: Path):
    def call(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "--config", str(config), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    return call


def test_a_table_for_people(run):
    done = run("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 20, NULL ORDER BY a")
    assert done.returncode == 0
    assert done.stdout == "a   b\n--  ----\n 1  x\n20  NULL\n"
    assert done.stderr == "(2 rows)\n"


SUMS = (
    "SELECT sum(i) AS s, [sum(i)] AS l, 5::UHUGEINT AS u, 7::BIGNUM AS b FROM range(10) t(i) "
    "UNION ALL SELECT 170141183460469231731687303715884105727, NULL, 10, 10 ORDER BY s"
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("csv", "s,l,u,b\n45,[45],5,7\n170141183460469231731687303715884105727,,10,10\n"),
        (
            "json",
            '{"s":45,"l":[45],"u":5,"b":7}\n'
            '{"s":170141183460469231731687303715884105727,"l":null,"u":10,"b":10}\n',
        ),
        (
            "table",
            "s                                        l     u   b\n"
            f"{'-' * 39}  ----  --  --\n"
            f"{'45':>39}  [45]   5   7\n"
            "170141183460469231731687303715884105727  NULL  10  10\n",
        ),
    ],
)
def test_sums_are_printed_as_numbers_with_all_their_digits(run, style, expected):
    assert run("--format", style, SUMS).stdout == expected


def test_json_has_rows_as_they_are_and_reports_apart(run):
    text = "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS a, 1.50 AS b, 'é' AS c, NULL AS d"
    text += "; FROM s.t"
    done = run("--format", "json", text)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(line)) for line in lines] == ["report", "report", "a"]
    assert lines[1]["report"]["rows_written"] == 1
    assert lines[2] == {"a": 1, "b": 1.5, "c": "é", "d": None}


def test_csv_from_standard_input(run):
    done = run("--format", "csv", "-", stdin="SELECT 'a,b' AS x, NULL AS y, 3 AS z;")
    assert done.stdout == 'x,y,z\n"a,b",,3\n'


def test_reports_go_to_standard_error(run):
    done = run("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT i FROM range(5) r(i)")
    assert done.stdout == ""
    assert "CREATE TABLE AS: memory.s.t: 5 rows in" in done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["SELECT nothing"], 1, "nothing"),
        (["SELEC 1"], 1, "SELEC"),
        (["FROM memory.s.nope"], 1, "memory.s.nope"),
        ([""], 1, "there is no statement"),
        (["--set", "engine=fast", "SELECT 1"], 2, "'auto' or 'spark' or 'duckdb'"),
        (["--set", "engine", "SELECT 1"], 2, "NAME=VALUE"),
        (["--engine", "fast", "SELECT 1"], 2, "invalid choice"),
        (["--config", "none.toml", "SELECT 1"], 2, "none.toml"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(run, arguments, code, message):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if "usage" not in done.stderr:
        assert done.stderr.count("\n") == 1


def test_statements_before_an_error_stay_and_later_ones_do_not_run(run):
    done = run("--format", "json", "SELECT 1 AS a; SELECT error('no') AS b; SELECT 3 AS c")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"a": 1}]
    assert (done.returncode, "no" in done.stderr) == (1, True)


@pytest.mark.parametrize("options", [[], ["--echo"]])
def test_no_statement_runs_before_a_later_one_is_refused(run, options):
    done = run(*options, "SELECT 1 AS a; UPDATE t SET (a, b) = (1, 2)")
    assert (done.returncode, done.stdout) == (1, "")
    assert "write SET a = ..., b = ..." in done.stderr


def test_long_results_are_cut_for_people_only(run):
    done = run("FROM range(1500)")
    assert done.stdout.count("\n") == 1002
    assert "the first 1,000 are shown" in done.stderr
    assert run("--format", "csv", "FROM range(1500)").stdout.count("\n") == 1501


def test_help_teaches(run):
    done = run("--help")
    for word in ("CREATE TABLE AS", "--format", "--engine", "read_csv", "examples:", "Exit code"):
        assert word in done.stdout


def test_ctrl_c_stops_the_statement_and_says_so(config: Path):
    text = "SELECT 1 AS a; "
    text += "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE hash(a, b) = 1"
    child = subprocess.Popen(
        [sys.executable, "-c", HEEDING_CTRL_C, "sql", "--config", str(config)]
        + ["--format", "json", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        first = child.stdout.readline()
        wait_until_computing(psutil.Process(child.pid))
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (first, said.count("\n")) == ('{"a":1}\n', 1)
    assert (child.returncode, "interrupted" in said) == (130, True)
    assert "Traceback" not in said


def test_a_terminal_shows_progress(config: Path):
    """Show it on a terminal only: the other tests read from pipes."""
    main, terminal = pty.openpty()
    text = "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT i, hash(i) AS h FROM range(20000000) r(i)"
    child = subprocess.Popen(
        [*COMMAND, "--config", str(config), text], stderr=terminal, stdout=subprocess.DEVNULL
    )
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(main, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert child.wait() == 0
    os.close(main)
    assert b"writing: " in shown
    assert b"rows, " in shown
    assert b"20,000,000 rows in" in shown


def test_the_python_twin():
    config = Config(catalogs={"memory": CatalogConfig("memory")})
    found = jetbridge.sql("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS a; FROM s.t", config)
    assert found.to_pylist() == [{"a": 1}]
    report = jetbridge.sql("CREATE SCHEMA s", config).to_pylist()[0]
    assert (report["statement"], report["target"]) == ("CREATE SCHEMA", "memory.s")
    with jetbridge.session(config, settings={"engine": "duckdb"}) as session:
        session.sql("CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS a")
        assert [outcome.table().num_rows for outcome in session.run("FROM s.t; SHOW TABLES")] == [
            1,
            0,
        ]
        with pytest.raises(NotFound):
            session.sql("FROM s.nope")
