"""The server answers every mutated request with a proper error and keeps its state."""

from contextlib import ExitStack

import pyarrow as pa
import pytest

from jetbridge.errors import LimitExceeded
from tests.faults.service.barrage import CONFIG, EXCHANGES, POOL, Barrage, Outcome
from tests.helpers.peers import ServerProcess
from tests.helpers.waiting import wait_until

WARM_UP = 2_000
ROUND = 2_000
SEED = 3
ROWS = pa.schema([("id", pa.int64())])
# Measured: 40 MiB, all of it in native allocators (no Arrow buffer and no Python object is left),
# and 100 MiB after 60,000. A leak of 10 KB a request would show.
MARGIN = 80 * 1024 * 1024


@pytest.fixture
def barrage(tmp_path):
    with ServerProcess(tmp_path, CONFIG) as server, Barrage(server, SEED) as running:
        yield running


def bombard(barrage: Barrage, first: int, count: int, outcome: Outcome) -> None:
    """Send requests in rounds, each with a new catalog, so that data does not accumulate."""
    for start in range(first, first + count, ROUND):
        barrage.prepare()
        barrage.run(start, min(ROUND, first + count - start), outcome)
        barrage.clean_up()


def settled(barrage: Barrage) -> tuple[int, int, int]:
    """Return memory, threads and open files without expired transactions.

    A new transaction removes those that have expired.
    """
    server = barrage.server
    wait_until(lambda: barrage.client.create_transaction() and not server.spilled, step=0.1)
    return server.rss, server.threads, server.files


def every_place_is_free(barrage: Barrage) -> bool:
    """Check that no call hangs: it would keep a thread of the pool."""
    barrage.client.create_schema("places")
    barrage.client.create_table("places", "t", ROWS)
    try:
        with ExitStack() as stack:
            for _ in range(EXCHANGES):
                held = barrage.client.exchange("insert", "places", "t", ROWS)
                stack.callback(held.cancel)
    except LimitExceeded:
        return False
    finally:
        barrage.client.drop_table("places", "t")
        barrage.client.drop_schema("places")
    return True


def survive(barrage: Barrage, requests: int, margin: int = MARGIN) -> dict:
    outcome = Outcome()
    bombard(barrage, 0, WARM_UP, outcome)
    rss, threads, files = settled(barrage)
    bombard(barrage, WARM_UP, requests, outcome)
    rss_after, threads_after, files_after = settled(barrage)
    assert outcome.problems == []
    assert sum(outcome.codes.values()) == WARM_UP + requests
    assert barrage.server.process.poll() is None
    assert barrage.client.health() == "SERVING"
    assert "Traceback" not in barrage.server.log.read_text()
    assert rss_after - rss < margin
    assert threads_after <= threads + POOL
    wait_until(lambda: every_place_is_free(barrage))
    assert files_after <= files + 2
    return {"codes": dict(outcome.codes), "rss_growth": rss_after - rss}


@pytest.mark.parametrize("requests", [500, pytest.param(5_000, marks=pytest.mark.full)])
def test_mutated_requests_get_proper_errors_and_leave_no_trace(barrage, requests):
    survive(barrage, requests)
