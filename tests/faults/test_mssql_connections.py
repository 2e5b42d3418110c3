"""Loads into SQL Server whose connections are lost: at any packet, and at every COMMIT."""

import random
from collections.abc import Iterator

import pytest

from tests import lakes, mssql_server
from tests.faults.mssql_scene import SMALL, Scene, Work, opened

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
LARGE = 20_000
FEW = 500
WORKS = [Work(kind, rows) for kind in ("new", "replace", "insert") for rows in (LARGE, FEW)]
MILLION = 1_000_000
SEED = 20260


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools"), **SMALL) as there:
        yield there


def events(scene: Scene, work: Work, when: str) -> int:
    """How many there are of them if nothing goes wrong."""
    scene.prepare(work)
    scene.order(when=when, times=None)
    scene.bench.sql(work.statement)
    seen = scene.fired()
    assert seen
    return seen


def cut(scene: Scene, work: Work, when: str, at: int, drop: str) -> None:
    scene.prepare(work)
    scene.order(when=when, at=at, drop=drop)
    error = scene.attempt(work)
    scene.check(work, error)
    scene.check_next(work)


def cut_at_random(scene: Scene, work: Work, times: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - for the same packets again
    seen = {when: events(scene, work, when) for when in ("received", "sent")}
    for number in range(times):
        when, drop = dice.choice(list(seen)), dice.choice(["reset", "fin"])
        at = dice.randint(1, seen[when])
        try:
            cut(scene, work, when, at, drop)
        except AssertionError as error:
            error.add_note(f"seed {seed}, cut {number}: {when} {at} of {seen[when]}, {drop}")
            raise


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_a_connection_lost_at_any_packet_costs_no_row_and_doubles_none(scene, work):
    cut_at_random(scene, work, 2, SEED)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["new", "replace", "insert"])
def test_fifty_connections_lost_in_loads_of_a_million_rows(tmp_path, kind):
    with opened(lakes.engine(), tmp_path) as there:
        cut_at_random(there, Work(kind, MILLION), 50, SEED + 1)


@pytest.mark.parametrize("work", WORKS, ids=str)
def test_every_commit_whose_answer_is_lost_has_happened_once(scene, work):
    for at in range(1, events(scene, work, "committed") + 1):
        cut(scene, work, "committed", at, "reset")
