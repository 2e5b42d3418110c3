"""Texts that would keep a parser busy for long are refused before they are parsed."""

import time
from collections.abc import Iterator

import pytest

from tests.security.sandbox.clients import Caller, serving


@pytest.fixture(scope="module")
def caller() -> Iterator[Caller]:
    with serving() as (ours, _):
        yield ours


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT 1" + " AND 1" * 30_000, "30000 ANDs and ORs"),
        ("SELECT 1 WHERE 1 = 1" + "\nor(1=2)" * 20_000, "20000 ANDs and ORs"),
    ],
    ids=["and", "or"],
)
def test_text_that_would_stop_the_server_for_seconds_is_refused_at_once(caller, text, reason):
    begun = time.process_time()
    answer = caller.run(text)
    assert answer.status == "INVALID_ARGUMENT"
    assert reason in answer.message
    assert time.process_time() - begun < 1.0  # parsing takes 2.8 s where nothing else runs


def test_thousands_of_conditions_are_fine(caller):
    answer = caller.run("SELECT i FROM range(3) r(i) WHERE i = 1" + " OR i = 1" * 2_000)
    assert answer.status == "OK", answer.message
