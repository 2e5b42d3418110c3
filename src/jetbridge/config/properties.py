"""Settings that are not ours: their names are dotted, their values are text, some are secret."""

import os
from collections.abc import Iterator, Mapping

from jetbridge.config.model import ConfigError

# What a key ends with whose value is the name of an environment variable.
FROM_ENVIRONMENT = "_env"


def settings(source: str, prefix: str, given: Mapping[str, object]) -> dict[str, str]:
    """The values of nested tables by their dotted names, as text.

    `a.b = 1`, `"a.b" = 1` and a table `a` with a key `b` are the same. `a.b_env = "VAR"` takes the
    value of `a.b` from the environment. No message shows a value: it may be a secret.
    """
    found: dict[str, str] = {}
    for name, value in _leaves("", given):
        key = prefix + name
        meant = name.removesuffix(FROM_ENVIRONMENT)
        if meant in found:
            raise ConfigError(source, key, f"sets {meant!r} a second time")
        found[meant] = _text(source, key, value) if meant == name else variable(source, key, value)
    return found


def _leaves(prefix: str, given: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in given.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def _text(source: str, key: str, value: object) -> str:
    if isinstance(value, list):
        raise ConfigError(source, key, "must be one value, not a list")
    return str(value).lower() if isinstance(value, bool) else str(value)


def variable(source: str, key: str, name: object) -> str:
    """The value of an environment variable, which no message shows."""
    if not isinstance(name, str) or not name:
        raise ConfigError(source, key, "must be the name of an environment variable, in quotes")
    if name not in os.environ:
        raise ConfigError(source, key, f"= {name!r}: the environment has no such variable; set it")
    return os.environ[name]
