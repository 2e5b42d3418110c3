"""What one statement may use: the only thing that commands get to know of a session."""

from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import TypeVar

from jetbridge.catalog import Write
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.pipeline.access import AccessRules
from jetbridge.pipeline.name_resolution import NameResolver, Path
from jetbridge.pipeline.query.planner_databases import PlannerDatabases
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import PhaseTimer, StatementResult
from jetbridge.pipeline.settings import SettingValues
from jetbridge.pipeline.transactions import BeginWrite, WriteTransaction
from jetbridge.runtime.cancellation import Cancellation

S = TypeVar("S")


@dataclass(frozen=True)
class StatementContext:
    """Hold what one statement may use; the session makes a new one for each statement.

    All names are resolved at one moment. `spark` is None if no catalog of the session uses Spark,
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
        """Take rows for a table; the end of the block publishes them, or COMMIT in a transaction.

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
