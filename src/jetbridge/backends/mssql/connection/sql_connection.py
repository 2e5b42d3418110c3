"""Defines what the connections of both halves of the driver have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from jetbridge.backends.mssql.connection.sockets import DriverSocket
from jetbridge.errors import ServerError
from jetbridge.runtime.cancellation import current, shield


class SqlConnection(ABC):
    """Run SQL text on one connection. `last_used` is the time at which the pool got it back."""

    _socket: DriverSocket
    last_used = 0.0

    def was_cut(self) -> bool:
        """Return whether a cancellation has cut the connection."""
        return self._socket.was_cut

    @abstractmethod
    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the first result that has columns."""

    @abstractmethod
    def close(self) -> None: ...

    def answers(self) -> bool:
        """Return whether the server still answers a query."""
        try:
            self.run("SELECT 1")
        except ServerError:
            return False
        return True

    @contextmanager
    def transaction(self, committing: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Run the block in a transaction: all of it or nothing.

        `committing` is called when nothing can prevent COMMIT any more, not even a cancellation.
        BEGIN and COMMIT are SQL text, because the core's own commit() and rollback() send nothing.
        """
        self.run("SET XACT_ABORT ON; BEGIN TRANSACTION")
        try:
            yield
            current().check()
        except BaseException:
            with suppress(ServerError), shield():
                self.run("IF @@TRANCOUNT > 0 ROLLBACK")
            raise
        with current().publishing():
            committing()
            self.run("COMMIT")
