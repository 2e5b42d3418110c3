"""Answers of the engine as tokens, each statement with its DONE."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from standins.tds import values
from standins.tds.faults import Faults, When
from standins.tds.values import Answer, Column, Row, SqlError
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.columns_out import batch_encoder
from standins.tds.wire.encoding.tokens import Command, Done, Env, Token
from standins.tds.wire.encoding.wire_values import row_encoder
from standins.tds.wire.inbox import Inbox
from standins.tds.wire.outbox import Outbox

_BLOCK = 512
FATAL = 20


class Fatal(Exception):
    """An error of severity 20 or more was answered: the connection ends."""


@dataclass(frozen=True)
class End:
    """Of a statement."""

    status: int = 0
    rows: int | None = None
    command: int = Command.NONE
    cause: SqlError | None = None


class Answering:
    """Writes what the engine says, stops when the client no longer wants it."""

    def __init__(self, out: Outbox, inbox: Inbox, faults: Faults) -> None:
        self._out, self._inbox, self._faults = out, inbox, faults

    def batch(self, answers: Iterable[Answer], command: int = Command.NONE) -> None:
        """DONE after each statement; all but the last say that more comes."""
        pending: End | None = None
        for item in self._ends(answers, command):
            if pending is not None:
                self._done(pending, Token.DONE, Done.MORE)
            pending = item
        self._done(pending or End(), Token.DONE)
        self._end_if_fatal(pending)

    def inside(self, answers: Iterable[Answer], command: int = Command.NONE) -> int:
        """DONEINPROC after each statement; the number of the last error, 0 without one."""
        worst = 0
        for item in self._ends(answers, command):
            if item is not None:
                worst = item.cause.number if item.cause else worst
                self._done(item, Token.DONE_IN_PROC, Done.MORE)
                self._end_if_fatal(item)
        return worst

    def _ends(self, answers: Iterable[Answer], command: int) -> Iterator[End | None]:
        """None for an answer that ends no statement; what came before it is no longer the last."""
        with _closed_after(answers):
            try:
                for answer in answers:
                    self._inbox.check()
                    yield from self._one(answer, command)
            except SqlError as cause:
                self._inbox.check()
                yield from self._failed(cause)
        self._inbox.check()

    def _one(self, answer: Answer, command: int) -> Iterator[End | None]:
        match answer:
            case values.Rows(columns, rows):
                yield None
                count = self._rows(columns, rows)
                yield End(rows=count, command=Command.SELECT)
            case values.Batches(columns, batches):
                yield None
                count = self._batches(columns, batches)
                yield End(rows=count, command=Command.SELECT)
            case values.Count(rows=number):
                yield End(rows=number, command=command)
            case SqlError():
                yield from self._failed(answer)
            case _:
                yield None
                self._out.write(self._notice(answer))

    def _notice(self, answer: Answer) -> bytes:
        match answer:
            case values.Message():
                return tokens.info(answer)
            case values.Database(new, old):
                entered = values.Message(5701, f"Changed database context to '{new}'.", state=1)
                return tokens.env_text(Env.DATABASE, new, old) + tokens.info(entered)
            case values.Begun(descriptor):
                return tokens.env_transaction(Env.BEGUN, descriptor)
            case values.Committed(descriptor):
                self._faults.meet(When.COMMITTED)
                return tokens.env_transaction(Env.COMMITTED, descriptor)
            case values.RolledBack(descriptor):
                return tokens.env_transaction(Env.ROLLED_BACK, descriptor)
        raise TypeError(f"no answer: {answer!r}")

    def _failed(self, cause: SqlError) -> Iterator[End | None]:
        yield None
        self._out.write(tokens.error(cause))
        yield End(Done.ERROR, cause=cause)

    def _rows(self, columns: tuple[Column, ...], rows: Iterable[Row]) -> int:
        """What was read before an error is sent before it."""
        self._out.write(tokens.columns(columns))
        encode = row_encoder(columns)
        block: list[Row] = []
        count = 0
        try:
            for row in rows:
                block.append(row)
                if len(block) == _BLOCK:
                    count += self._block(block, encode)
                    block = []
        except SqlError:
            self._inbox.check()
            self._block(block, encode)
            raise
        return count + self._block(block, encode)

    def _block(self, block: list[Row], encode: Callable[[list[Row]], bytes]) -> int:
        self._inbox.check()
        self._out.write(encode(block))
        return len(block)

    def _batches(self, columns: tuple[Column, ...], batches: Iterable[pa.RecordBatch]) -> int:
        self._out.write(tokens.columns(columns))
        encode = batch_encoder(columns)
        count = 0
        for batch in batches:
            for start in range(0, batch.num_rows, 16 * _BLOCK):
                self._inbox.check()
                self._out.write(encode(batch.slice(start, 16 * _BLOCK)))
            count += batch.num_rows
        return count

    def _done(self, end: End, kind: Token, status: int = 0) -> None:
        self._out.write(tokens.done(end.status | status, end.rows, end.command, kind))

    def _end_if_fatal(self, end: End | None) -> None:
        if end is not None and end.cause is not None and end.cause.severity >= FATAL:
            raise Fatal


def _closed_after(answers: Any) -> contextlib.AbstractContextManager[Any]:
    """A generator that is not read to its end lets go of what it holds."""
    if hasattr(answers, "close"):
        return contextlib.closing(answers)
    return contextlib.nullcontext()
