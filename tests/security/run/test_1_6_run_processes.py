"""The process of a statement of `run` has nothing of the server, and ends with its call.

Attacked: the process and the server are killed in the midst of a statement, callers cancel and die,
and two hundred calls look for what they leave.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest

from tests.helpers.waiting import wait_until, wait_until_computing
from tests.security.cancelled.running import Caller, status
from tests.security.run.processes import fork_servers, workers
from tests.security.run.served import ADA, Served, serving

LIMITS = "staged_bytes = 500000000"
MEMORY = 'memory_limit = "800MB"'
SLOW = "SELECT a FROM range(200000) x(a), range(200000) y(b) WHERE hash(a, b) = 0"
CALLS, AT_ONCE = 200, 8


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with serving(folder, LIMITS, MEMORY, SALES_PASSWORD="pa55word") as server:
        yield server


@pytest.fixture(scope="module")
def ada(served: Served) -> Iterator[Caller]:
    with Caller(served.location, "m", ADA) as caller:
        caller.run("CREATE SCHEMA m.s")
        caller.run("CREATE TABLE m.s.t AS SELECT 1 AS a")
        yield caller


def worker_of(server: int) -> psutil.Process:
    """Return the process of the only statement that runs, once it computes."""
    processes: list[psutil.Process] = wait_until(lambda: workers(server))
    [process] = processes
    wait_until_computing(process)
    return process


def gone(server: int) -> None:
    wait_until(lambda: not workers(server), 2.0)


def unchanged(caller: Caller) -> None:
    assert caller.holds("SELECT count(*) = 1 AND sum(a) = 1 FROM m.s.t")
    with pytest.raises(grpc.RpcError, match="does not exist"):
        caller.run("FROM m.s.made")


@pytest.mark.parametrize(
    "text",
    [f"CREATE TABLE m.s.made AS {SLOW}", f"INSERT INTO m.s.t {SLOW}", f"DELETE FROM m.s.t {SLOW}"],
)
def test_1_6_a_killed_process_is_an_error_of_its_statement_alone(
    served: Served, ada: Caller, text: str
) -> None:
    if text.startswith("DELETE"):
        text = f"DELETE FROM m.s.t WHERE a IN ({SLOW})"
    call = ada.start(text, 60)
    worker_of(served.process.pid).kill()
    assert status(call) is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "the process of the statement has ended" in call.details()
    assert "sql.memory_limit" in call.details()
    unchanged(ada)
    gone(served.process.pid)


def test_1_6_a_killed_process_that_forks_is_started_again(served: Served, ada: Caller) -> None:
    ada.run("SELECT 1")
    call = ada.start(SLOW, 60)
    worker_of(served.process.pid)
    [forking] = fork_servers(served.process.pid)
    forking.kill()
    assert status(call) is grpc.StatusCode.RESOURCE_EXHAUSTED
    ada.run("SELECT 1")
    [other] = fork_servers(served.process.pid)
    assert other.pid != forking.pid


def test_1_6_a_cancelled_call_leaves_no_process(served: Served, ada: Caller) -> None:
    call = ada.start(f"INSERT INTO m.s.t {SLOW}", 60)
    worker_of(served.process.pid)
    call.cancel()
    gone(served.process.pid)
    wait_until(lambda: not served.spilled())
    unchanged(ada)


def test_1_6_an_expired_call_leaves_no_process(served: Served, ada: Caller) -> None:
    call = ada.start(f"INSERT INTO m.s.t {SLOW}", 1.5)
    assert status(call) is grpc.StatusCode.DEADLINE_EXCEEDED
    gone(served.process.pid)
    unchanged(ada)


def test_1_6_a_killed_caller_leaves_no_process(served: Served, ada: Caller) -> None:
    code = (
        "from tests.security.cancelled.running import Caller, status\n"
        f"status(Caller({served.location!r}, 'm', {ADA!r}).start({SLOW!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as caller:
        try:
            worker_of(served.process.pid)
        finally:
            caller.kill()
    gone(served.process.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_1_6_a_server_that_ends_leaves_no_process(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, LIMITS) as other, Caller(other.location, "m", ADA) as caller:
        call = caller.start(SLOW, 60)
        processes = [worker_of(other.process.pid), *fork_servers(other.process.pid)]
        other.process.send_signal(number)
        assert status(call) is not grpc.StatusCode.OK
        _, alive = psutil.wait_procs(processes, 10)
        assert not alive


def test_1_6_a_process_has_nothing_of_the_server(served: Served, ada: Caller) -> None:
    call = ada.start(SLOW, 60)
    worker = worker_of(served.process.pid)
    process = Path(f"/proc/{worker.pid}")
    environment = process.joinpath("environ").read_bytes()
    files = {name: os.readlink(process / "fd" / name) for name in os.listdir(process / "fd")}
    details = fields(process / "status")
    lines = (process / "limits").read_text().splitlines()
    limits = {line[:26].strip(): line[26:].split() for line in lines}
    call.cancel()
    assert b"pa55word" not in environment
    assert b"SALES" not in environment
    assert [files.pop(name) for name in "012"] == ["/dev/null"] * 3
    [channel] = files.values()
    assert channel.startswith("socket:")
    assert details["Umask"] == "0077"
    assert details["NoNewPrivs"] == "1"
    assert limits["Max core file size"][:2] == ["0", "0"]
    most = 800_000_000 // 2 + 600 * 1024 * 1024
    assert int(limits["Max data size"][0]) < most
    gone(served.process.pid)


def fields(file: Path) -> dict[str, str]:
    pairs = (line.split(":", 1) for line in file.read_text().splitlines())
    return {name: value.strip() for name, value in pairs}


def test_1_6_calls_leave_no_files_processes_or_folders(served: Served, ada: Caller) -> None:
    def open_files() -> int:
        return sum(
            process.num_fds()
            for process in (
                psutil.Process(served.process.pid),
                *fork_servers(served.process.pid),
            )
        )

    texts = ("SELECT 1", "SELECT nope", "FROM m.s.t", "INSERT INTO m.s.t SELECT 1 WHERE false")

    def call(number: int) -> Any:
        return status(ada.start(texts[number % len(texts)], 60))

    with ThreadPoolExecutor(AT_ONCE // 2) as callers:
        list(callers.map(call, range(AT_ONCE)))
        before = open_files()
        ends = list(callers.map(call, range(CALLS)))
    assert set(ends) == {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
    gone(served.process.pid)
    wait_until(lambda: open_files() <= before + 2)
    children = psutil.Process(served.process.pid).children(recursive=True)
    assert {process.pid for process in children} == {
        process.pid for process in fork_servers(served.process.pid)
    }
    assert not served.spilled()
