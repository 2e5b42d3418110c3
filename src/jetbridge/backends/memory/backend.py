"""Describes the catalogs of type `memory`."""

from jetbridge.backends.memory.catalog import MemoryCatalog
from jetbridge.catalog.backend import AttachRequest, Backend, CatalogTable, SharedResources
from jetbridge.config.model import CatalogConfig
from jetbridge.config.rules import refuse_unknown

KIND = "memory"


def load_config(table: CatalogTable[CatalogConfig]) -> CatalogConfig:
    """Check a table `[catalogs.NAME]`, which has no keys but `type`; raises ConfigError."""
    refuse_unknown(table.source, f"{table.key}.", table.values, ["type"])
    return CatalogConfig(KIND)


def config_for_attach(_: AttachRequest) -> CatalogConfig:
    """Return the configuration for ATTACH, which ignores the location."""
    return CatalogConfig(KIND)


def open_catalog(_: str, __: CatalogConfig, resources: SharedResources) -> MemoryCatalog:
    """Return a new catalog without schemas."""
    limits = resources.limits
    return MemoryCatalog(
        total_history_bytes=limits.history_bytes,
        spill_bytes=limits.spill_bytes,
        staged_bytes=limits.staged_bytes,
    )


BACKEND = Backend(
    kind=KIND,
    load_config=load_config,
    config_for_attach=config_for_attach,
    open=open_catalog,
    is_durable=False,
)
