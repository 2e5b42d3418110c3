"""Runs SQL text on one connection: what both halves of the driver can do."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jetbridge.backends.mssql.connection.sockets import DriverSocket
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current, shielded


class SqlConnection(ABC):
    """A connection that runs SQL text. `last_used` is the time at which the pool got it back."""

    _socket: DriverSocket
    last_used = 0.0

    def was_cut(self) -> bool:
        return self._socket.was_cut

    @abstractmethod
    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the first result with columns; constants must be quoted in `sql`."""

    @abstractmethod
    def close(self) -> None: ...

    def answers(self) -> bool:
        """Check by a query that the server still answers."""
        try:
            self.run("SELECT 1")
        except ServerError:
            return False
        return True

    @contextmanager
    def transaction(self, committing: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Run the block in a transaction: all of it or nothing.

        Call `committing` when nothing can prevent COMMIT any more, not even a cancellation.
        The transaction is SQL text, because the core's own commit() and rollback() send nothing.
        """
        self.run("SET XACT_ABORT ON; BEGIN TRANSACTION")
        try:
            yield
            current().check()
        except BaseException:
            with suppress(ServerError), shielded():
                self.run("IF @@TRANCOUNT > 0 ROLLBACK")
            raise
        with current().publishing():
            committing()
            self.run("COMMIT")
