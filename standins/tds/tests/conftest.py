"""A server on the wire whose engine is scripted; a module may have another engine."""

from collections.abc import Iterator

import pytest

from standins.tds.server import Server
from standins.tds.tests.scripted import INT, ScriptedEngine, Table
from standins.tds.values import Column, SqlType
from standins.tds.wire.prelogin import Encryption


@pytest.fixture
def engine() -> ScriptedEngine:
    two = (Column("id", INT, nullable=False), Column("v", SqlType("nvarchar", 30)))
    return ScriptedEngine(t=Table(*two))


@pytest.fixture
def server(engine: ScriptedEngine) -> Iterator[Server]:
    with Server(engine, encryption=Encryption.NONE) as running:
        yield running
