"""Aggregates and window functions in DuckDB and in Spark, over groups of edge values."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa

from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.entries.entry import around
from jetbridge.pipeline.translate.types import spark_type
from jetbridge.spark.engine import SparkConnection
from tests.helpers.edge_values import typed
from tests.integration.translate.cases import (
    TYPES,
    Case,
    cases_of,
    column,
    connected,
    planned,
    some_of,
    values,
)
from tests.integration.translate.checks import (
    Problems,
    _numbers,
    at_once,
    differences,
    ordered,
    view,
)

TOGETHER = 40
# Rows in which neither the order of additions nor that of equal keys matters.
SAFE = "g <> 'all'"
# One row for each key: the row of NULLs in a group of two may repeat one.
UNTIED = "g <> 'all' AND place > 0"
# The second argument is so many values further in its list.
SHIFT = 2
# Types that have values too large to be added.
MODERATE = ("FLOAT", "DOUBLE", "DECIMAL(38,6)", "HUGEINT")
FRAME = " OVER (PARTITION BY g ORDER BY row ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
FILTER = " FILTER (WHERE row % 2 = 0)"
WINDOW = " OVER (PARTITION BY g ORDER BY row)"


@cache
def table() -> str:
    """Return groups of NULLs only, of one value, of two and a NULL, and of all."""
    longest = max(len(typed(each)) for each in TYPES)
    groups = [("nulls", [0, 0]), ("all", list(range(longest - SHIFT)))]
    for at in range(1, longest - SHIFT - 1):
        groups += [(f"one {at}", [at]), (f"two {at}", [at, 0, at + 1])]
    rows = [(name, at) for name, places in groups for at in places]
    listed = ", ".join(f"({number}, '{g}', {at})" for number, (g, at) in enumerate(rows))
    text = (
        f"SELECT row, g, place, a.* EXCLUDE (n), b.* EXCLUDE (n), {', '.join(_moderate())} "
        f"FROM (VALUES {listed}) m(row, g, place) JOIN ({values(0)}) a ON a.n = place "
        f"JOIN ({values(1)}) b ON b.n = if(place = 0, 0, place + {SHIFT})"
    )
    connected().execute(f"CREATE TABLE groups AS {text}")
    return "groups"


def _moderate() -> Iterator[str]:
    """Yield numbers whose moments and sums both engines can compute."""
    for each in MODERATE:
        name = column(0, each)
        yield f"if(abs({name}) < 1e6, {name}, NULL) AS {name.replace('c', 'm')}"


class Groups:
    def __init__(self, session: SparkConnection) -> None:
        self.session = session
        self.problems: Problems = defaultdict(list)
        view(session, table())

    def check(self, cases: Sequence[Case], how: str) -> None:
        fitting = planned(cases, "groups" + _tail(how)) if cases else []
        at_once(lambda batch: self._check(batch, how), fitting, TOGETHER)

    def _check(self, cases: Sequence[Case], how: str) -> None:
        key = "row" if "OVER" in how else "g"
        duckdb = ", ".join(f"{case.duckdb} AS r{at}" for at, case in enumerate(cases))
        spark = ", ".join(f"{case.spark_sql} AS r{at}" for at, case in enumerate(cases))
        rest = f"FROM groups WHERE {_rows(cases, how)}{_tail(how)}"
        try:
            with connected().cursor() as own:
                own.execute("SET TimeZone = 'UTC'")
                answers = own.execute(f"SELECT {duckdb} {rest} ORDER BY {key}")
                expected = answers.to_arrow_table()
            answer = self.session.sql(f"SELECT {key}, {spark} {rest}")
            found = ordered(answer, key)
        except Exception as error:
            if len(cases) > 1:
                self._check(cases[: len(cases) // 2], how)
                self._check(cases[len(cases) // 2 :], how)
            else:
                self.problems[cases[0].entry].append(f"{cases[0]}{how}: {str(error)[:300]}")
            return
        types = [field.dataType.simpleString() for field in answer.schema.fields[1:]]
        for at, case in enumerate(cases):
            self._compare(case, how, expected.column(at), found.column(at))
            wanted = spark_type(case.result).replace(" ", "").replace("`", "").lower()
            if types[at] != wanted:
                self.problems[case.entry].append(f"{case}{how}: type {types[at]} for {wanted}")

    def _compare(self, case: Case, how: str, a: pa.ChunkedArray, b: pa.ChunkedArray) -> None:
        a, b = _numbers(a), _numbers(b)
        wrong = differences(a, b, loose=case.entry.remark)
        if wrong:
            pairs = [(a[row].as_py(), b[row].as_py()) for row in wrong[:3]]
            text = f"{case}{how}: {len(wrong)} of {len(a)} differ: {pairs}"
            self.problems[case.entry].append(text)


def _rows(cases: Sequence[Case], how: str) -> str:
    if how == "any":
        return "true"
    return UNTIED if _tied(cases[0].entry) else SAFE


def _tied(entry: Entry) -> bool:
    return "tie" in entry.remark


def _tail(how: str) -> str:
    return "" if "OVER" in how else " GROUP BY g"


def decorated(entry: Entry, how: str) -> Iterator[Case]:
    """Yield the cases of an entry with DISTINCT, FILTER or OVER around it."""
    for plain in cases_of(entry):
        case = _with_moderate(plain) if _is_limited(entry) else plain
        if how == " DISTINCT":
            template = around(case.template, distinct=True)
            yield replace(case, duckdb=case.duckdb.replace("(", "(DISTINCT ", 1), template=template)
        elif how.strip() in {"", "any"}:
            yield case
        else:
            template = around(case.template, behind=how)
            yield replace(case, duckdb=case.duckdb + how, template=template)


def _is_limited(entry: Entry) -> bool:
    return "last digits:" in entry.remark or "38 digits" in entry.remark


def _with_moderate(case: Case) -> Case:
    for each in MODERATE:
        name = column(0, each)
        ours = name.replace("c", "m")
        if case.types[0] == each:
            arguments = tuple(ours if each == name else each for each in case.arguments)
            return replace(case, duckdb=case.duckdb.replace(name, ours), arguments=arguments)
    return case


def check_groups(session: SparkConnection, entries: Sequence[Entry], most: int = 16) -> Problems:
    groups = Groups(session)
    for how in ("", "any", " DISTINCT", FILTER, FRAME, WINDOW):
        chosen = [entry for entry in entries if _applies(entry, how)]
        for tied in (False, True):
            entries_ = [entry for entry in chosen if _tied(entry) == tied]
            cases = [case for entry in entries_ for case in some_of(decorated(entry, how), most)]
            groups.check(cases, how)
    return groups.problems


def _applies(entry: Entry, how: str) -> bool:
    if entry.kind == "window":
        return how == WINDOW
    if how == "any":
        return not entry.remark
    if how == " DISTINCT":
        return len(entry.takes) == 1 and not entry.plain_only
    return how == "" or (how != WINDOW and not entry.plain_only)
