"""The command as users run it: a process, its output, its signals and its end."""

import ctypes
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from jetbridge.client import Client, Exchange, connect
from jetbridge.errors import NotFound, ServerError, Unavailable
from tests.helpers.waiting import wait_until, wait_until_it_succeeds

COMMAND = str(Path(sys.executable).with_name("jetbridge"))
MEMORY = ("--config", str(Path(__file__).with_name("memory.toml")))
SECONDS = 30
NUMBER = pa.schema([("n", pa.int64())])
LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.+]+ [A-Z]+ jetbridge[\w.]*: .+")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Provide the process and its location; it is gone afterwards, whatever the test did to it."""
    command = [COMMAND, "serve", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert re.fullmatch(r"listening on grpc://127\.0\.0\.1:\d+\n", line), line
            yield process, line.split()[-1]
        finally:
            process.kill()


def rows(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def answered(statement: Exchange, *values: int) -> list[int]:
    answer = statement.write(rows(*values))
    assert answer is not None
    found: list[int] = answer.column("n").to_pylist()
    return found


def fill(client: Client) -> None:
    client.create_schema("s")
    client.create_table("s", "t", NUMBER)
    client.insert("s", "t", rows(1, 2))


def wait_until_refused(location: str) -> None:
    def refused() -> bool:
        with connect(location, "memory") as newcomer:
            try:
                newcomer.catalog_version()
            except Unavailable:
                return True
        return False

    wait_until(refused)


def test_location_is_the_only_line_on_standard_output_and_the_log_goes_to_standard_error():
    with serving(*MEMORY, "--port", "0", "-v") as (process, location):
        with connect(location, "memory") as client:
            fill(client)
            assert client.read("s", "t").to_pylist() == [{"n": 1}, {"n": 2}]
            with pytest.raises(NotFound):
                client.drop_table("s", "nope")
        process.terminate()
        out, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert out == ""
    lines = log.splitlines()
    assert [line for line in lines if not LOG_LINE.fullmatch(line)] == []
    assert any("nope" in line for line in lines)
    assert any("stopping" in line for line in lines)


def test_running_inserts_are_finished_and_acknowledged_while_new_calls_are_refused():
    with (
        serving(*MEMORY, "--port", "0") as (process, location),
        connect(location, "memory") as client,
    ):
        fill(client)
        running = [client.exchange("insert", "s", "t", NUMBER, returning=True) for _ in range(20)]
        for number, statement in enumerate(running):
            assert answered(statement, number) == [number]
        process.send_signal(signal.SIGTERM)
        wait_until_refused(location)
        assert process.poll() is None
        for number, statement in enumerate(running):
            assert answered(statement, number, -1) == [number, -1]
            assert statement.finish() == 3
        assert process.wait(SECONDS) == 0


def test_a_signal_that_another_thread_gets_stops_it_too():
    """Stop whichever thread gets the signal: Python's handlers run in the first one only."""
    with (
        serving(*MEMORY, "--port", "0") as (process, location),
        connect(location, "memory") as client,
    ):
        fill(client)
        threads = sorted(int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir())
        assert threads[0] == process.pid
        assert ctypes.CDLL(None).tgkill(process.pid, threads[-1], signal.SIGTERM) == 0
        assert process.wait(SECONDS) == 0


def test_what_runs_longer_than_the_drain_time_is_cut(tmp_path):
    config = tmp_path / "jetbridge.toml"
    text = "[server]\nport = 0\ndrain_seconds = 0.3\n[catalogs.memory]\ntype = 'memory'\n"
    config.write_text(text)
    with (
        serving("--config", str(config)) as (process, location),
        connect(location, "memory") as client,
    ):
        fill(client)
        statement = client.exchange("insert", "s", "t", NUMBER, returning=True)
        statement.write(rows(3))
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert 0.3 <= time.monotonic() - began < 10
        with pytest.raises(ServerError):
            statement.finish()


def test_second_signal_ends_it_at_once():
    with (
        serving(*MEMORY, "--port", "0") as (process, location),
        connect(location, "memory") as client,
    ):
        fill(client)
        statement = client.exchange("insert", "s", "t", NUMBER)
        process.send_signal(signal.SIGTERM)
        wait_until_refused(location)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == -signal.SIGTERM
        statement.cancel()


def test_killed_server_starts_again_on_its_port():
    with (
        serving(*MEMORY, "--port", "0") as (process, location),
        connect(location, "memory") as client,
    ):
        fill(client)
        statement = client.exchange("insert", "s", "t", NUMBER, returning=True)
        statement.write(rows(3))
        process.kill()
        assert process.wait(SECONDS) == -signal.SIGKILL
        with pytest.raises(Unavailable):
            statement.finish()
        with serving(*MEMORY, "--port", location.rpartition(":")[2]) as (_, again):
            assert again == location
            assert listed_again(client) == []
            fill(client)
            assert client.read("s", "t").to_pylist() == [{"n": 1}, {"n": 2}]


def listed_again(client: Client) -> list[object]:
    """List schemas by the same client, which connects again by itself after a moment."""
    schemas = wait_until_it_succeeds(client.list_schemas, Unavailable)
    return [schema for schema in schemas if schema.name != "jetbridge"]


def test_port_in_use_is_said_in_one_line_with_exit_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", *MEMORY, "--port", str(port))
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "--port" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nport = 'many'", ("server.port", "'many'", "from 0 to 65535")),
        ("[server]\nhost = '0.0.0.0'", ("server.host", "0.0.0.0", "tokens_file", "127.0.0.1")),
        ("[catalogs.x]\ntype = 'excel'", ("catalogs.x.type", "'excel'", "'memory'")),
        ("[server", ("TOML",)),
    ],
)
def test_bad_configuration_is_said_in_one_line_with_exit_two(tmp_path, text, words):
    config = tmp_path / "jetbridge.toml"
    config.write_text(text)
    done = run("serve", "--config", str(config))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    missing = [word for word in (*words, str(config)) if word not in done.stderr]
    assert missing == [], done.stderr


def test_doctor_lists_what_is_installed(tmp_path):
    config = tmp_path / "jetbridge.toml"
    config.write_text("[server]\nport = 0\n")
    done = run("doctor", "--config", str(config))
    assert (done.returncode, done.stderr) == (0, "")
    states = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}
    needed = ("jetbridge", "python", "duckdb", "grpcio", "pyarrow", "msgpack", "configuration")
    assert {name: states[name] for name in needed} == dict.fromkeys(needed, "ok")
    as_json = run("doctor", "--config", str(config), "--format", "json")
    assert {finding["name"].split()[0] for finding in json.loads(as_json.stdout)} == states.keys()


def test_doctor_tells_what_is_wrong_with_the_configuration(tmp_path):
    config = tmp_path / "jetbridge.toml"
    config.write_text("[server]\nport = 'many'\n")
    done = run("doctor", "--config", str(config))
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "configuration" in line]
    assert line.startswith("missing")
    assert "server.port" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--help",), ("serve", "optimize", "doctor", "ATTACH")),
        (("serve", "--help"), ("--config", "--host", "--port", "listening on", "SIGTERM")),
        (("optimize", "--help"), ("CATALOG.SCHEMA.TABLE", "--older-than", "optimize lake.shop.o")),
    ],
)
def test_help_is_printed_on_standard_output(arguments, words):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert [word for word in words if word not in done.stdout] == []


@pytest.mark.parametrize("arguments", [(), ("serve", "--port", "many"), ("optimize",)])
def test_wrong_usage_is_exit_two(arguments):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: jetbridge" in done.stderr
    assert "Traceback" not in done.stderr
