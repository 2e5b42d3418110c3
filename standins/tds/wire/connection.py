"""One client: its login, then its requests, one after the other."""

import contextlib
import re
import ssl
import threading
from collections.abc import Iterator, Sequence

from standins.tds.counters import Counters
from standins.tds.faults import Drop, Dropped, Faults, When
from standins.tds.values import (
    Answer,
    Bulk,
    Engine,
    Parameter,
    Session,
    SqlError,
)
from standins.tds.wire import login, prelogin, tls
from standins.tds.wire.encoding import tokens
from standins.tds.wire.encoding.reader import Reader, TooShort, after_headers
from standins.tds.wire.encoding.tokens import Command, Done, Env
from standins.tds.wire.inbox import Ignored, Inbox, Interrupted
from standins.tds.wire.link import Link
from standins.tds.wire.outbox import Outbox
from standins.tds.wire.packets import (
    BadPacket,
    Kind,
    Packet,
    Status,
    Unpacker,
    agreed_size,
    cut,
)
from standins.tds.wire.requests import rpc, transactions
from standins.tds.wire.requests.answers import Answering, Fatal
from standins.tds.wire.requests.bulk import Load

_BULK = re.compile(r"\s*INSERT\s+BULK\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"\s*(\w+)")
_COMMANDS = {
    "INSERT": Command.INSERT,
    "UPDATE": Command.UPDATE,
    "DELETE": Command.DELETE,
    "MERGE": Command.MERGE,
    "BEGIN": Command.BEGIN,
    "COMMIT": Command.COMMIT,
    "ROLLBACK": Command.ROLLBACK,
}
_DEADLOCK = 1205


def command_of(text: str) -> Command:
    word = _FIRST_WORD.match(text)
    return _COMMANDS.get(word[1].upper(), Command.NONE) if word else Command.NONE


class Refused(Exception):
    """There will be no session."""


def admit(
    link: Link, engine: Engine, encryption: prelogin.Encryption, faults: Faults, out: Outbox
) -> tuple[Session, Unpacker]:
    """PRELOGIN, TLS where agreed, LOGIN7; raises Refused after having said why."""
    unpacker = Unpacker()
    answer = prelogin.agree(encryption, prelogin.parse(_message(link, unpacker, faults)))
    link.send(b"".join(cut(Kind.ANSWER, prelogin.answer(answer), out.size)))
    if answer is not prelogin.Answer.NOT_SUPPORTED:
        shaken = tls.shake_hands(link)
        if shaken is None:
            raise Refused
        link.start_tls(shaken)
    asked = login.parse(_message(link, unpacker, faults))
    if answer is prelogin.Answer.OFF:
        link.stop_tls()
    try:
        faults.meet(When.LOGIN)
        session = engine.login(asked.user, asked.password, asked.database)
    except SqlError as cause:
        out.write(login.refused(asked.user, cause))
        out.finish()
        raise Refused from cause
    out.write(login.accepted(asked, session.database))
    out.finish()
    out.size = agreed_size(asked.packet_size)
    return session, unpacker


def _message(link: Link, unpacker: Unpacker, faults: Faults) -> bytes:
    """One before the login: nothing comes in between."""
    parts: list[bytes] = []
    while True:
        data = link.receive()
        if not data:
            raise Refused
        for each in unpacker.feed(data):
            faults.meet(When.RECEIVED)
            parts.append(each.payload)
            if each.ends:
                return b"".join(parts)


class Connection:
    """Runs in a thread of its own until the client has gone."""

    def __init__(
        self,
        link: Link,
        engine: Engine,
        encryption: prelogin.Encryption,
        faults: Faults,
        counters: Counters,
        spid: int,
    ) -> None:
        self._link, self._engine, self._encryption = link, engine, encryption
        self._faults, self._counters = faults, counters
        self._spid = spid
        self._out = Outbox(link, faults, spid)
        self._lock = threading.Lock()
        self._busy = False
        self._drop = Drop.FIN

    def run(self) -> None:
        try:
            self._serve()
        except Dropped as dropped:
            self._drop = dropped.how
        except (OSError, Refused, BadPacket, TooShort, ssl.SSLError):
            pass  # the client went, or was shown the door
        finally:
            self._link.close(self._drop)

    def stop(self) -> None:
        """From another thread: the client sees its connection end."""
        self._link.shut()

    def _serve(self) -> None:
        admitted = admit(self._link, self._engine, self._encryption, self._faults, self._out)
        self._session, unpacker = admitted
        self._counters.add(logins=1)
        self._inbox = inbox = Inbox(self._link, unpacker, self._faults)
        self._answering = Answering(self._out, inbox, self._faults)
        self._procedures = rpc.Procedures(self._session, self._run, self._inside, self._out.write)
        self._bulk: Bulk | None = None
        inbox.start(self._interrupt)
        try:
            self._requests()
            self._drop = inbox.drop
        finally:
            inbox.stop()
            self._abandon_bulk()
            self._session.close()

    def _interrupt(self) -> None:
        with self._lock:
            if self._busy:
                self._session.cancel()

    def _requests(self) -> None:
        while (first := self._inbox.next()) is not None:
            self._set_busy(True)
            try:
                self._request(first)
            except Interrupted:
                self._break_off(first.kind)
                continue
            except Ignored:
                self._out.write(tokens.done(Done.ERROR))
            except Fatal:
                self._out.finish()
                return
            finally:
                self._set_busy(False)
            self._out.finish()

    def _break_off(self, kind: int) -> None:
        """The attention comes next, and what it is told ends this answer.

        The statement that it met has a DONE of its own before: without one, Microsoft's driver
        tells nobody that the statement was cancelled.
        """
        if kind != Kind.BULK:
            self._out.write(tokens.done(Done.MORE))

    def _set_busy(self, busy: bool) -> None:
        with self._lock:
            self._busy = busy

    def _request(self, first: Packet) -> None:
        if first.kind == Kind.ATTENTION:
            self._counters.add(attentions=1)
            self._abandon_bulk()
            self._out.write(tokens.done(Done.ATTENTION))
            return
        if first.kind == Kind.BULK:
            self._load(first)
            return
        data = b"".join(self._inbox.message(first))
        if self._inbox.attention_waits:
            raise Interrupted  # it came before there was anything to cancel
        self._abandon_bulk()
        self._reset_if_asked(first.status)
        transaction, reader = after_headers(data)
        if first.kind == Kind.TRANSACTION:
            command, answers = transactions.answers(reader, self._session)
            self._answering.batch(answers, command)
        elif first.kind == Kind.BATCH:
            self._batch(transaction, reader)
        elif first.kind == Kind.RPC:
            self._calls(transaction, reader)
        else:
            raise BadPacket(f"a message of type {first.kind}")

    def _reset_if_asked(self, status: int) -> None:
        """A pool gives the connection to somebody else."""
        if not status & (Status.RESET | Status.RESET_KEEPING_TRANSACTION):
            return
        if status & Status.RESET or not self._session.transaction:
            self._session.reset()
        self._procedures.forget()
        self._out.write(tokens.env_change(Env.RESET, b"\0", b"\0"))

    def _check_transaction(self, descriptor: int) -> None:
        """A client that did not heed an ENVCHANGE is not let into the transaction."""
        if descriptor != self._session.transaction:
            text = (
                "New request is not allowed to start because it should come with valid "
                "transaction descriptor."
            )
            raise SqlError(3989, text)

    def _run(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Answer]:
        self._counters.saw(self._spid, text)
        try:
            self._faults.meet(When.STATEMENT, text=text)
        except SqlError as cause:
            self._session.note(cause)
            yield from self._undone(cause)
            raise
        yield from self._session.run(text, parameters)

    def _undone(self, cause: SqlError) -> Iterator[Answer]:
        """The victim of a deadlock has lost its transaction when it hears of it."""
        if cause.number == _DEADLOCK and self._session.transaction:
            yield self._session.rollback()

    def _inside(self, answers: Iterator[Answer], text: str) -> int:
        return self._answering.inside(answers, command_of(text))

    def _batch(self, transaction: int, reader: Reader) -> None:
        text = reader.wide(reader.left // 2)
        self._answering.batch(self._batch_answers(transaction, text), command_of(text))

    def _batch_answers(self, transaction: int, text: str) -> Iterator[Answer]:
        self._check_transaction(transaction)
        if not _BULK.match(text):
            yield from self._run(text)
            return
        self._counters.saw(self._spid, text)
        self._faults.meet(When.STATEMENT, text=text)
        self._bulk = self._session.bulk(text)

    def _calls(self, transaction: int, reader: Reader) -> None:
        """Each call stands for itself: one that fails does not keep the next from running."""
        try:
            calls = list(rpc.parse(reader))
        except SqlError as cause:
            self._out.write(tokens.error(cause) + rpc.done(more=False, failed=True))
            return
        for index, call in enumerate(calls):
            more, failed = index + 1 < len(calls), False
            try:
                self._check_transaction(transaction)
                self._procedures.call(call)
            except SqlError as cause:
                self._inbox.check()
                self._out.write(tokens.error(cause))
                failed = True
            self._out.write(rpc.done(more, failed))

    def _abandon_bulk(self) -> None:
        """INSERT BULK was not followed by rows, or these did not come to an end."""
        bulk, self._bulk = self._bulk, None
        if bulk is not None:
            bulk.abort()

    def _load(self, first: Packet) -> None:
        """Rows are read to their end even when one was refused: the client listens only then."""
        bulk = self._bulk
        failure: SqlError | None = None
        load = None if bulk is None else Load(bulk)
        if load is None:
            failure = SqlError(4002, "Rows without an INSERT BULK before them.", 16)
        for piece in self._inbox.message(first):
            if failure is None and load is not None:
                failure = self._feed(load, piece)
        rows = 0
        if failure is None and bulk is not None and load is not None:
            try:
                self._count(load.finish())
                self._bulk = None
                rows = bulk.finish()
                self._faults.meet(When.LOADED)
            except SqlError as cause:
                failure = cause
        self._loaded(rows, failure)

    def _feed(self, load: Load, piece: bytes) -> SqlError | None:
        try:
            self._count(load.feed(piece))
        except SqlError as cause:
            self._abandon_bulk()
            return cause
        return None

    def _count(self, rows: int) -> None:
        if rows:
            self._counters.add(bulk_rows=rows)
            self._faults.meet(When.BULK_ROW, rows)

    def _loaded(self, rows: int, failure: SqlError | None) -> None:
        if failure is None:
            self._out.write(tokens.done(Done.FINAL, rows, Command.BULK))
            return
        with contextlib.suppress(SqlError):
            self._abandon_bulk()
        self._answering.batch(self._failed(failure), Command.BULK)

    def _failed(self, failure: SqlError) -> Iterator[Answer]:
        yield from self._undone(failure)
        raise failure
