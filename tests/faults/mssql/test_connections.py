"""Loads into SQL Server that lose connections: at any packet, and at every COMMIT."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.faults.mssql.scene import (
    KINDS,
    LARGE_ONES,
    MILLION,
    SMALL,
    SMALL_ONES,
    Scene,
    Work,
    opened,
)
from tests.helpers import lakes, mssql_server

pytestmark = [
    pytest.mark.mssql,
    pytest.mark.xdist_group("failing-loads"),
    pytest.mark.skipif(mssql_server.is_given(), reason="only the stand-in fails on order"),
]
WORKS = [*LARGE_ONES, *SMALL_ONES]
SEED = 20260


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with opened(lakes.engine(), tmp_path_factory.mktemp("spools"), **SMALL) as there:
        yield there


def events(scene: Scene, work: Work, *kinds: str) -> Counter[str]:
    """Count the events of a load without faults."""
    scene.prepare(work)
    for when in kinds:
        scene.order(when=when, times=None)
    scene.bench.sql(work.statement)
    seen = Counter(fault["when"] for fault in scene.counts()["fired"])
    assert set(seen) == set(kinds)
    return seen


def cut(scene: Scene, work: Work, when: str, at: int, drop: str) -> None:
    scene.prepare(work)
    scene.order(when=when, at=at, drop=drop)
    scene.check(work, scene.attempt(work))


def cut_at_random(scene: Scene, works: Sequence[Work], times: int, seed: str) -> None:
    dice = random.Random(seed)  # noqa: S311 - for the same packets again
    seen = {work: events(scene, work, "received", "sent") for work in works}
    for number in range(times):
        work, drop = dice.choice(works), dice.choice(["reset", "fin"])
        when = dice.choice(["received", "sent"])
        at = dice.randint(1, seen[work][when])
        try:
            cut(scene, work, when, at, drop)
            assert scene.left() == []
        except AssertionError as error:
            error.add_note(f"seed {seed}, cut {number}: {when} {at} of {seen[work][when]}, {drop}")
            raise


@pytest.mark.sampled(4)
@pytest.mark.parametrize("work", WORKS, ids=str)
def test_a_connection_lost_at_any_packet_costs_no_row_and_doubles_none(scene, work):
    cut_at_random(scene, [work], 1, f"{SEED} {work}")
    scene.check_next(work)


@pytest.mark.soak
@pytest.mark.parametrize("work", WORKS, ids=str)
def test_fifty_connections_lost_at_any_packet(scene, work):
    cut_at_random(scene, [work], 50, f"{SEED} fifty {work}")
    scene.check_next(work)


@pytest.mark.soak
def test_fifty_connections_lost_in_loads_of_a_million_rows(tmp_path):
    works = [Work(kind, MILLION) for kind in KINDS]
    with opened(lakes.engine(), tmp_path) as there:
        cut_at_random(there, works, 50, f"{SEED} million")
        there.check_next(works[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("work", WORKS, ids=str)
def test_the_first_and_the_last_commit_happen_once_if_their_answers_are_lost(scene, work):
    """The commit of a part, and the commit that publishes, if the load has parts."""
    for at in {1, events(scene, work, "committed")["committed"]}:
        cut(scene, work, "committed", at, "reset")
    assert scene.left() == []


@pytest.mark.soak
@pytest.mark.parametrize("work", WORKS, ids=str)
def test_every_commit_happens_once_if_its_answer_is_lost(scene, work):
    for at in range(1, events(scene, work, "committed")["committed"] + 1):
        cut(scene, work, "committed", at, "fin")
        scene.check_next(work)
