"""A server warns at its start about tokens, TLS keys and seal keys that other users can read."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
[server]
port = 0
tokens_file = "tokens"
tls_cert = "cert"
tls_key = "key"
seal_key_file = "seal"
[catalogs.m]
type = "memory"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", "key", "-out", "cert"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "tokens").write_text("ada: 0123456789abcdef0123")
    (tmp_path / "seal").write_text("ab" * 32)
    (tmp_path / "jetbridge.toml").write_text(CONFIG)
    return tmp_path


def warned(folder: Path) -> list[str]:
    """Return the warnings of a server about its files."""
    command = [sys.executable, "-m", "jetbridge", "serve", "--config", "jetbridge.toml"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    said = process.communicate()[1].splitlines()
    return sorted(line.rpartition(" ")[2] for line in said if "chmod 600" in line)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o644, ["key", "seal", "tokens"]),
        (0o640, ["key", "seal", "tokens"]),
        (0o602, ["key", "seal", "tokens"]),
        (0o600, []),
        (0o400, []),
    ],
)
def test_secret_files_that_others_can_read_are_warned_about(
    folder: Path, mode: int, expected: list[str]
) -> None:
    for name in ("tokens", "key", "seal"):
        (folder / name).chmod(mode)
    assert warned(folder) == expected
