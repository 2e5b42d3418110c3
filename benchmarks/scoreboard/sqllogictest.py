"""Reads sqllogictest files: the statements in order, with loops unrolled."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_AVAILABLE = frozenset(
    ("json", "parquet", "core_functions", "icu", "skip_reload", "vector_size", "64bit")
    + ("noforcestorage", "nothreadsan", "no_latest_storage", "no_alternative_verify")
)
_LOOPS = ("loop", "foreach", "concurrentloop", "concurrentforeach")
_LARGEST_LOOP = 20
_LISTS = {
    "<integral>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint",
    "<signed>": "tinyint smallint integer bigint hugeint",
    "<unsigned>": "utinyint usmallint uinteger ubigint uhugeint",
    "<numeric>": "tinyint smallint integer bigint hugeint utinyint usmallint uinteger ubigint "
    "float double",
    "<alltypes>": "bool interval varchar tinyint smallint integer bigint hugeint float double",
}


@dataclass(frozen=True)
class Record:
    """A statement: `kind` is "query", "ok" or "error"."""

    kind: str
    sql: str
    connection: str = ""


class Skipped(Exception):
    """Raised for a file that needs what is not here."""


def records(path: Path, variables: Mapping[str, str]) -> Iterator[Record]:
    """Yield the statements of a file; raise `Skipped` if it needs other extensions."""
    lines = path.read_text(errors="replace").splitlines()
    yield from _block(lines, dict(variables))


def _block(lines: list[str], variables: dict[str, str]) -> Iterator[Record]:
    at = 0
    while at < len(lines):
        first, *rest = lines[at].split() or [""]
        if first in _LOOPS:
            end = _end_of_loop(lines, at)
            yield from _loop(rest, lines[at + 1 : end], variables)
            at = end + 1
        elif first in ("statement", "query"):
            sql, at = _text(lines, at + 1)
            yield _record(first, rest, _filled(sql, variables))
        elif first in ("skipif", "onlyif"):
            _, at = _text(lines, at + 2)
        elif first == "halt":
            return
        else:
            _check_requirement(first, rest)
            at += 1


def _record(first: str, rest: list[str], sql: str) -> Record:
    if first == "query":
        return Record("query", sql, next((w for w in rest[1:] if w.startswith("con")), ""))
    kind = rest[0] if rest else "ok"
    return Record("error" if kind != "ok" else kind, sql, rest[1] if len(rest) > 1 else "")


def _text(lines: list[str], at: int) -> tuple[str, int]:
    """Return the SQL from a line on, and where its record ends."""
    start = at
    while at < len(lines) and lines[at].strip() and lines[at].strip() != "----":
        at += 1
    sql = "\n".join(lines[start:at])
    while at < len(lines) and lines[at].strip():
        at += 1
    return sql, at


def _filled(sql: str, variables: Mapping[str, str]) -> str:
    for name, value in variables.items():
        sql = sql.replace(f"${{{name}}}", value).replace(f"__{name}__", value)
        sql = sql.replace(f"{{{name}}}", value)
    return sql


def _loop(rest: list[str], body: list[str], variables: dict[str, str]) -> Iterator[Record]:
    name, *values = rest
    if len(values) == 2 and all(value.lstrip("-").isdigit() for value in values):
        values = [str(number) for number in range(int(values[0]), int(values[1]))]
    values = [one for value in values for one in _LISTS.get(value, value).split()]
    for value in values[:_LARGEST_LOOP]:
        yield from _block(body, {**variables, name: value})


def _end_of_loop(lines: list[str], at: int) -> int:
    depth = 0
    for number in range(at, len(lines)):
        first = (lines[number].split() or [""])[0]
        depth += (first in _LOOPS) - (first == "endloop")
        if depth == 0:
            return number
    raise Skipped("a loop without end")


def _check_requirement(first: str, rest: list[str]) -> None:
    if first == "require" and rest[0] not in _AVAILABLE:
        raise Skipped(f"require {rest[0]}")
    if first in ("require-env", "load", "restart", "test-env"):
        raise Skipped(first)
