"""Reads the properties of Spark and Iceberg: dotted names with texts, some of them secret."""

import os
from collections.abc import Iterator, Mapping

from jetbridge.config.model import ConfigError

# A key with this ending has the name of an environment variable for its value.
FROM_ENVIRONMENT = "_env"


def read_properties(source: str, prefix: str, values: Mapping[str, object]) -> dict[str, str]:
    """Return the values of nested tables by their dotted names, as text; raises ConfigError.

    `a.b = 1`, `"a.b" = 1` and a table `a` with a key `b` are the same. `a.b_env = "VAR"` takes the
    value of `a.b` from the environment. No error shows a value, which may be a secret.
    """
    properties: dict[str, str] = {}
    for name, value in _leaves("", values):
        key = prefix + name
        real_name = name.removesuffix(FROM_ENVIRONMENT)
        if real_name in properties:
            raise ConfigError(source, key, f"sets {real_name!r} a second time")
        if real_name == name:
            properties[name] = _text(source, key, value)
        else:
            properties[real_name] = environment_variable(source, key, value)
    return properties


def _leaves(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _text(source: str, key: str, value: object) -> str:
    if isinstance(value, list):
        raise ConfigError(source, key, "must be one value, not a list")
    return str(value).lower() if isinstance(value, bool) else str(value)


def environment_variable(source: str, key: str, name: object) -> str:
    """Return the value of an environment variable; no error shows it. Raises ConfigError."""
    if not isinstance(name, str) or not name:
        raise ConfigError(source, key, "must be a string, the name of an environment variable")
    if name not in os.environ:
        raise ConfigError(source, key, f"= {name!r}: the environment has no such variable; set it")
    return os.environ[name]
