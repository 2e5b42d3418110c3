"""The steps of DoExchange after a statement is published."""

from types import SimpleNamespace
from typing import Any

import pytest

from jetbridge.errors import NotFound, Unavailable
from jetbridge.runtime import cancellation
from jetbridge.service.do_exchange import _move_pin


@pytest.mark.parametrize("error", [NotFound("table", "t"), Unavailable("the catalog is gone")])
def test_a_pin_that_cannot_move_does_not_fail_what_was_published(error, caplog):
    def move_pin(*_):
        cancellation.current().check()
        raise error

    located: Any = SimpleNamespace(
        name=SimpleNamespace(schema="s", name="t"),
        served=SimpleNamespace(catalog=None),
        transaction=SimpleNamespace(move_pin=move_pin),
    )
    with cancellation.scope() as statement:
        statement.cancel()
        _move_pin(located)
    assert ("the catalog is gone" in caplog.text) == isinstance(error, Unavailable)
