"""Requests to the transaction manager (MS-TDS 2.2.6.9): begin, commit, roll back, save."""

from collections.abc import Iterator

from standins.tds.values import Answer, Count, Session, SqlError
from standins.tds.wire.encoding.reader import Reader
from standins.tds.wire.encoding.tokens import Command

_BEGIN, _COMMIT, _ROLLBACK, _SAVE = 5, 7, 8, 9
_BEGIN_AGAIN = 0x01
_COMMANDS = {_BEGIN: Command.BEGIN, _COMMIT: Command.COMMIT, _ROLLBACK: Command.ROLLBACK}


def answers(reader: Reader, session: Session) -> tuple[Command, Iterator[Answer]]:
    """The changes come before the DONE: Microsoft's bulk load heeds no other order."""
    kind = reader.u16()
    return _COMMANDS.get(kind, Command.NONE), _run(kind, reader, session)


def _run(kind: int, reader: Reader, session: Session) -> Iterator[Answer]:
    if kind == _BEGIN:
        yield session.begin(_begin(reader))
    elif kind in (_COMMIT, _ROLLBACK):
        yield from _end(kind, reader, session)
    elif kind == _SAVE:
        yield from session.run(f"SAVE TRANSACTION [{reader.short_text()}]")
        return
    else:
        raise SqlError(3928, "The request of the transaction manager is not known here.")
    yield Count()


def _begin(reader: Reader) -> int:
    isolation = reader.u8()
    reader.short_text()  # its name, which means nothing
    return isolation


def _end(kind: int, reader: Reader, session: Session) -> Iterator[Answer]:
    name, flags = reader.short_text(), reader.u8()
    if kind == _ROLLBACK and name:
        yield from session.run(f"ROLLBACK TRANSACTION [{name}]")
    else:
        yield session.commit() if kind == _COMMIT else session.rollback()
    if flags & _BEGIN_AGAIN:
        yield session.begin(_begin(reader))
