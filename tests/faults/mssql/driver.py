"""Run the process that loads SQL Server as a child that tests kill, with Spark below it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.faults.lake.process import PATIENCE, ROOT
from tests.faults.mssql.scene import DATABASE
from tests.helpers.mssql_server import StandIn

_PASSWORD = "JETBRIDGE_FAULTS_PASSWORD"  # noqa: S105 - the name of a variable


class Driver:
    """Run a session of the pipeline (`pipeline_child`) with the database as catalog `t`."""

    def __init__(self, file: Path, password: str) -> None:
        command = [sys.executable, "-m", "tests.faults.pipeline_child", str(file)]
        self.process = psutil.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, _PASSWORD: password},
        )

    def begin(self, statement: str) -> None:
        self.process.stdin.write(f"{json.dumps(statement)}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def sql(self, statement: str) -> dict[str, Any]:
        self.begin(statement)
        return self.answer()

    def kill(self) -> None:
        """Kill the process with SIGKILL; return when all of its children have ended."""
        with suppress(psutil.NoSuchProcess):
            children = self.process.children(recursive=True)
            self.process.kill()
            self.process.wait()
            _, alive = psutil.wait_procs(children, PATIENCE)
            assert alive == [], "Spark outlives its driver"


@contextmanager
def driver(
    server: StandIn, folder: Path, settings: Mapping[str, str], spark: Mapping[str, str]
) -> Iterator[Driver]:
    """Start a driver; `folder` holds configuration and spools, `settings` are for SQL Server."""
    address = server.master()
    values: dict[str, str | bool] = {
        "type": "mssql",
        "server": address.server,
        "database": DATABASE,
        "user": address.user,
        "password_env": _PASSWORD,
        "encrypt": "no",
        "trust_server_certificate": True,
        "spool": str(folder),
        **settings,
    }
    file = folder / "jetbridge.toml"
    file.write_text(f"[catalogs.t]\n{_lines(values)}[spark]\n{_lines(spark)}")
    made = Driver(file, address.password)
    try:
        yield made
    finally:
        made.kill()
        made.process.stdin.close()
        made.process.stdout.close()


def _lines(values: Mapping[str, str | bool]) -> str:
    return "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in values.items())
