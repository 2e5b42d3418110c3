"""Reads the TOML file and the flags that override it into frozen values.

`ConfigError` reports what is wrong before anything starts: it names the file, the key, the value
and what is allowed. Every key is a field of a class in `model` and a row of a table of rules.
docs/reference/configuration.md lists them, and a test compares the two. This room knows no type of
catalog: `jetbridge.app.configuration` passes the backends in.
"""

from jetbridge.config.credentials import load_tokens
from jetbridge.config.load import TABLES, refuse_open_door
from jetbridge.config.model import (
    CatalogConfig,
    Config,
    ConfigError,
    Credentials,
    ServerConfig,
    SqlConfig,
)
from jetbridge.config.rules import RULES

__all__ = [
    "RULES",
    "TABLES",
    "CatalogConfig",
    "Config",
    "ConfigError",
    "Credentials",
    "ServerConfig",
    "SqlConfig",
    "load_tokens",
    "refuse_open_door",
]
