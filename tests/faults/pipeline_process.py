"""Run a session of the pipeline in a process of its own, whose Spark tests kill."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.faults.lake.process import ROOT
from tests.faults.leftovers import table_folder
from tests.helpers.jvms import jvms

ROWS = 1_000_000
REPLACE = "CREATE OR REPLACE TABLE {0}.s.t AS SELECT id, h, id % 10 AS d FROM {0}.s.source"
OLD, NEW = [{"n": 1, "s": 1}], [{"n": ROWS, "s": ROWS * (ROWS - 1) // 2}]
LOOK = "SELECT count(*) AS n, sum(id)::BIGINT AS s FROM {}.s.t"


class PipelineProcess:
    def __init__(self, process: psutil.Popen) -> None:
        self._process = process

    def sql(self, text: str) -> dict[str, Any]:
        self._process.stdin.write(f"{json.dumps(text)}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def rows(self, text: str) -> Any:
        return self.sql(text)["rows"]

    def kill_spark(self) -> None:
        for jvm in jvms(self._process, recursive=True):
            jvm.kill()

    def close(self) -> None:
        self._process.stdin.close()
        assert self._process.wait(120) == 0


class Target:
    """Hold table `t` with one row, which statements replace by the rows of `source`."""

    def __init__(self, there: PipelineProcess, lake: str, warehouse: Path) -> None:
        self.there, self.lake, self.warehouse = there, lake, warehouse
        self.replace, self._look = REPLACE.format(lake), LOOK.format(lake)
        there.rows(f"CREATE SCHEMA IF NOT EXISTS {lake}.s")
        rows = f"SELECT i AS id, hash(i)::VARCHAR AS h FROM range({ROWS}) r(i)"
        there.rows(f"CREATE TABLE IF NOT EXISTS {lake}.s.source AS {rows}")

    def renew(self, engine: str) -> Path:
        """Create `t` with one row, set the engine of later statements, return the folder of `t`."""
        self.there.rows(f"RESET engine; CREATE OR REPLACE TABLE {self.lake}.s.t AS SELECT 1 AS id")
        self.there.rows(f"SET engine = '{engine}'")
        return table_folder(self.warehouse, "s", "t").relative_to(self.warehouse)

    def look(self) -> Any:
        """Return the rows of `t`, read by the engine that was chosen last."""
        return self.there.rows(self._look)


@contextmanager
def running(
    folder: Path,
    lakes: Mapping[str, Path],
    settings: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
) -> Iterator[PipelineProcess]:
    """Start a session with lakes in these folders and these settings."""
    lines = ["[spark]"]
    lines += [
        f"{json.dumps(name)} = {json.dumps(value)}" for name, value in (settings or {}).items()
    ]
    for name, warehouse in lakes.items():
        lines += [f"[catalogs.{name}]", 'type = "lake"', f'warehouse = "{warehouse}"']
    lines += more
    file = folder / "jetbridge.toml"
    file.write_text("\n".join(lines))
    process = psutil.Popen(
        [sys.executable, "-m", "tests.faults.pipeline_child", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield PipelineProcess(process)
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()
        process.wait(30)
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
