"""The TOML file and the flags that override it, as frozen values.

Whatever is wrong is said here, before anything starts: `ConfigError` names the file, the key, the
value and what is allowed. Every key is a field of a struct in `values` and a row of a rule table;
docs/reference/configuration.md lists them, and a test compares the two.
"""

from jetbridge.config.catalogs import LAKE_RULES
from jetbridge.config.credentials import load_tokens
from jetbridge.config.load import TABLES, load_config, refuse_open_door
from jetbridge.config.model import (
    CatalogConfig,
    Config,
    ConfigError,
    Credentials,
    LakeConfig,
    MssqlConfig,
    ServerConfig,
    SqlConfig,
)
from jetbridge.config.mssql import MSSQL_DEFAULTS
from jetbridge.config.rules import RULES

__all__ = [
    "LAKE_RULES",
    "MSSQL_DEFAULTS",
    "RULES",
    "TABLES",
    "CatalogConfig",
    "Config",
    "ConfigError",
    "Credentials",
    "LakeConfig",
    "MssqlConfig",
    "ServerConfig",
    "SqlConfig",
    "load_config",
    "load_tokens",
    "refuse_open_door",
]
