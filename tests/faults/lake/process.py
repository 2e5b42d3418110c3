"""Run a lake's server as a process that tests kill, with Spark's JVM below it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from jetbridge.client import Client, connect
from tests.helpers.jvms import jvms
from tests.helpers.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
NAME = "lake"
# Other programs may keep the machine busy; a hang is what this tells from slowness.
PATIENCE = 240.0
# How long the server of `lake_server` waits for a lock; others wait twenty seconds.
BUSY = 3


class LakeServer:
    """Run one server; `folder` holds its configuration, its log and, by default, the warehouse."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        warehouse: Path | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        self.warehouse = warehouse or folder / "warehouse"
        self.log = folder / "server.log"
        self._config = folder / "jetbridge.toml"
        told = (spark or {}).items()
        settings = "".join(f"{json.dumps(k)} = {json.dumps(v)}\n" for k, v in told)
        lake = f"[catalogs.{NAME}]\ntype = 'lake'\nwarehouse = {json.dumps(str(self.warehouse))}\n"
        self._config.write_text(f"{lake}[spark]\n{settings}")
        self._options = options
        self.start()

    def start(self, port: int = 0) -> None:
        command = [sys.executable, "-m", "tests.faults.lake.server", str(self._config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(port), *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "MALLOC_ARENA_MAX": "2", "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        line = self._read()
        if not line.startswith("listening on "):
            self.kill()
            raise AssertionError(line + self.log.read_text())
        self.location = line.split()[-1]

    def _read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    @property
    def port(self) -> int:
        return int(self.location.rpartition(":")[2])

    @contextmanager
    def client(self) -> Iterator[Client]:
        with connect(self.location, NAME) as connected:
            yield connected

    def order(self, *words: str) -> Any:
        """Send an order to the standard input of the server; see `lake_server`."""
        assert self.process.stdin
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        answer = self._read()
        if not answer or answer.startswith("error"):
            raise ConnectionError(answer or "the server is gone")
        return json.loads(answer)

    def jvm(self) -> psutil.Process:
        """Return the process of Spark's driver, once it runs."""
        found: psutil.Process = wait_until(lambda: next(iter(self._jvms()), None), PATIENCE)
        return found

    def _jvms(self) -> list[psutil.Process]:
        return jvms(psutil.Process(self.process.pid))

    def kill(self) -> None:
        """Kill the server with SIGKILL; return when Spark has ended, too."""
        running = self._jvms() if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        _, alive = psutil.wait_procs(running, PATIENCE)
        assert alive == [], "Spark outlives its server"

    def __enter__(self) -> "LakeServer":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()

    def restart(self) -> None:
        """Start the server again on the same port."""
        self._close_pipes()
        self.start(self.port)
