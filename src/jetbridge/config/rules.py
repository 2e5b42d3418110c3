"""What a value must be: one rule a key."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from jetbridge.config.model import ConfigError

MAX_PORT = 65_535
# The client cannot put more into one gRPC message (its length is a signed 32-bit number).
MAX_MESSAGE_BYTES = 2**31 - 1
MAX_COUNT = 2**63 - 1
SIZE = re.compile(r"[0-9]+ ?(?:[KMGT]i?)?B", re.IGNORECASE)


class InvalidValue(Exception):  # noqa: N818 - never leaves this package
    """What the value must be; `checked` adds where it stands and what it is."""


Rule = Callable[[object, Path], Any]


def whole(low: int, high: int = MAX_COUNT) -> Rule:
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


def _some_seconds(value: object, base: Path) -> float:
    number = _seconds(value, base)
    if not number:
        raise InvalidValue("must be a number of seconds, more than 0")
    return number


def _host(value: object, _: Path) -> str:
    if not isinstance(value, str) or not value or not value.isascii() or set(value) & set(" /[]"):
        raise InvalidValue("must be a host name or an IP address")
    return value


def _file(value: object, base: Path) -> Path:
    """Relative paths start at the directory of the configuration file."""
    if not isinstance(value, str) or not value:
        raise InvalidValue("must be the path of a file, in quotes")
    path = base / Path(value).expanduser()
    if not path.is_file():
        raise InvalidValue(f"must be a file that exists; there is none at {path}")
    return path


def truth(value: object, _: Path) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue("must be true or false")
    return value


def _folders(value: object, base: Path) -> tuple[Path, ...]:
    """Relative ones start at the directory of the configuration file."""
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidValue("must be a list of folders, each in quotes")
    found = tuple((base / Path(each).expanduser()).absolute() for each in value)
    for folder in found:
        if not folder.is_dir():
            raise InvalidValue(f"must be folders that exist; there is none at {folder}")
    return found


def _size(value: object, _: Path) -> str:
    if not isinstance(value, str) or not SIZE.fullmatch(value):
        raise InvalidValue('must be a number and a unit, as "2GB" or "512MiB"')
    return value


def one_of(*allowed: str) -> Rule:
    def rule(value: object, _: Path) -> str:
        if value not in allowed:
            raise InvalidValue(f"must be one of {', '.join(allowed)}")
        return str(value)

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
        "open_handshake": truth,
        "open_health": truth,
        "open_reflection": truth,
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
        "first_message_seconds": _some_seconds,
        "open_calls": whole(1),
        "statement_seconds": _some_seconds,
        "calls_per_token": whole(1),
        "exchanges_per_token": whole(1),
        "scans_per_token": whole(1),
        "staged_bytes_per_token": whole(1),
        "statement_seconds_per_token": _some_seconds,
        "history_bytes": whole(0),
    },
    "sql": {
        "clients": truth,
        "files": truth,
        "folders": _folders,
        "memory_limit": _size,
        "engine": one_of("auto", "spark", "duckdb"),
        "spark_from": _size,
    },
}


def table(source: str, key: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(source, key, f"= {value!r}: must be a table, [{key}]")
    return value


def refuse_unknown(source: str, prefix: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            listed = ", ".join(known) or "none"
            raise ConfigError(source, prefix + name, f"is not a known key; {hint}Known: {listed}")


def checked(
    source: str, prefix: str, given: Mapping[str, object], rules: Mapping[str, Rule], base: Path
) -> dict[str, Any]:
    refuse_unknown(source, prefix, given, rules)
    values = {}
    for name, value in given.items():
        try:
            values[name] = rules[name](value, base)
        except InvalidValue as refused:
            raise ConfigError(source, prefix + name, f"= {value!r}: {refused}") from None
    return values
