"""Call `FROM catalog.jetbridge.run('…')` over the wire, with the Spark that tests share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from jetbridge.app.run_function import statements_for_clients, with_run_function
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.service import Server
from tests.helpers import lakes
from tests.helpers.run_calls import run_sql
from tests.helpers.wire_calls import Answer, Wire, read_rows


@dataclass(frozen=True)
class Caller:
    """Run statements as a client that has attached `catalog`."""

    wire: Wire
    catalog: str

    def ask(self, text: str) -> Answer:
        return run_sql(self.wire, text, self.catalog)

    def run(self, text: str) -> list[dict[str, Any]]:
        """Return a report for each statement; none may fail."""
        found: list[dict[str, Any]] = read_rows(self.ask(text)).to_pylist()
        return found


@contextmanager
def running(
    catalogs: Mapping[str, Catalog], attached: str, config: Config | None = None
) -> Iterator[Caller]:
    """Start a server of these catalogs; the caller attaches one of them."""
    given = config or Config()
    resources = SharedResources(given.limits, lakes.engine())
    with StatementProcesses() as processes:
        execute = statements_for_clients(given, resources, catalogs, processes)
        offered = {name: with_run_function(c, name, execute) for name, c in catalogs.items()}
        with Server(offered, port=0) as server:
            server.start()
            with Wire(server.location) as wire:
                yield Caller(wire, attached)
