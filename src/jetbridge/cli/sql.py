"""`jetbridge sql`: statements over all catalogs at once, their rows and reports on the terminal."""

import csv
import io
import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from types import FrameType

import pyarrow as pa

from jetbridge.app.configuration import load_config
from jetbridge.app.sessions import open_session
from jetbridge.cli.exits import INTERRUPTED, USAGE_ERROR, UsageError
from jetbridge.cli.progress import Progress
from jetbridge.cli.terminal import note, print_error, say, say_json
from jetbridge.config import Config, ConfigError
from jetbridge.duckdb_engine.rendering import as_json, as_texts
from jetbridge.errors import Cancelled, ServerError
from jetbridge.pipeline.parsing.tokens import split_text, without_secrets
from jetbridge.pipeline.report import Report, StatementResult
from jetbridge.pipeline.run import check
from jetbridge.pipeline.run import run as run_statements
from jetbridge.pipeline.session import Session
from jetbridge.runtime.cancellation import Cancellation, scope
from jetbridge.runtime.temporary_folders import remove_all

# A table for people; whoever wants all rows takes another format.
MOST_ROWS = 1_000
WIDEST = 60
# Numbers that DuckDB sends in types of its own.
_OPAQUE_NUMBERS = ("hugeint", "uhugeint", "bignum")
WAIT_SECONDS = 0.2
# After Ctrl-C a statement has so long to clear up.
CLEARING_SECONDS = 30.0
# More is added where something was kept.
_INTERRUPTED = "interrupted: the statement was stopped"
_GOES_ON = (
    f"interrupted: the statement did not end within {CLEARING_SECONDS:.0f} s; look at its table "
    "before you run it again"
)


def run(options: Namespace) -> int:
    log = logging.getLogger("jetbridge")
    if not options.verbose:
        # What went wrong is said at the end, in one line.
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
        told = progress.watch
        with progress, open_session(config, verbose=options.verbose, watch=told) as opened:
            _set(opened, options)
            _interruptible(lambda: _run(opened, text, options, progress))
    except UsageError as error:
        print_error(str(error))
        return USAGE_ERROR
    except (KeyboardInterrupt, Cancelled) as error:
        message = str(error) or _INTERRUPTED
        print_error(
            f"{message}, and nothing of it was kept" if message == _INTERRUPTED else message
        )
        return INTERRUPTED
    except ServerError as error:
        log.debug("it failed", exc_info=error)
        print_error(str(error))
        return 1
    except Exception as error:  # noqa: BLE001 - nobody expected it; people see one line all the same
        log.critical("internal error", exc_info=error if options.verbose else None)
        print_error(f"internal error, please report it: {type(error).__name__}: {str(error)[:200]}")
        return 1
    return 0


def _interruptible(work: Callable[[], None]) -> None:
    """Python sees Ctrl-C between two steps of its own, and DuckDB and Spark take long ones.

    Raises Cancelled if it ended the work, which says so where something was kept.

    The thread is not joined: Python 3.11 takes one for dead when Ctrl-C meets that.
    """
    failed: list[BaseException] = []
    done = threading.Event()
    statements = Cancellation()

    def safely() -> None:
        try:
            with scope(statements):
                work()
        except BaseException as error:  # noqa: BLE001 - it is raised again where one waits for it
            failed.append(error)
        finally:
            done.set()

    threading.Thread(target=safely, name="statements", daemon=True).start()
    try:
        while not done.wait(WAIT_SECONDS):
            pass
    except KeyboardInterrupt:
        statements.cancel(Cancelled(_INTERRUPTED))
        if not done.wait(CLEARING_SECONDS):
            print_error(_GOES_ON)
            remove_all()
            os._exit(INTERRUPTED)
    if failed:  # else it was done a moment before
        raise failed[0]


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _config(options: Namespace) -> Config:
    return load_config(options.config, warehouse=options.warehouse, notify=note)


def _set(session: Session, options: Namespace) -> None:
    given = [("engine", options.engine), ("dialect", options.dialect)]
    for text in options.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r}: must be NAME=VALUE")
        given.append((name.strip(), value.strip()))
    for name, value in given:
        if value is None:
            continue
        try:
            said = session.change_setting(name, value)
        except ServerError as error:
            raise UsageError(f"--set: {error}") from None
        if said:
            note(f"--set {name}: {said}")


def _run(session: Session, text: str, options: Namespace, progress: Progress) -> None:
    if not options.echo:
        _told(run_statements(session, text), options.format, progress)
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
        _told(run_statements(session, statement), options.format, progress)


def _echo(statement: str) -> None:
    note(f"\n> {without_secrets(statement)}")


def _told(outcomes: Iterator[StatementResult], style: str, progress: Progress) -> None:
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
    """For people, on one line."""
    words = [report.statement, report.target]
    if report.engine:
        seconds = sum(report.seconds.values())
        words.append(f"{report.rows_written:,} rows in {seconds:.2f} s on {report.engine}")
    if report.note:
        words.append(report.note)
    return ": ".join(word for word in words if word)


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
    """NULL is empty."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(row)
    return out.getvalue()


def _as_table(outcome: StatementResult, progress: Progress) -> None:
    assert outcome.schema is not None  # noqa: S101 - it has rows
    rows: list[list[str | None]] = []
    more = 0
    for batch in outcome.batches:
        wanted = batch.slice(0, max(0, MOST_ROWS - len(rows)))
        rows += as_texts(wanted) if wanted.num_rows else []
        more += batch.num_rows - wanted.num_rows
    progress.clear()
    numbers = [_is_number(field.type) for field in outcome.schema]
    for line in format_table(outcome.schema.names, rows, numbers):
        say(line)
    count = f"{len(rows) + more:,} row{'' if len(rows) + more == 1 else 's'}"
    shown = f"; the first {MOST_ROWS:,} are shown, --format csv gives all" if more else ""
    note(f"({count}{shown})")


def _is_number(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.OpaqueType):
        return kind.type_name in _OPAQUE_NUMBERS
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(numeric)


def format_table(
    names: list[str], rows: list[list[str | None]], numbers: list[bool]
) -> Iterator[str]:
    """A table for people: numbers to the right, long texts cut."""
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
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


_ROWS: dict[str, Callable[[StatementResult, Progress], None]] = {
    "table": _as_table,
    "json": _as_json,
    "csv": _as_csv,
}
