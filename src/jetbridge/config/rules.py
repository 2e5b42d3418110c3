"""Checks the values of the configuration file: one rule for each key, and properties of Spark."""

import difflib
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jetbridge.catalog.settings import SESSION_SETTINGS, Setting
from jetbridge.config.model import ConfigError
from jetbridge.errors import BadRequest

MAX_PORT = 65_535
# The client cannot put more into one gRPC message (its length is a signed 32-bit number).
MAX_MESSAGE_BYTES = 2**31 - 1
MAX_COUNT = 2**63 - 1
SIZE = re.compile(r"[0-9]+ ?(?:[KMGT]i?)?B", re.IGNORECASE)


class InvalidValue(Exception):  # noqa: N818 - never leaves this package
    """Say what a value must be; `check_values` adds the key and the value."""


# Takes a value and the folder of the file, returns the checked value, or raises InvalidValue.
Rule = Callable[[object, Path], Any]


def whole(low: int, high: int = MAX_COUNT) -> Rule:
    """Return the rule of a whole number in a range."""
    allowed = f"must be a whole number from {low} to {high}"
    if high == MAX_COUNT:
        allowed = f"must be a whole number, {low} or more"

    def rule(value: object, _: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InvalidValue(allowed)
        return value

    return rule


def _seconds(value: object, _: Path) -> float:
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not (number and math.isfinite(value) and value >= 0):  # type: ignore[arg-type,operator]
        raise InvalidValue("must be a number of seconds, 0 or more")
    return float(value)  # type: ignore[arg-type]


def _positive_seconds(value: object, base: Path) -> float:
    number = _seconds(value, base)
    if not number:
        raise InvalidValue("must be a number of seconds, more than 0")
    return number


def _host(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or set(value) & set(" /[]"):
        raise InvalidValue("must be a host name or an IP address")
    return value


def _file(value: object, base: Path) -> Path:
    """Accept a file that exists; a relative path starts at the folder of the file."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be a string, the path of a file")
    path = base / Path(value).expanduser()
    if not path.is_file():
        raise InvalidValue(f"must be a file that exists; there is none at {path}")
    return path


def boolean(value: object, _: Path) -> bool:
    """Accept true and false."""
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false")
    return value


def _folders(value: object, base: Path) -> tuple[Path, ...]:
    """Accept folders that exist; a relative path starts at the folder of the file."""
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise InvalidValue("must be a list of strings, the paths of folders")
    folders = tuple((base / Path(path).expanduser()).absolute() for path in value)
    for folder in folders:
        if not folder.is_dir():
            raise InvalidValue(f"must be folders that exist; there is none at {folder}")
    return folders


def existing_folder(value: object, base: Path) -> Path:
    """Accept a folder that exists; a relative path starts at the folder of the file."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be a string, the path of a folder")
    folder = (base / Path(value).expanduser()).absolute()
    if not folder.is_dir():
        raise InvalidValue(f"must be a folder that exists; there is none at {folder}")
    return folder


def _size(value: object, _: Path) -> str:
    if not isinstance(value, str) or not SIZE.fullmatch(value):
        raise InvalidValue('must be a number and a unit, such as "2GB" or "512MiB"')
    return value


def one_of(*allowed: str) -> Rule:
    """Return a rule that allows these strings only."""

    def rule(value: object, _: Path) -> str:
        if value not in allowed:
            raise InvalidValue(f"must be one of {', '.join(allowed)}")
        return str(value)

    return rule


def _setting(setting: Setting) -> Rule:
    """Return the rule of a setting: a text, a number or a truth value that SET would take."""

    def rule(value: object, _: Path) -> str:
        if not isinstance(value, str | int):
            raise InvalidValue("must be a string, a whole number, true or false")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            setting.read(text)
        except BadRequest as error:
            raise InvalidValue(str(error)) from None
        return text

    return rule


RULES: Mapping[str, Mapping[str, Rule]] = {
    "server": {
        "host": _host,
        "port": whole(0, MAX_PORT),
        "tokens_file": _file,
        "tls_cert": _file,
        "tls_key": _file,
        "drain_seconds": _seconds,
        "transaction_seconds": _seconds,
        "seal_key_file": _file,
        "open_handshake": boolean,
        "open_health": boolean,
        "open_reflection": boolean,
    },
    "limits": {
        "message_bytes": whole(1024, MAX_MESSAGE_BYTES),
        "request_bytes": whole(1024, MAX_MESSAGE_BYTES),
        "batch_rows": whole(1),
        "concurrent_calls": whole(2),
        "exchanges": whole(1),
        "scans": whole(1),
        "staged_bytes": whole(1),
        "spill_bytes": whole(0),
        "transactions": whole(1),
        "batch_rows_out": whole(1),
        "first_message_seconds": _positive_seconds,
        "open_calls": whole(1),
        "statement_seconds": _positive_seconds,
        "calls_per_token": whole(1),
        "exchanges_per_token": whole(1),
        "scans_per_token": whole(1),
        "staged_bytes_per_token": whole(1),
        "statement_seconds_per_token": _positive_seconds,
        "history_bytes": whole(0),
    },
    "sql": {
        "clients": boolean,
        "files": boolean,
        "folders": _folders,
        "memory_limit": _size,
        "engine": _setting(SESSION_SETTINGS["engine"]),
        "spark_from": _setting(SESSION_SETTINGS["spark_from"]),
    },
}


def check_table(source: str, key: str, value: object) -> dict[str, object]:
    """Return the value of a key that must be a table; raises ConfigError."""
    if not isinstance(value, dict):
        raise ConfigError(source, key, f"= {value!r}: must be a table, [{key}]")
    return value


def refuse_unknown(source: str, prefix: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise ConfigError for the first name that is not known, with a similar one if there is."""
    known = list(known)
    for name in names:
        if name not in known:
            similar = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {similar[0]!r}? " if similar else ""
            listed = ", ".join(known) or "none"
            raise ConfigError(source, prefix + name, f"is not a known key; {hint}Known: {listed}")


def check_values(
    source: str, prefix: str, values: Mapping[str, object], rules: Mapping[str, Rule], base: Path
) -> dict[str, Any]:
    """Return the values of a table as their rules make them; raises ConfigError."""
    refuse_unknown(source, prefix, values, rules)
    checked = {}
    for name, value in values.items():
        try:
            checked[name] = rules[name](value, base)
        except InvalidValue as error:
            raise ConfigError(source, prefix + name, f"= {value!r}: {error}") from None
    return checked


def check_setting(source: str, key: str, setting: Setting, value: object) -> str:
    """Return the value of a setting as the string that SET expects; raises ConfigError."""
    try:
        text: str = _setting(setting)(value, Path())
    except InvalidValue as error:
        raise ConfigError(source, key, f"= {value!r}: {error}") from None
    return text


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
