"""BEGIN ... COMMIT: writes wait until the end, and happen at once or not at all.

A transaction writes one table: Iceberg publishes each table by itself, so with two of them one
could be published and the other fail. What cannot be kept is refused at the statement that would
need it. Tables are read as they were when the transaction first looked at them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace

from jetbridge.catalog import Write
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.name_resolution import NameResolver, Path

# Begins a write; what is staged is published when it ends well.
BeginWrite = Callable[[], AbstractContextManager[Write]]
# What INSERT may follow.
_APPENDS = ("INSERT", "CREATE TABLE AS")


@dataclass
class WriteTransaction:
    _open: ExitStack = field(default_factory=ExitStack)
    _seen: NameResolver | None = None
    _target: Path | None = None
    _how: str = ""
    _write: Write | None = None
    failed: bool = False

    def places(self, now: NameResolver) -> NameResolver:
        """These, as they were at the first look.

        Settings of the session may have changed what it writes to.
        """
        self._seen = replace(now, seen=self._seen.seen) if self._seen else now
        return self._seen

    def refuse_reading(self, path: Path) -> None:
        """What was written is not there before COMMIT, and the old rows would be wrong."""
        if self._target is not None and _same(path, self._target):
            raise FailedPrecondition(
                f"table {'.'.join(path)!r} was written in this transaction; COMMIT, then read it"
            )

    def refuse_writing(self, path: Path, how: str) -> None:
        """Raise FailedPrecondition for a write that cannot be part of this transaction."""
        if self._target is not None and not _same(path, self._target):
            raise FailedPrecondition(
                f"this transaction has written {'.'.join(self._target)!r} and cannot write "
                f"{'.'.join(path)!r} too: each table is published by itself; COMMIT first"
            )
        if self._write is not None and not (how == "INSERT" and self._how in _APPENDS):
            raise FailedPrecondition(
                f"{how} after {self._how} of {'.'.join(path)!r} in one transaction is not "
                "supported; COMMIT first"
            )

    def writing(self, path: Path, how: str, begin: BeginWrite) -> Write:
        """The function that stages rows; several INSERTs into one table share it."""
        self.refuse_writing(path, how)
        if self._write is None:
            self._write = self._open.enter_context(begin())
            self._target, self._how = path, how
        return self._write

    def commit(self) -> None:
        if self.failed:
            self.rollback()
            raise FailedPrecondition("a statement of this transaction failed; it was rolled back")
        self._open.close()

    def rollback(self) -> None:
        """Whatever was staged is forgotten."""
        undo = _RollBack()
        try:
            with self._open:
                raise undo
        except _RollBack:
            pass


class _RollBack(BaseException):
    """Nothing is wrong: what was staged is to be forgotten. No error of a statement is this."""


def _same(one: Path, other: Path) -> bool:
    return [fold(part) for part in one] == [fold(part) for part in other]
