"""Describes the catalogs of type `mssql`."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from jetbridge.backends.mssql.config import (
    MSSQL_KEYS,
    MssqlConfig,
    config_for_attach,
    load_config,
    parse_secret,
    recognizes,
)
from jetbridge.backends.mssql.settings import IGNORED_SETTINGS, SETTINGS
from jetbridge.catalog.backend import Backend, SharedResources

if TYPE_CHECKING:
    from jetbridge.backends.mssql.catalog import MssqlCatalog

PACKAGES = {"mssql_python": "mssql-python", "mssql_py_core": "mssql-python-rs"}


def open_catalog(name: str, config: MssqlConfig, resources: SharedResources) -> "MssqlCatalog":
    """Return a catalog that connects when it is first used; raises ImportError."""
    # The driver comes with the extra `mssql`.
    from jetbridge.backends.mssql.catalog import MssqlCatalog, SpoolOptions  # noqa: PLC0415

    # Without the extra `lake` there is no Spark, and one connection loads all rows.
    engine = resources.engine if find_spec("pyspark") else None
    options = SpoolOptions(
        spool=config.spool,
        shared=engine is not None and not engine.is_local,
        staged_bytes=resources.limits.staged_bytes,
    )
    return MssqlCatalog(
        name, config.address, settings=config.settings, engine=engine, options=options
    )


BACKEND = Backend(
    kind="mssql",
    extra="mssql",
    packages=PACKAGES,
    keys=MSSQL_KEYS,
    settings=SETTINGS,
    values_of_settings=lambda config: config.settings.by_name(),
    ignored_settings=IGNORED_SETTINGS,
    load_config=load_config,
    config_for_attach=config_for_attach,
    parse_secret=parse_secret,
    recognizes=recognizes,
    open=open_catalog,
    uses_spark="for large loads",
)
