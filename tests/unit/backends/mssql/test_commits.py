"""A COMMIT whose answer was lost: done once, again, or told that nobody knows."""

from contextlib import contextmanager
from typing import Any, cast

import pytest

from jetbridge.backends.mssql.write import transactions
from jetbridge.backends.mssql.write.transactions import CommitUnknown, run_in_transaction
from jetbridge.errors import ConstraintViolation, FailedPrecondition, ServerError, Unavailable


class Server:
    """Loses the answers to its first COMMITs; `kept` is what was committed."""

    def __init__(self, lost: int) -> None:
        self.lost, self.kept, self.pending = lost, 0, 0
        # What each try to borrow a connection fails with, if anything.
        self.refusals: list[ServerError | None] = []

    @contextmanager
    def borrow_core(self):
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        yield self

    @contextmanager
    def transaction(self, committing):
        self.pending = 0
        yield
        committing()
        self.kept += self.pending
        if self.lost:
            self.lost -= 1
            raise Unavailable("lost")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(transactions, "_FIRST_PAUSE", 0.0)


def bulk_columns(server: Server, happened: Any = None) -> None:
    def work(connection: Any) -> None:
        connection.pending += 1

    run_in_transaction(cast(Any, server), "dbo.t", work, happened)


def test_it_is_not_done_again_when_it_has_happened():
    server = Server(lost=1)
    bulk_columns(server, lambda connection: connection.kept == 1)
    assert server.kept == 1


def test_it_is_done_again_when_it_has_not():
    server = Server(lost=1)
    bulk_columns(server, lambda connection: False)
    assert server.kept == 2


@pytest.mark.parametrize("happened", [None, lambda connection: None])
def test_who_cannot_know_says_so(happened):
    server = Server(lost=1)
    with pytest.raises(CommitUnknown, match=r"dbo\.t .*all of them are stored, or none"):
        bulk_columns(server, happened)
    assert server.kept == 1


def test_a_server_that_stays_away_leaves_it_unknown():
    with pytest.raises(CommitUnknown):
        bulk_columns(Server(lost=100), lambda connection: False)


@pytest.mark.parametrize("happened", [None, lambda connection: False])
def test_a_server_that_refuses_the_second_login_leaves_it_unknown(happened):
    """Such as 4060 while it starts: the rows may be there, so nothing is cleaned up."""
    server = Server(lost=1)
    server.refusals = [None, FailedPrecondition("SQL Server says 4060")]
    with pytest.raises(CommitUnknown):
        bulk_columns(server, happened)


def test_a_question_that_fails_leaves_it_unknown():
    def happened(connection: Any) -> bool:
        raise FailedPrecondition("the database is starting")

    with pytest.raises(CommitUnknown):
        bulk_columns(Server(lost=1), happened)


def test_once_it_is_known_that_nothing_happened_errors_are_told_as_they_are():
    server = Server(lost=1)

    def work(connection: Any) -> None:
        connection.pending += 1
        if connection.kept:
            raise ConstraintViolation("the second try fails")

    with pytest.raises(ConstraintViolation):
        run_in_transaction(cast(Any, server), "dbo.t", work, lambda connection: False)
