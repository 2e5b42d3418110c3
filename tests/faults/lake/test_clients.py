"""Ten clients at once on the tables of a lake."""

import logging
from collections import Counter

import pytest

from tests.faults.lake.clients import check_one_after_the_other, create, run_all
from tests.faults.lake.process import LakeServer
from tests.faults.leftovers import leftovers

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group("lake-server")]

log = logging.getLogger(__name__)

CLIENTS = 10
SEED = 4


def check(server: LakeServer, statements: int) -> None:
    with server.client() as client:
        create(client)
        members = run_all(server.location, CLIENTS, statements, SEED)
        done = sum((member.done for member in members), Counter())
        log.info("%s", done)
        check_one_after_the_other(client, members)
    assert not done["given up"]
    assert sum(done.values()) - done["conflict"] == CLIENTS * statements
    server.order("sweep")
    assert leftovers(server.warehouse) == []


@pytest.mark.full
def test_ten_clients_leave_what_one_order_of_their_statements_would(lake_server):
    check(lake_server, 3)


@pytest.mark.soak
def test_ten_clients_of_fifty_statements_leave_what_one_order_would(lake_server):
    check(lake_server, 50)
