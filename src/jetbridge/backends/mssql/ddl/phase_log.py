"""Logs size, rows and seconds of each phase of CREATE TABLE AS, if MSSQL_DEBUG is set."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

VARIABLES = ("MSSQL_DEBUG", "MSSQL_DML_DEBUG")


def is_enabled() -> bool:
    """Return whether a variable of the environment switches the log on."""
    return any(os.environ.get(name, "") not in ("", "0") for name in VARIABLES)


class PhaseLog:
    """Log the phases of one statement."""

    def __init__(self, title: str, rows: int) -> None:
        self._title, self._rows = title, rows
        self._phase = ""

    @contextmanager
    def ddl(self, sql: str) -> Iterator[None]:
        """Log the size of the statement and the seconds of the block."""
        self._log("DDL statement of %d bytes", len(sql.encode()))
        with self._time("DDL"):
            yield

    @contextmanager
    def dml(self) -> Iterator[None]:
        """Log the seconds and rows of the block."""
        with self._time("DML"):
            yield
        self._log("%d rows inserted", self._rows)

    @contextmanager
    def _time(self, phase: str) -> Iterator[None]:
        self._phase, started = phase, time.monotonic()
        yield
        self._log("%s phase took %.3f s", phase, time.monotonic() - started)

    def log_failure(self, error: BaseException) -> None:
        """Log the phase in which the statement failed."""
        self._log("failed in the %s phase: %s", self._phase or "planning", error)

    def _log(self, text: str, *values: object) -> None:
        if is_enabled():
            log.setLevel(logging.DEBUG)  # the variable is enough, without --verbose
            log.debug(f"CTAS %s: {text}", self._title, *values)


@contextmanager
def log_statement(title: str, rows: int) -> Iterator[PhaseLog]:
    """Log the rows of a statement, and its failure if the block raises an error."""
    phases = PhaseLog(title, rows)
    phases._log("%d rows produced by the query", rows)  # noqa: SLF001
    try:
        yield phases
    except BaseException as error:
        phases.log_failure(error)
        raise
