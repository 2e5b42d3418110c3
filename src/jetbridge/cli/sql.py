"""Runs `jetbridge sql`: statements over all catalogs, their rows, progress and reports."""

import csv
import io
import logging
import os
import signal
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TextIO

import pyarrow as pa

from jetbridge.app.configuration import load_config
from jetbridge.app.sessions import open_session
from jetbridge.cli.terminal import (
    INTERRUPTED,
    USAGE_ERROR,
    UsageError,
    note,
    print_error,
    say,
    say_json,
)
from jetbridge.config import Config, ConfigError
from jetbridge.duckdb_engine.rendering import as_json, as_texts
from jetbridge.errors import Cancelled, ServerError
from jetbridge.pipeline.parsing.tokens import split_text, without_secrets
from jetbridge.pipeline.report import ProgressEvent, Report, StatementResult
from jetbridge.pipeline.run import check
from jetbridge.pipeline.run import run as run_statements
from jetbridge.pipeline.session import Session
from jetbridge.runtime.cancellation import Cancellation, scope
from jetbridge.runtime.temporary_folders import remove_all

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


# A table is for people; the other formats print all rows.
MOST_ROWS = 1_000
WIDEST = 60
# Numbers that DuckDB sends in types of its own.
_OPAQUE_NUMBERS = ("hugeint", "uhugeint", "bignum")
WAIT_SECONDS = 0.2
# After Ctrl-C, a statement has this time to clean up.
CLEANUP_SECONDS = 30.0
# A statement that keeps something says so in a message of its own.
_INTERRUPTED = "interrupted: the statement was stopped"
_GOES_ON = (
    f"interrupted: the statement did not end within {CLEANUP_SECONDS:.0f} s; check its table "
    "before you run it again"
)


def run(options: Namespace) -> int:
    """Run the statements; return the exit code."""
    log = logging.getLogger("jetbridge")
    if not options.verbose:
        # The error is printed at the end, as one line.
        log.setLevel(logging.CRITICAL)
    try:
        config = _config(options)
        text = sys.stdin.read() if options.statements == "-" else options.statements
    except (ConfigError, UsageError) as error:
        print_error(str(error))
        return USAGE_ERROR
    signal.signal(signal.SIGTERM, _interrupt)
    progress = Progress(sys.stderr)
    try:
        watch = progress.watch
        with progress, open_session(config, verbose=options.verbose, watch=watch) as session:
            _set(session, options)
            _interruptible(lambda: _run(session, text, options, progress))
    except UsageError as error:
        print_error(str(error))
        return USAGE_ERROR
    except (KeyboardInterrupt, Cancelled) as error:
        message = str(error) or _INTERRUPTED
        print_error(f"{message} and changed nothing" if message == _INTERRUPTED else message)
        return INTERRUPTED
    except ServerError as error:
        log.debug("a statement failed", exc_info=error)
        print_error(str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - print one line for an unexpected error, too
        log.critical("internal error", exc_info=error if options.verbose else None)
        print_error(f"internal error, please report it: {type(error).__name__}: {str(error)[:200]}")
        return 1
    return 0


def _interruptible(work: Callable[[], None]) -> None:
    """Run `work` in a thread, so that Ctrl-C reaches Python while DuckDB or Spark compute.

    Raises Cancelled if Ctrl-C ended the work; its message says if something was kept. The thread is
    not joined: if Ctrl-C interrupts a join, Python 3.11 takes the thread for ended.
    """
    errors: list[BaseException] = []
    done = threading.Event()
    statements = Cancellation()

    def safely() -> None:
        try:
            with scope(statements):
                work()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it again
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=safely, name="statements", daemon=True).start()
    try:
        while not done.wait(WAIT_SECONDS):
            pass
    except KeyboardInterrupt:
        statements.cancel(Cancelled(_INTERRUPTED))
        if not done.wait(CLEANUP_SECONDS):
            print_error(_GOES_ON)
            remove_all()
            os._exit(INTERRUPTED)
    if errors:  # without one, the work ended a moment before
        raise errors[0]


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _config(options: Namespace) -> Config:
    return load_config(options.config, warehouse=options.warehouse, notify=note)


def _set(session: Session, options: Namespace) -> None:
    """Apply --engine, --dialect and --set; raises UsageError."""
    values = [("engine", options.engine), ("dialect", options.dialect)]
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r}: must be NAME=VALUE")
        values.append((name.strip(), value.strip()))
    for name, value in values:
        if value is None:
            continue
        try:
            remark = session.change_setting(name, value)
        except ServerError as error:
            raise UsageError(f"--set: {error}") from None
        if remark:
            note(f"--set {name}: {remark}")


def _run(session: Session, text: str, options: Namespace, progress: Progress) -> None:
    """Run the statements and print their results."""
    if not options.echo:
        _print_results(run_statements(session, text), options.format, progress)
        return
    statements = split_text(text, session.settings.dialect)
    for statement in statements:
        try:
            check(session, statement)
        except ServerError:
            _echo(statement)
            raise
    for statement in statements:
        _echo(statement)
        _print_results(run_statements(session, statement), options.format, progress)


def _echo(statement: str) -> None:
    note(f"\n> {without_secrets(statement)}")


def _print_results(outcomes: Iterator[StatementResult], style: str, progress: Progress) -> None:
    for outcome in outcomes:
        if outcome.schema is not None:
            _ROWS[style](outcome, progress)
            progress.clear()
        elif outcome.report is not None:
            progress.clear()
            _report(outcome.report, style)


def _report(report: Report, style: str) -> None:
    if style == "json":
        say_json({"report": report.as_dict()})
    else:
        note(sentence(report))


def sentence(report: Report) -> str:
    """Return a report as one line for people."""
    parts = [report.statement, report.target]
    if report.engine:
        seconds = sum(report.seconds.values())
        parts.append(f"{report.rows_written:,} rows in {seconds:.2f} s on {report.engine}")
    if report.note:
        parts.append(report.note)
    return ": ".join(filter(None, parts))


def _as_json(outcome: StatementResult, progress: Progress) -> None:
    for batch in outcome.batches:
        progress.clear()
        for line in as_json(batch):
            say(line)


def _as_csv(outcome: StatementResult, progress: Progress) -> None:
    assert outcome.schema is not None  # noqa: S101 - it has rows
    say(_csv_line(outcome.schema.names))
    for batch in outcome.batches:
        progress.clear()
        for row in as_texts(batch):
            say(_csv_line(row))


def _csv_line(row: list[str] | list[str | None]) -> str:
    """Return a row as CSV; NULL is empty."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(row)
    return out.getvalue()


def _as_table(outcome: StatementResult, progress: Progress) -> None:
    assert outcome.schema is not None  # noqa: S101 - it has rows
    rows: list[list[str | None]] = []
    more = 0
    for batch in outcome.batches:
        first = batch.slice(0, max(0, MOST_ROWS - len(rows)))
        rows += as_texts(first) if first.num_rows else []
        more += batch.num_rows - first.num_rows
    progress.clear()
    numbers = [_is_number(field.type) for field in outcome.schema]
    for line in format_table(outcome.schema.names, rows, numbers):
        say(line)
    count = f"{len(rows) + more:,} row{'' if len(rows) + more == 1 else 's'}"
    remark = f"; the first {MOST_ROWS:,} are shown, --format csv gives all" if more else ""
    note(f"({count}{remark})")


def _is_number(data_type: pa.DataType) -> bool:
    if isinstance(data_type, pa.OpaqueType):
        return data_type.type_name in _OPAQUE_NUMBERS
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(check(data_type) for check in checks)


def format_table(
    names: list[str], rows: list[list[str | None]], numbers: list[bool]
) -> Iterator[str]:
    """Yield the lines of a table: numbers to the right, long texts cut."""
    texts = [[_cut("NULL" if cell is None else cell) for cell in row] for row in rows]
    heads = [_cut(name) for name in names]
    columns = list(zip(heads, *texts, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    yield "  ".join(map(str.ljust, heads, widths)).rstrip()
    yield "  ".join("-" * width for width in widths)
    for row in texts:
        cells = zip(row, widths, numbers, strict=True)
        yield "  ".join(
            cell.rjust(width) if number else cell.ljust(width) for cell, width, number in cells
        ).rstrip()


def _cut(text: str) -> str:
    """Return a text as one line, cut to the widest column."""
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


_ROWS: dict[str, Callable[[StatementResult, Progress], None]] = {
    "table": _as_table,
    "json": _as_json,
    "csv": _as_csv,
}
