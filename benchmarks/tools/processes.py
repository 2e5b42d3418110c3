"""Runs servers in processes of their own, and measures their memory."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import psutil

_LISTENING = "listening on "
_SAMPLE_SECONDS = 0.01
_END_SECONDS = 30


@dataclass(frozen=True)
class Running:
    """Hold the address and the process id of a server."""

    location: str
    pid: int


@contextmanager
def started(module: str, *arguments: str) -> Iterator[Running]:
    """Start a server in a new process; `module` prints `listening on LOCATION` when it is ready."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_LISTENING):
                break
        else:
            raise RuntimeError(f"{module} ended with {process.wait()} before it was ready")
        yield Running(line.removeprefix(_LISTENING).strip(), process.pid)
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        psutil.wait_procs(children, _END_SECONDS)  # a JVM ends a moment after its parent


class PeakMemory:
    """Measure the resident bytes of a process: their peak in the block, and those before it."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = self.peak = 0

    def _watch(self) -> None:
        while not self._done.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        self.peak = max(self.peak, self._process.memory_info().rss)

    def __enter__(self) -> Self:
        self.before = self.peak = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()
