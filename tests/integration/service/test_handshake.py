"""Handshakes come before any token, so strangers must gain nothing by them."""

import threading
from collections.abc import Iterator

import grpc
import pytest
from pyarrow import flight

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.service import Server, Token
from tests.helpers.raw import Raw

ADA = "ada's token"


@pytest.fixture
def secured() -> Iterator[Server]:
    with Server({"memory": MemoryCatalog()}, port=0, tokens=[Token("ada", ADA)]) as server:
        server.start()
        yield server


def test_handshake_answers_before_the_caller_half_closes(secured):
    class Payload(flight.ClientAuthHandler):  # type: ignore[misc]
        def authenticate(self, outgoing, incoming):
            outgoing.write(ADA)
            self.answer = incoming.read()

        def get_token(self):
            return self.answer

    with flight.connect(secured.location) as caller:
        handler = Payload()
        caller.authenticate(handler, flight.FlightCallOptions(timeout=10))
    assert handler.answer == ADA.encode()


def test_handshakes_that_say_nothing_leave_room_for_others(secured):
    silent = threading.Event()

    def nothing() -> Iterator[bytes]:
        silent.wait(30)
        yield from ()

    with (
        Raw(secured.location) as stranger,
        Raw(secured.location, ("authorization", f"Bearer {ADA}")) as ada,
    ):
        waiting = [stranger.both_ways("Handshake", nothing()) for _ in range(40)]
        refused = [call for call in waiting[16:] if call.code() is grpc.StatusCode.OK]
        ada.action("catalog_version", {"catalog_name": "memory"})
        silent.set()
        for call in waiting:
            call.cancel()
    assert refused == []
