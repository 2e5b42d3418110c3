"""`jetbridge serve` in a process of its own, whose memory is that of the server alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ADA, BOB = "ada-ada-ada-ada-ada-ada-ada-ada-ada", "bob-bob-bob-bob-bob-bob-bob-bob-bob"
MIB = 1024 * 1024


@dataclass(frozen=True)
class Served:
    process: "subprocess.Popen[str]"
    location: str
    temporary: Path

    def memory(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024

    def spilled(self) -> list[Path]:
        return [path for path in self.temporary.rglob("*") if "duckdb" in path.name]


@contextmanager
def serving(folder: Path, limits: str, sql: str = "", **environment: str) -> Iterator[Served]:
    """Run a server with the tokens ADA and BOB and the catalog `m` in memory; kill it at the end.

    `limits` and `sql` are lines of these tables in the configuration.
    """
    (folder / "tokens.txt").write_text(f"ada: {ADA}\nbob: {BOB}\n")
    (folder / "tokens.txt").chmod(0o600)
    (folder / "jetbridge.toml").write_text(
        f'[server]\nport = 0\ntokens_file = "tokens.txt"\n[limits]\n{limits}\n'
        f'[sql]\n{sql}\n[catalogs.m]\ntype = "memory"\n'
    )
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "jetbridge", "serve"]
    process = subprocess.Popen(
        [*command, "--config", str(folder / "jetbridge.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on ")
        yield Served(process, line.split()[-1], folder / "tmp")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
