"""What the last `make soak` found, file by file, kept in benchmarks/results/soak_tests.json."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

RESULT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "soak_tests.json"


class SoakReport:
    """A plugin of pytest; files that did not run keep what was found before."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self._found[file]["seconds"] += report.duration
        if report.when == "call" or report.failed:
            self._found[file][report.outcome] += 1

    def pytest_sessionfinish(self) -> None:
        known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        for file, found in self._found.items():
            known[file] = {name: round(number) for name, number in found.items()}
        RESULT.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
