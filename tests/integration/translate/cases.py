"""The cases of every verified translation: one for each combination of types it takes."""

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb

from jetbridge.dialects.quoting import literal
from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.match import filled
from tests.helpers.edge_values import REPRESENTATIVES, VALUES, typed

# How many values of the other arguments go with all values of the first, by number of arguments.
FEW = {1: 0, 2: 0, 3: 8, 4: 3}
DECIMALS = (
    "DECIMAL(9,2)",
    "DECIMAL(18,4)",
    "DECIMAL(38,6)",
    "DECIMAL(5,0)",
    "DECIMAL(10,1)",
    "DECIMAL(12,3)",
)
TYPES = tuple(VALUES)


@dataclass(frozen=True)
class Case:
    entry: Entry
    types: tuple[str, ...]  # of the arguments that are columns
    duckdb: str
    arguments: tuple[str, ...]  # in Spark SQL
    template: str  # in Spark SQL
    result: str = ""  # the type that DuckDB plans

    @property
    def spark_sql(self) -> str:
        return filled(self.entry, self.arguments, self.result, self.template)

    def __str__(self) -> str:
        return f"{self.duckdb} ({', '.join(self.types)})"


def column(position: int, duckdb_type: str) -> str:
    return f"c{position}_{TYPES.index(duckdb_type)}"


def cases_of(entry: Entry) -> Iterator[Case]:
    """Yield the cases of an entry; KeyError means that a kind has no edge values."""
    choices: list[list[tuple[str | None, Any]]] = []
    for position, kinds in enumerate(entry.takes):
        if position in entry.constants:
            choices.append([(None, each) for each in entry.examples[position]])
        else:
            choices.append([(each, None) for each in _types(kinds)])
    for chosen in itertools.product(*choices):
        for pattern in _patterns(entry.duckdb):
            yield _case(entry, pattern, chosen)


def some_of(cases: Iterable[Case], most: int) -> list[Case]:
    """Return all, or always the same sample of them; `make soak` takes all."""
    found = list(cases)
    if len(found) <= most:
        return found
    return random.Random(found[0].entry.duckdb + found[0].entry.spark).sample(found, most)


def _types(kinds: frozenset[str]) -> list[str]:
    named = [each for kind in sorted(kinds) for each in REPRESENTATIVES.get(kind, (kind,))]
    return [TYPES[TYPES.index(each)] for each in named]


def _patterns(pattern: str) -> Iterator[str]:
    if "AS DECIMAL)" not in pattern:
        yield pattern
        return
    for each in DECIMALS:
        yield pattern.replace("AS DECIMAL)", f"AS {each})")


def _case(entry: Entry, pattern: str, chosen: Sequence) -> Case:
    """Number the columns without the constants."""
    types: list[str] = []
    arguments: list[str] = []
    for position, (duckdb_type, value) in enumerate(chosen):
        mark = f"{{{position}}}"
        if duckdb_type is None:
            theirs = entry.constants[position](value)
            assert theirs is not None, f"{value!r} is an example, but not translated"
            pattern = pattern.replace(mark, literal(value))
            arguments.append(theirs)
        else:
            name = column(len(types), duckdb_type)
            types.append(duckdb_type)
            pattern = pattern.replace(mark, name)
            arguments.append(name)
    return Case(entry, tuple(types), pattern, tuple(arguments), entry.spark)


@cache
def connected() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for arity in FEW:
        connection.execute(f"CREATE TABLE args{arity} AS {_product(arity)}")
    return connection


def _product(arity: int) -> str:
    """Return all combinations of the values, for all types beside each other."""
    parts = [f"({values(at, FEW[arity] if at else 0)}) p{at}" for at in range(arity)]
    columns = ", ".join(f"p{at}.* EXCLUDE (n)" for at in range(arity))
    return f"SELECT row_number() OVER () AS row, {columns} FROM {', '.join(parts)}"


def values(position: int, most: int = 0) -> str:
    """Return the values of all types, numbered; shorter lists begin again."""
    lists = {each: typed(each)[: most or None] for each in TYPES}
    rows = max(len(each) for each in lists.values())
    selects = (
        ", ".join(
            f"{texts[at % len(texts)]} AS {column(position, name)}" for name, texts in lists.items()
        )
        for at in range(rows)
    )
    return " UNION ALL ".join(f"SELECT {n} AS n, {each}" for n, each in enumerate(selects))


def planned(cases: Sequence[Case], relation: str) -> list[Case]:
    """Return cases with the types of their results, without those that do not fit.

    So are those that DuckDB refuses: its types may combine in fewer ways than its kinds.
    """
    text = ", ".join(f"{case.duckdb} AS r{at}" for at, case in enumerate(cases))
    try:
        rows = connected().execute(f"DESCRIBE SELECT {text} FROM {relation}").fetchall()
    except duckdb.BinderException:
        half = len(cases) // 2
        if half == 0:
            return []
        return [*planned(cases[:half], relation), *planned(cases[half:], relation)]
    found = [replace(case, result=row[1]) for case, row in zip(cases, rows, strict=True)]
    return [case for case in found if _fits(case)]


def _fits(case: Case) -> bool:
    if case.entry.fits is None:
        return True
    types = []
    columns = iter(case.types)
    for position in range(len(case.entry.takes)):
        constant = position in case.entry.constants
        types.append("VARCHAR" if constant else next(columns))
    return case.entry.fits(tuple(types), case.result)


def normal(duckdb_type: str) -> str:
    return re.sub(r"\s", "", duckdb_type).upper()
