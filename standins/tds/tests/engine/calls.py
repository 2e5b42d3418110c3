"""Calling the engine of the stand-in as the wire would, for its own tests."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from standins.tds.engine import DuckEngine
from standins.tds.engine.session import DuckSession
from standins.tds.values import (
    Answer,
    Batches,
    Count,
    Engine,
    Message,
    Parameter,
    Rows,
    SqlError,
)

# With something of everything that a table may have; the schema must be there.
TABLE = """CREATE TABLE app.t (
    id int NOT NULL IDENTITY(1, 1) CONSTRAINT pk_t PRIMARY KEY,
    a nvarchar(50) NULL,
    b decimal(18, 4) NOT NULL CONSTRAINT df_b DEFAULT 0,
    c datetime2(7) NULL,
    d varchar(max) COLLATE Latin1_General_BIN2,
    CONSTRAINT ck_b CHECK (b >= 0),
    CONSTRAINT uq_a UNIQUE NONCLUSTERED (a, b DESC))"""
NUMBERS = itertools.count()
# A hang is what this tells from a busy machine.
PATIENCE = 60


def plain(value: Any) -> Any:
    """A datetimeoffset as the moment it is."""
    return value["utc"] if isinstance(value, dict) else value


def rows_of(answer: Batches | Rows) -> list[tuple[Any, ...]]:
    if isinstance(answer, Rows):
        return [tuple(each) for each in answer.rows]
    found = []
    for batch in answer.batches:
        columns = [column.to_pylist() for column in batch.columns]
        found += [tuple(plain(each) for each in row) for row in zip(*columns, strict=True)]
    return found


def answers(session: DuckSession, text: str, *parameters: Parameter) -> list[Any]:
    """All of them; result sets as lists of rows, an error that ends the batch at the end."""
    found: list[Any] = []
    try:
        for each in session.run(text, parameters):
            found.append(rows_of(each) if isinstance(each, Batches | Rows) else each)
    except SqlError as failure:
        found.append(failure)
    return found


def run(session: DuckSession, text: str, *parameters: Parameter) -> list[Any]:
    """As `answers`, and the first error is raised."""
    found = answers(session, text, *parameters)
    for each in found:
        if isinstance(each, SqlError):
            raise each
    return found


def rows(session: DuckSession, text: str, *parameters: Parameter) -> list[tuple[Any, ...]]:
    """Those of the only result set."""
    (found,) = (each for each in run(session, text, *parameters) if isinstance(each, list))
    return list(found)


def value(session: DuckSession, text: str, *parameters: Parameter) -> Any:
    ((found,),) = rows(session, text, *parameters)
    return found


def columns(session: DuckSession, text: str) -> list[Any]:
    (found,) = (each.columns for each in session.run(text) if isinstance(each, Batches | Rows))
    return list(found)


def count(session: DuckSession, text: str) -> int | None:
    (found,) = (each.rows for each in run(session, text) if isinstance(each, Count))
    return found


def refused(session: DuckSession, text: str, *parameters: Parameter) -> SqlError:
    """The first error."""
    with pytest.raises(SqlError) as caught:
        run(session, text, *parameters)
    return caught.value


def numbers(found: Sequence[Answer | Any]) -> list[int]:
    return [each.number for each in found if isinstance(each, SqlError)]


def messages(session: DuckSession, text: str) -> list[str]:
    return [each.text for each in run(session, text) if isinstance(each, Message)]


def connected(engine: DuckEngine, database: str = "") -> DuckSession:
    return engine.login("sa", "secret", database)


def fresh(engine: DuckEngine) -> str:
    """A new database."""
    name = f"db{next(NUMBERS)}"
    engine.add_database(name)
    return name


class Beside:
    """A call in a thread of its own, which may wait for a lock."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._result = call()
        except BaseException as failure:
            self._failure = failure

    def waits(self, seconds: float = 0.1) -> bool:
        self._thread.join(seconds)
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "still waiting"
        if self._failure is not None:
            raise self._failure
        return self._result


def as_the_wire_sees_it(engine: DuckEngine) -> Engine:
    """mypy checks here that the engine keeps the contract."""
    return engine


def engine_of_a_module() -> Iterator[DuckEngine]:
    with DuckEngine() as engine:
        yield engine
