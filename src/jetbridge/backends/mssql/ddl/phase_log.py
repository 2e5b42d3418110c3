"""What MSSQL_DEBUG and MSSQL_DML_DEBUG ask for: sizes, rows and seconds of each phase."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

VARIABLES = ("MSSQL_DEBUG", "MSSQL_DML_DEBUG")


def wanted() -> bool:
    return any(os.environ.get(name, "") not in ("", "0") for name in VARIABLES)


class PhaseLog:
    """The phases of one statement."""

    def __init__(self, title: str, rows: int) -> None:
        self._title, self._rows = title, rows
        self._phase = ""

    @contextmanager
    def ddl(self, sql: str) -> Iterator[None]:
        self._say("DDL statement of %d bytes", len(sql.encode()))
        with self._timed("DDL"):
            yield

    @contextmanager
    def dml(self) -> Iterator[None]:
        with self._timed("DML"):
            yield
        self._say("%d rows inserted", self._rows)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        self._phase, began = phase, time.monotonic()
        yield
        self._say("%s phase took %.3f s", phase, time.monotonic() - began)

    def failed(self, error: BaseException) -> None:
        self._say("failed in the %s phase: %s", self._phase or "planning", error)

    def _say(self, text: str, *values: object) -> None:
        if wanted():
            log.setLevel(logging.DEBUG)  # the variable suffices, without --verbose
            log.debug(f"CTAS %s: {text}", self._title, *values)


@contextmanager
def statement(title: str, rows: int) -> Iterator[PhaseLog]:
    told = PhaseLog(title, rows)
    told._say("%d rows produced by the query", rows)  # noqa: SLF001
    try:
        yield told
    except BaseException as error:
        told.failed(error)
        raise
