"""Writes results as a table, and as JSON with the versions and the machine."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("grpcio", "pyarrow", "numpy", "duckdb", "msgspec", "msgpack", "protobuf")


@dataclass(frozen=True)
class Result:
    """Hold a measured `value`, and the `numbers` from which it was computed.

    A run fails below `target`, but not below `goal`. None: there is no target, or no goal.
    """

    name: str
    value: float
    unit: str
    target: float | None
    at_least: bool
    numbers: dict[str, float]
    goal: float | None = None

    @property
    def passed(self) -> bool:
        return self.target is None or self._reaches(self.target)

    def _reaches(self, bound: float) -> bool:
        return self.value >= bound if self.at_least else self.value <= bound

    def row(self) -> tuple[str, ...]:
        sign = "≥" if self.at_least else "≤"
        bounds = [] if self.target is None else [f"{sign} {self.target:.2f}"]
        bounds += [] if self.goal is None else [f"goal {self.goal:.2f}"]
        return (
            self.name,
            f"{self.value:.2f} {self.unit}".strip(),
            ", ".join(bounds),
            self._verdict(),
            ", ".join(f"{key} {number:.4g}" for key, number in self.numbers.items()),
        )

    def _verdict(self) -> str:
        if self.goal is not None and self._reaches(self.goal):
            return "goal"
        if self.target is None:
            return "" if self.goal is None else "missed"
        return "pass" if self.passed else "MISS"


def table(results: Iterable[Result]) -> str:
    """Return the results as lines with columns."""
    rows = [("measurement", "result", "target", "", "from"), *(r.row() for r in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def write(
    path: Path,
    results: Sequence[Result],
    settings: dict[str, Any],
    packages: Sequence[str] = (),
) -> None:
    """Write the results as JSON, with the commit, the settings and the versions of packages."""
    document = {
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src")),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in (*_PACKAGES, *packages)},
        **settings,
        "results": [{**_rounded(asdict(r)), "passed": r.passed} for r in results],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _git(*arguments: str) -> str:
    process = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return process.stdout.strip()
