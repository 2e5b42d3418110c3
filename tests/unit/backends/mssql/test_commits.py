"""A COMMIT whose answer was lost: done once, again, or told that nobody knows."""

from contextlib import contextmanager
from typing import Any, cast

import pytest

from jetbridge.backends.mssql import load
from jetbridge.backends.mssql.load import CommitUnknown, in_one_transaction
from jetbridge.errors import Unavailable


class Server:
    """Loses the answers to its first COMMITs; `kept` is what was committed."""

    def __init__(self, lost: int) -> None:
        self.lost, self.kept, self.pending = lost, 0, 0

    @contextmanager
    def loading(self):
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
    monkeypatch.setattr(load, "_FIRST_PAUSE", 0.0)


def loaded(server: Server, happened: Any = None) -> None:
    def work(connection: Any) -> None:
        connection.pending += 1

    in_one_transaction(cast(Any, server), "dbo.t", work, happened)


def test_it_is_not_done_again_when_it_has_happened():
    server = Server(lost=1)
    loaded(server, lambda connection: connection.kept == 1)
    assert server.kept == 1


def test_it_is_done_again_when_it_has_not():
    server = Server(lost=1)
    loaded(server, lambda connection: False)
    assert server.kept == 2


@pytest.mark.parametrize("happened", [None, lambda connection: None])
def test_who_cannot_know_says_so(happened):
    server = Server(lost=1)
    with pytest.raises(CommitUnknown, match=r"dbo\.t .*all of them are there, or none"):
        loaded(server, happened)
    assert server.kept == 1


def test_a_server_that_stays_away_leaves_it_unknown():
    with pytest.raises(CommitUnknown):
        loaded(Server(lost=100), lambda connection: False)
