"""Runs the statements that clients of a server send by `run`."""

from collections.abc import Iterable, Mapping
from typing import Any

from jetbridge.app.run_function import Execute
from jetbridge.app.statement_memory import StatementMemory
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.pipeline.settings import byte_count


def statements_for_clients(
    config: Config,
    resources: SharedResources,
    catalogs: Mapping[str, Catalog],
    processes: StatementProcesses,
) -> Execute:
    """Return a function that runs statements over these catalogs and yields a report for each."""
    limit = byte_count("sql.memory_limit", config.sql.memory_limit)
    memory = StatementMemory(limit, config.limits, len(config.credentials.tokens))

    def execute(
        text: str, catalog: str, may_use: frozenset[str] | None, owner: str
    ) -> Iterable[dict[str, Any]]:
        # The pipeline takes half a second to import, which a server need not wait for.
        from jetbridge.app.sessions import client_reports  # noqa: PLC0415

        with memory.reserve(owner) as share:
            yield from client_reports(
                config, resources, catalogs, text, catalog, may_use, share, processes
            )

    return execute
