"""`jetbridge serve` as a process: what it prints, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SERVE = [sys.executable, "-m", "jetbridge", "serve"]
MEMORY = ("--config", str(Path(__file__).with_name("memory.toml")))
SECONDS = 30


@contextmanager
def serving(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*SERVE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_one_line_on_standard_output_names_the_free_port():
    with serving(*MEMORY, "--port", "0") as process:
        line = first_line(process)
        port = re.fullmatch(r"listening on grpc://127\.0\.0\.1:(\d+)\n", line)
        assert port, line
        socket.create_connection(("127.0.0.1", int(port[1])), SECONDS).close()
        process.terminate()
        out, _ = process.communicate(timeout=SECONDS)
        assert out == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_exits_with_zero(number):
    with serving(*MEMORY, "--port", "0") as process:
        first_line(process)
        process.send_signal(number)
        assert process.wait(SECONDS) == 0


def test_port_in_use_is_one_sentence_and_exit_one():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [*SERVE, *MEMORY, "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_tls_shows_in_the_location(tmp_path):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "jetbridge.toml").write_text(
        "[server]\nport = 0\ntls_cert = 'cert.pem'\ntls_key = 'key.pem'\n"
        "[catalogs.memory]\ntype = 'memory'"
    )
    with serving("--config", str(tmp_path / "jetbridge.toml")) as process:
        assert first_line(process).startswith("listening on grpc+tls://127.0.0.1:")
