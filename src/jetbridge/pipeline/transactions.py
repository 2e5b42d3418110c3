"""Runs BEGIN and COMMIT: rows wait in one write, and COMMIT publishes all of them or none.

A transaction writes one table: Iceberg publishes each table separately, so of two tables one could
be published and the other fail. A statement that the transaction cannot keep is refused at once.
Tables are read as they were when the transaction first read their catalog.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace

from jetbridge.catalog import Write
from jetbridge.catalog.identifiers import fold
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.name_resolution import NameResolver, Path

# Begins a write. A clean exit of the block publishes what was staged in it.
BeginWrite = Callable[[], AbstractContextManager[Write]]
# An INSERT may follow these in one transaction.
_APPENDS = ("INSERT", "CREATE TABLE AS")


@dataclass
class WriteTransaction:
    """Hold the write of one transaction, and the snapshots of catalogs that it reads.

    `failed`: a statement failed, so that only ROLLBACK is left.
    """

    failed: bool = False
    _open: ExitStack = field(default_factory=ExitStack)
    _names: NameResolver | None = None
    _target: Path | None = None
    _kind: str = ""
    _write: Write | None = None

    def pin(self, names: NameResolver) -> NameResolver:
        """Return these names, with the snapshots of the earlier statements.

        What the names resolve to may have changed: by SET, by USE or by ATTACH.
        """
        if self._names is not None:
            names = replace(names, snapshots=self._names.snapshots)
        self._names = names
        return names

    def refuse_reading(self, path: Path) -> None:
        """Raise FailedPrecondition for the table that was written: its new rows are not public."""
        if self._target is not None and _same_path(path, self._target):
            raise FailedPrecondition(
                f"table {'.'.join(path)!r} was written in this transaction; COMMIT, then read it"
            )

    def refuse_writing(self, path: Path, kind: str) -> None:
        """Raise FailedPrecondition for a write that cannot be part of this transaction."""
        if self._target is not None and not _same_path(path, self._target):
            raise FailedPrecondition(
                f"this transaction has written {'.'.join(self._target)!r} and cannot write "
                f"{'.'.join(path)!r} too: a transaction writes one table; COMMIT first"
            )
        if self._write is not None and not (kind == "INSERT" and self._kind in _APPENDS):
            raise FailedPrecondition(
                f"{kind} after {self._kind} of {'.'.join(path)!r} in one transaction is not "
                "supported; COMMIT first"
            )

    def write(self, path: Path, kind: str, begin: BeginWrite) -> Write:
        """Return the function that stages rows; all INSERTs of the transaction share it."""
        self.refuse_writing(path, kind)
        if self._write is None:
            self._write = self._open.enter_context(begin())
            self._target, self._kind = path, kind
        return self._write

    def commit(self) -> None:
        """Publish the rows; raise FailedPrecondition, after a rollback, if a statement failed."""
        if self.failed:
            self.rollback()
            raise FailedPrecondition("a statement of this transaction failed; it was rolled back")
        self._open.close()

    def rollback(self) -> None:
        """Discard the rows that were staged."""
        rollback = _RollBack()
        try:
            with self._open:
                raise rollback
        except _RollBack:
            pass


class _RollBack(BaseException):
    """End a write without an error, so that it discards its rows. No statement raises it."""


def _same_path(one: Path, other: Path) -> bool:
    return [fold(part) for part in one] == [fold(part) for part in other]
