"""Chooses where the rows of queries on Spark go."""

import tempfile
from collections.abc import Callable, Iterable

from jetbridge.catalog import CanSpool, Catalog, SpoolFolder, supports
from jetbridge.config import Config
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.runtime.temporary_folders import TemporaryFolder
from jetbridge.spark import SparkEngine
from jetbridge.spark.settings import is_local


def spark_runner(
    config: Config, engine: SparkEngine | None, catalogs: Iterable[Catalog]
) -> SparkRunner | None:
    """Return what runs queries on Spark, or None without Spark.

    Rows go into a folder that a catalog owns, or else, on a cluster, to a location that a catalog
    writes. Otherwise they go into a folder that a catalog names, or the temporary directory.
    """
    if engine is None:
        return None
    on_cluster = not is_local(config.spark)
    folders = [c.spool_folder() for c in catalogs if supports(c, CanSpool)]
    folder = _choose([folder for folder in folders if folder is not None], on_cluster=on_cluster)
    location = folder.location if folder else ""
    if folder and folder.prefix:
        return SparkRunner(engine, location, folder.prefix, folder.spool)
    prefix = _temporary_prefix(location, shared=on_cluster)
    return SparkRunner(engine, location or tempfile.gettempdir(), prefix)


def _choose(folders: list[SpoolFolder], *, on_cluster: bool) -> SpoolFolder | None:
    owned = [folder for folder in folders if folder.prefix and folder.spool is None]
    with_spool = [folder for folder in folders if folder.spool is not None] if on_cluster else []
    named = [folder for folder in folders if folder.prefix is None]
    return next(iter([*owned, *with_spool, *named]), None)


def _temporary_prefix(folder: str, *, shared: bool) -> Callable[[], str]:
    """Return a function that returns the beginning of a name in a temporary folder of ours.

    The folder is created for the first rows. A later process removes it if this one is killed.
    """
    mode = 0o777 if shared else 0o700  # workers of a cluster may run as another user
    created: list[TemporaryFolder] = []

    def prefix() -> str:
        if not created:
            try:
                created.append(TemporaryFolder("spool", folder or None, mode=mode))
            except OSError as error:
                raise FailedPrecondition(
                    f"rows cannot be spooled in {folder or tempfile.gettempdir()}: "
                    f"{error.strerror or error}; choose another folder with `spool`"
                ) from error
        return f"{created[0].path.name}/rows"

    return prefix
