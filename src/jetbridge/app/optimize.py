"""Runs `jetbridge optimize` on one table of a lake."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from jetbridge.app.compose import open_application
from jetbridge.config import Config
from jetbridge.errors import BadRequest

# Catalogs of this type can be optimized.
KIND = "lake"


@dataclass(frozen=True)
class OptimizeRequest:
    """Name a table and what to do with it; None leaves the layout as it is."""

    catalog: str
    schema: str
    table: str
    older_than: timedelta
    upgrade: bool = False
    partition_by: str | None = None
    sort_by: str | None = None


def optimize_table(
    config: Config,
    request: OptimizeRequest,
    *,
    verbose: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Sequence[tuple[str, str, str]]:
    """Optimize a table and return what it consisted of, before and after.

    `progress` gets a line for each step. Raises BadRequest for another type of catalog, NotFound,
    FailedPrecondition if the extra `lake` is missing, and Unavailable.
    """
    config = replace(config, catalogs={request.catalog: config.catalogs[request.catalog]})
    with open_application(config, verbose=verbose) as application:
        # The extra `lake` brings what these need.
        from jetbridge.backends.lake.catalog import LakeCatalog  # noqa: PLC0415
        from jetbridge.backends.lake.maintenance.optimize import (  # noqa: PLC0415
            OptimizeOptions,
            optimize,
        )

        catalog = application.catalogs[request.catalog]
        if not isinstance(catalog, LakeCatalog):
            raise BadRequest(f"catalog {request.catalog!r} is not a lake, which optimize needs")
        catalog.load_schema(request.schema).load_table(request.table)
        progress("starting Spark")
        catalog.lake.warehouse.engine.start()
        options = OptimizeOptions(
            older_than=request.older_than,
            upgrade=request.upgrade,
            partition_by=request.partition_by,
            sort_by=request.sort_by,
        )
        return optimize(catalog.lake, request.schema, request.table, options, progress)
