"""Shows the progress of a statement as one line on the terminal, and nothing in a pipe."""

import sys
import threading
import time
from typing import TextIO

from jetbridge.pipeline.report import ProgressEvent

PERIOD = 0.2
# A statement that ends sooner shows no line.
PATIENCE = 0.5
NAMES = {"plan": "planning", "spool": "running", "load": "writing"}


class Progress:
    """Show the latest event; several threads may report events."""

    def __init__(self, out: TextIO = sys.stderr) -> None:
        self._out, self._is_terminal = out, out.isatty()
        self._lock = threading.Lock()
        self._step: ProgressEvent | None = None
        self._began = self._phase_began = 0.0
        self._drawn = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="progress", daemon=True)

    def __enter__(self) -> "Progress":
        if self._is_terminal:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._is_terminal:
            self._thread.join()
        self.clear()

    def watch(self, step: ProgressEvent) -> None:
        """Take an event of a statement."""
        current_time = time.monotonic()
        with self._lock:
            if self._step is None:
                self._began = current_time
            if self._step is None or self._step.phase != step.phase:
                self._phase_began = current_time
            self._step = step

    def clear(self) -> None:
        """Remove the line, before other output and at the end of a statement."""
        with self._lock:
            self._step = None
            if self._drawn:
                self._out.write("\r\x1b[K")
                self._out.flush()
                self._drawn = False

    def _draw(self) -> None:
        while not self._ended.wait(PERIOD):
            with self._lock:
                current_time = time.monotonic()
                if self._step is not None and current_time - self._began > PATIENCE:
                    self._out.write(f"\r\x1b[K{line(self._step, current_time - self._phase_began)}")
                    self._out.flush()
                    self._drawn = True


def line(step: ProgressEvent, seconds: float) -> str:
    """Return `running: 12 of 40 tasks, 3 s` or `writing: 1,200 rows, 400 a second, 2 s left`."""
    parts = [f"{NAMES.get(step.phase, step.phase)}:"]
    of = f" of {step.total:,}" if step.total else ""
    if step.done or step.total:
        parts.append(f"{step.done:,}{of} {step.unit},")
    rate = step.done / seconds if seconds > PATIENCE else 0
    if step.unit == "rows" and rate:
        parts.append(f"{rate:,.0f} a second,")
    if rate and step.total and step.total > step.done:
        parts.append(f"{(step.total - step.done) / rate:.0f} s left")
    else:
        parts.append(f"{seconds:.0f} s")
    return " ".join(parts)
