"""Holds what one statement may use: the only part of a session that commands see.

Between BEGIN and COMMIT, rows wait in one write, and COMMIT publishes all of them or none. A
transaction writes one table: a catalog may publish each table separately, so of two tables one
could be published and the other fail. A statement that the transaction cannot keep is refused at
once. Tables are read as they were when the transaction first read their catalog.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jetbridge.catalog import Write
from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import NameResolver, Path
from jetbridge.pipeline.query.planner_databases import PlannerDatabases
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import PhaseTimer, StatementResult
from jetbridge.pipeline.settings import SettingValues
from jetbridge.runtime.cancellation import Cancellation

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


S = TypeVar("S")


@dataclass(frozen=True)
class StatementContext:
    """Hold what one statement may use; the session makes a new one for each statement.

    All names are resolved in one snapshot. `spark` is None if no catalog of the session uses Spark,
    and `transaction` is None outside of BEGIN and COMMIT.
    """

    names: NameResolver
    access: AccessRules
    settings: SettingValues
    timer: PhaseTimer
    spark: SparkRunner | None
    transaction: WriteTransaction | None
    databases: PlannerDatabases
    cancellation: Cancellation

    @property
    def in_transaction(self) -> bool:
        """Return whether the statement runs between BEGIN and COMMIT."""
        return self.transaction is not None

    def connect(
        self, query: str = "", target: str | None = None
    ) -> AbstractContextManager[StatementConnection]:
        """Open a connection to DuckDB in which this query may be planned and run.

        `target` is the catalog whose rows the statement changes.
        """
        return self.databases.connect(self.names, query, target)

    @contextmanager
    def write(self, path: Path, kind: str, begin: BeginWrite) -> Iterator[Write]:
        """Stage rows for a table; the end of the block publishes them, or COMMIT in a transaction.

        `kind` is the statement, such as INSERT. Raises FailedPrecondition as `refuse_writing` does.
        """
        self.names.writable_catalog(path[0])
        if self.transaction is not None:
            yield self.transaction.write(path, kind, begin)
            return
        with ExitStack() as stack:
            yield stack.enter_context(begin())
            spark = self.spark
            with spark.report_tasks(self.timer.tasks) if spark else nullcontext():
                stack.close()

    def refuse_writing(self, path: Path, kind: str) -> None:
        """Raise FailedPrecondition if the statement may not write this table."""
        self.names.writable_catalog(path[0])
        if self.transaction is not None:
            self.transaction.refuse_writing(path, kind)

    def refuse_reading(self, path: Path) -> None:
        """Raise FailedPrecondition if this transaction has written the table."""
        if self.transaction is not None:
            self.transaction.refuse_reading(path)


# Runs the statements of one type.
Command = Callable[[StatementContext, S], StatementResult]
