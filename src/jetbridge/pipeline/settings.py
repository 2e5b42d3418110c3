"""What SET, `--set` and the configuration decide about statements: one row for each name."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jetbridge.errors import BadRequest

NO_EFFECT = "it has no effect here"
ENGINES = ("auto", "spark", "duckdb")
DIALECTS = ("duckdb", "spark")
# Names of one kind of catalog begin alike.
_NEAR = 0.8
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass(frozen=True)
class Settings:
    """`spark_from`: bytes of the tables a query reads, from which `auto` takes Spark for it."""

    engine: str = "auto"
    dialect: str = "duckdb"
    spark_from: int = 2 * 2**30

    def for_clients(self) -> "Settings":
        """They write DuckDB's SQL: what Spark would do with other text nobody has proved."""
        if self.dialect != DIALECTS[0]:
            raise BadRequest("dialect = spark is for the local command only")
        return self

    def changed(self, name: str, value: str | None) -> "Settings":
        """With another value, None for the first one; raises BadRequest with what is allowed."""
        rule = _rule(name)
        found = getattr(_DEFAULTS, rule.field) if value is None else rule.read(value)
        return replace(self, **{rule.field: found})

    def shown(self, name: str) -> str:
        return str(getattr(self, _rule(name).field))


@dataclass(frozen=True)
class Rule:
    field: str
    read: Callable[[str], Any]
    about: str


def _one_of(name: str, allowed: tuple[str, ...]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.lower() not in allowed:
            raise BadRequest(f"{name} = {value!r}: allowed are {', '.join(allowed)}")
        return value.lower()

    return read


def _bytes(name: str) -> Callable[[str], int]:
    return partial(byte_count, name)


def byte_count(name: str, value: str) -> int:
    text = value.replace("_", "").replace(" ", "")
    number = text.rstrip("BIKMGTbikmgt")
    unit = text[len(number) :].upper()
    if not number.isdecimal() or unit not in _UNITS:
        raise BadRequest(f"{name} = {value!r}: must be a number of bytes, as 500MB or 2GiB")
    return int(number) * _UNITS[unit]


RULES: Mapping[str, Rule] = {
    "engine": Rule(
        "engine",
        _one_of("engine", ENGINES),
        "who runs queries: `duckdb`, `spark` (refuses what it cannot do just as DuckDB), or `auto`",
    ),
    "dialect": Rule(
        "dialect",
        _one_of("dialect", DIALECTS),
        "`spark`: queries are Spark SQL, unchanged; for the local command only",
    ),
    "spark_from": Rule(
        "spark_from",
        _bytes("spark_from"),
        "bytes of the tables a query reads from which `auto` takes Spark",
    ),
}
_DEFAULTS = Settings()


def refuse_unknown(name: str, others: Iterable[str]) -> None:
    """Raises BadRequest for a name that is neither one of these rules nor one of the others."""
    known = [*RULES, *others]
    if name.lower() in known:
        return
    near = difflib.get_close_matches(name.lower(), known, cutoff=_NEAR)
    meant = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise BadRequest(f"there is no setting {name!r}{meant} Known are {', '.join(known)}")


def _rule(name: str) -> Rule:
    refuse_unknown(name, ())
    return RULES[name.lower()]
