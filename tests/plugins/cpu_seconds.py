"""Report the CPU seconds of tests by folder: `make test ARGS="-p tests.plugins.cpu_seconds"`.

A test counts with all processes that it started. Unlike its duration, this hardly depends on what
else the machine does. What fixtures of a module or of the run start counts where it is used first.
"""

import os
import resource
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LONGEST = 40
DEPTH = 3
PROPERTY = "cpu_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")
# Of a line of /proc/PID/stat, after the name: its own seconds, and those of children that ended.
_SECONDS = slice(11, 15)


def used() -> float:
    """Return the CPU seconds of this process and of all below it, ended or not."""
    ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own = sum(usage.ru_utime + usage.ru_stime for usage in ended)
    return own + sum(_used_by(pid) for pid in _below(str(os.getpid())))


def _below(pid: str) -> Iterator[str]:
    for file in Path("/proc", pid, "task").glob("*/children"):
        with suppress(OSError):
            for child in file.read_text().split():
                yield child
                yield from _below(child)


def _used_by(pid: str) -> float:
    with suppress(OSError):
        fields = Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[_SECONDS])) / _TICKS
    return 0.0


class CpuSeconds:
    """Measures in the processes of xdist, and reports in the one that started them."""

    def __init__(self) -> None:
        self._before = used()
        self._seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":
            after = used()
            report.user_properties.append((PROPERTY, after - self._before))
            self._before = after
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            properties: dict[str, Any] = dict(report.user_properties)
            self._seconds[report.nodeid] += properties.get(PROPERTY, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        folders: dict[str, float] = defaultdict(float)
        for test, seconds in self._seconds.items():
            folders["/".join(test.partition("::")[0].split("/")[:DEPTH])] += seconds
        terminalreporter.section(f"CPU seconds: {sum(folders.values()):.0f}")
        for numbers, count in ((folders, None), (self._seconds, LONGEST)):
            for name, seconds in sorted(numbers.items(), key=lambda item: -item[1])[:count]:
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuSeconds())
