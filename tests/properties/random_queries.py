"""Random queries over the random tables, the same ones for the same seed.

They have one answer only: what depends on the order of rows has an order of all rows, and what is
not exact (means, deviations, sums of doubles) is in a column `x`, of which nothing is computed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.properties.random_tables import NAMES, VALUES, letter

Describe = Callable[[str], list[tuple[str, str]]]
# In braces the letter of an expression to be put there; {1} is one letter, chosen for the form.
ANY = (
    *("{1}", "CASE WHEN {b} THEN {1} ELSE {1} END", "coalesce({1}, {1})", "nullif({1}, {1})"),
    *("greatest({1}, {1})", "least({1}, {1}, {1})", "CASE WHEN {b} THEN {1} END"),
    "ifnull({1}, {1})",
)
FORMS: dict[str, tuple[str, ...]] = {
    "i": (
        *("{i} + {i}", "{i} - {i}", "{i} * {i}", "{i} % {i}", "{i} // {i}", "abs({i})", "- {i}"),
        *("length({s})", "year({d})", "month({t})", "date_part('dow', {d})", "strpos({s}, {s})"),
        *("date_diff('day', {d}, {d})", "{d} - {d}", "CAST({m} AS INTEGER)", "sign({i})"),
        *("CAST({b} AS INTEGER)", "TRY_CAST({s} AS INTEGER)", "date_part('hour', {t})"),
        *("ascii({s})", "quarter({t})", "date_part('week', {d})", "date_diff('month', {t}, {t})"),
        *("{i} & {i}", "TRY_CAST({f} AS BIGINT)", "dayofyear({d})"),
    ),
    "m": (
        *("{m} + {m}", "{m} - {m}", "{m} * {i}", "{m} + {i}", "- {m}", "abs({m})", "{m} % {m}"),
        *("CAST({i} AS DECIMAL(18,4))", "CAST({m} AS DECIMAL(12,1))", "round({m}, 1)"),
    ),
    "f": (
        *("{f} + {f}", "{f} - {f}", "{f} * {f}", "{i} / {i}", "{f} / {f}", "{m} / {i}", "- {f}"),
        *("floor({f})", "ceil({f})", "round({f})", "CAST({i} AS DOUBLE)", "CAST({m} AS DOUBLE)"),
        *("sqrt(abs({f}))", "trunc({f})", "TRY_CAST({s} AS DOUBLE)"),
    ),
    "s": (
        *("{s} || {s}", "upper({s})", "lower({s})", "trim({s})", "substring({s}, 1, 2)"),
        *("replace({s}, 'a', 'bc')", "right({s}, 1)", "lpad({s}, 4, '*')", "CAST({i} AS VARCHAR)"),
        *("concat({s}, {s})", "reverse({s})", "repeat({s}, 2)", "split_part({s}, ',', 1)"),
        *("strftime({d}, '%Y-%m-%d')", "CAST({d} AS VARCHAR)", "CAST({b} AS VARCHAR)"),
        *("dayname({d})", "left({s}, 2)", "concat_ws('-', {s}, {s})", "{s}[1:2]", "rtrim({s})"),
        *("md5({s})", "CAST({m} AS VARCHAR)", "strftime({t}, '%H:%M:%S')", "rpad({s}, 3, 'é')"),
        "regexp_replace({s}, '[ab]', 'X', 'g')",
    ),
    "b": (
        *("{1} = {1}", "{1} <> {1}", "{1} < {1}", "{1} >= {1}", "{1} IS NULL", "{1} IS NOT NULL"),
        *("{1} BETWEEN {1} AND {1}", "{1} IN ({1}, {1}, {1})", "{1} NOT IN ({1}, {1})"),
        *("{1} IS DISTINCT FROM {1}", "{1} IS NOT DISTINCT FROM {1}", "{b} AND {b}", "{b} OR {b}"),
        *("NOT {b}", "{i} < {f}", "{m} > {i}", "{f} <= {m}", "{d} < {t}", "{s} LIKE 'a%'"),
        *("{s} NOT LIKE '%b'", "{s} ILIKE '%A_'", "starts_with({s}, {s})", "contains({s}, {s})"),
        *("regexp_matches({s}, '^[a-c]+')", "ends_with({s}, {s})", "isnan({f})", "{t} > {z}"),
    ),
    "d": (
        *(
            "{d} + 31",
            "{d} - 1",
            "CAST({t} AS DATE)",
            "last_day({d})",
            "{d} - CAST({b} AS INTEGER)",
        ),
        "make_date(2024, 2, 29)",
    ),
    "t": (
        *("{t} + INTERVAL 1 DAY", "date_trunc('hour', {t})", "CAST({d} AS TIMESTAMP)"),
        *("{d} - INTERVAL 1 MONTH", "date_trunc('year', {t})", "date_trunc('week', {d})"),
    ),
    "z": ("{z} + INTERVAL 1 HOUR", "date_trunc('day', {z})"),
    "o": (),
}
AGGREGATES = (
    *(
        "count(*)",
        "count({1})",
        "count(DISTINCT {1})",
        "sum({i})",
        "sum({m})",
        "min({1})",
        "max({1})",
    ),
    *(
        "bool_and({b})",
        "bool_or({b})",
        "count(*) FILTER (WHERE {b})",
        "sum({i}) FILTER (WHERE {b})",
    ),
    *(
        "string_agg({text}, ',' ORDER BY {text})",
        "max({i}) - min({i})",
        "sum(DISTINCT {i})",
        "count_if({b})",
    ),
)
# Of columns only: the sums of what is computed are not exact.
INEXACT = ("avg({i})", "avg({m})", "avg({f})", "stddev({i})", "median({i})", "sum({f})")
WINDOWS = (
    *("row_number() OVER ({part} {all})", "rank() OVER ({part} ORDER BY {1})"),
    *("dense_rank() OVER (ORDER BY {1} DESC)", "lag({1}) OVER ({part} {all})"),
    *("lead({1}, 2) OVER ({all})", "first_value({1}) OVER ({part} {all})"),
    *("last_value({1}) OVER ({part} {all} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",),
    *("sum({i}) OVER ({part})", "count(*) OVER ({part} ORDER BY {1})", "ntile(3) OVER ({all})"),
    *("sum({i}) OVER ({part} {all} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",),
    *("max({1}) OVER ({part} ORDER BY {1})", "count({1}) OVER ({part})"),
    "min({1}) OVER ({all} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
)
SHARED = ("i", "m", "f", "s", "b", "d", "t", "z")
T = TypeVar("T")
_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Scope:
    """Hold columns by letter, as a query names them, and those that tell all rows apart."""

    columns: dict[str, list[str]]
    keys: tuple[str, ...]

    def joined(self, other: "Scope") -> "Scope":
        every = {*self.columns, *other.columns}
        both = {each: self.of(each) + other.of(each) for each in sorted(every)}
        return Scope(both, self.keys + other.keys)

    def of(self, letter: str) -> list[str]:
        return self.columns.get(letter, [])


def scope(alias: str, columns: Sequence[tuple[str, str]]) -> Scope:
    """Leave out what is not exact; a table has a key, another relation all its columns."""
    exact = [(f"{alias}.{name}", kind) for name, kind in columns if not name.startswith("x")]
    found: dict[str, list[str]] = {}
    for name, kind in exact:
        found.setdefault(letter(kind), []).append(name)
    keys = (exact[0][0],) if columns[0][0] == "k" else tuple(name for name, _ in exact)
    return Scope(found, keys)


class Maker:
    """Make queries; `describe` tells the columns of one, as DuckDB plans it."""

    def __init__(self, seed: int, describe: Describe) -> None:
        self._random, self._plan = Random(seed), describe
        self._tables = [*["r1", "r2"] * 5, *["r3"] * 3, "nothing"]
        self._prefix, self._names = "", 0

    def query(self) -> str:
        kinds = (self._edge, self._rows, self._groups, self._windows, self._sets, self._parts)
        return self._random.choices(kinds, (2, 4, 4, 3, 3, 2))[0]()

    def _describe(self, query: str) -> list[tuple[str, str]]:
        return self._plan(f"{self._prefix}{query}")

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _name(self) -> str:
        self._names += 1
        return f"a{self._names}"

    def _edge(self) -> str:
        """Return expressions over the edges of all types: they overflow, or they do not."""
        there = scope("e", self._describe("FROM edges"))
        return f"SELECT e.k, {self._listed(there, 2, 1)} FROM edges AS e"

    def _rows(self) -> str:
        text, there = self._source(1)
        distinct = "DISTINCT " if self._maybe(0.3) else ""
        listed = self._listed(there, self._random.randint(1, 5), 2)
        if self._maybe(0.15):
            outer = self._expression(there, "i", 0)
            listed += f", (SELECT count(*) FROM r3 AS q WHERE q.c_int = {outer}) AS n"
        return self._ended(f"SELECT {distinct}{listed} FROM {text}{self._where(there)}")

    def _groups(self, depth: int = 1, exact: bool = False) -> str:
        text, there = self._source(depth)
        keys = self._listed(there, self._random.randint(0, 2), 1)
        found = [self._filled(there, self._pick(AGGREGATES), 1) for _ in range(3)]
        calls = [f"{call} AS n{at}" for at, call in enumerate(found)]
        if not exact and self._maybe(0.3):
            calls.append(f"{self._filled(there, self._pick(INEXACT), 0)} AS x")
        listed = ", ".join([*([keys] if keys else []), *calls])
        having = f" HAVING {self._having(there)}" if self._maybe(0.3) else ""
        groups = self._pick((" GROUP BY ALL", self._by(keys))) if keys else ""
        query = f"SELECT {listed} FROM {text}{self._where(there)}{groups}{having}"
        return self._ended(query)

    def _by(self, keys: str) -> str:
        numbers = ", ".join(str(at + 1) for at in range(keys.count(" AS c")))
        return f" GROUP BY {numbers}"

    def _having(self, there: Scope) -> str:
        forms = ("count(*) > 1", "count({1}) >= 1", "max({i}) > min({i})", "max({1}) IS NOT NULL")
        return self._filled(there, self._pick(forms), 0)

    def _windows(self) -> str:
        text, there = self._source(1)
        plain = self._listed(there, self._random.randint(1, 2), 1)
        calls = [self._filled(there, self._pick(WINDOWS), 1) for _ in range(2)]
        listed = ", ".join([plain, *(f"{call} AS w{at}" for at, call in enumerate(calls))])
        query = f"SELECT {listed} FROM {text}{self._where(there)}"
        if self._maybe(0.3):
            first = self._filled(there, "row_number() OVER ({part} {all})", 0)
            query += f" QUALIFY {first} <= 2"
        return self._ended(query)

    def _sets(self) -> str:
        letters = self._random.choices(SHARED, k=self._random.randint(1, 3))
        text = self._side(letters)
        for _ in range(self._random.randint(1, 2)):
            name = self._pick(("UNION", "EXCEPT", "INTERSECT")) + self._pick((" ALL", ""))
            text = f"({text}) {name} ({self._side(letters)})"
        return self._ended(text)

    def _side(self, letters: Sequence[str]) -> str:
        text, there = self._source(0)
        listed = [self._expression(there, each, 1) for each in letters]
        named = ", ".join(f"{each} AS c{at}" for at, each in enumerate(listed))
        return f"SELECT {named} FROM {text}{self._where(there)}"

    def _parts(self) -> str:
        """Return parts with names, which the rest uses once or more."""
        part = self._pick((self._rows, lambda: self._groups(exact=True)))()
        self._prefix = f"WITH part AS ({part}) "
        self._tables += ["part"] * 14
        return self._prefix + self._pick((self._rows, self._groups, self._sets))()

    def _ended(self, query: str) -> str:
        """Order by all columns, so that some rows may be left out."""
        columns = self._describe(query)
        if not self._maybe(0.25) or any(name.startswith("x") for name, _ in columns):
            return query
        order = self._random.sample(range(1, len(columns) + 1), len(columns))
        listed = ", ".join(f"{each}{self._direction()}" for each in order)
        offset = f" OFFSET {self._random.randint(1, 3)}" if self._maybe(0.3) else ""
        return f"{query} ORDER BY {listed} LIMIT {self._random.randint(1, 12)}{offset}"

    def _direction(self) -> str:
        return self._pick(("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))

    def _source(self, depth: int) -> tuple[str, Scope]:
        """Return something to read from: one relation, or a join of some."""
        text, there = self._relation(depth)
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            other, its = self._relation(depth)
            kind = self._pick(("", "LEFT ", "RIGHT ", "FULL ", "CROSS ", "SEMI ", "ANTI "))
            if kind == "CROSS ":
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} {kind}JOIN {other} {self._condition(there, its, kind)}"
            there = there if kind in ("SEMI ", "ANTI ") else there.joined(its)
        return text, there

    def _condition(self, there: Scope, its: Scope, kind: str) -> str:
        keys = there.keys + its.keys
        if len(keys) == 2 and all(key.endswith(".k") for key in keys) and self._maybe(0.2):
            return "USING (k)"
        pairs = [
            (self._pick(there.of(each)), self._pick(its.of(each)))
            for each in ("i", "s", "d", "f", "m", "t", "b")
            if there.of(each) and its.of(each)
        ]
        if not pairs:
            return "ON true" if kind in ("", "LEFT ") else "ON 1 = 1"
        first, second = self._pick(pairs)
        more = ""
        if kind in ("", "LEFT ") and self._maybe(0.4):
            one, other = self._pick(pairs)
            more = f" AND {one} {self._pick(('<', '<>', '>='))} {other}"
        return f"ON {first} = {second}{more}"

    def _relation(self, depth: int) -> tuple[str, Scope]:
        alias = self._name()
        if depth and self._maybe(0.25):
            inner = self._groups(0, exact=True) if self._maybe(0.5) else self._plain()
            return f"({inner}) AS {alias}", scope(alias, self._describe(inner))
        table = self._pick(self._tables)
        return f"{table} AS {alias}", scope(alias, self._describe(f"FROM {table}"))

    def _plain(self) -> str:
        text, there = self._relation(0)
        return self._ended(f"SELECT {self._listed(there, 4, 1)} FROM {text}{self._where(there)}")

    def _where(self, there: Scope) -> str:
        if self._maybe(0.4):
            return ""
        found = self._expression(there, "b", 2)
        return f" WHERE {self._subquery(there) if self._maybe(0.25) else found}"

    def _subquery(self, there: Scope) -> str:
        """Return a condition with a query in it, which may look at the row outside."""
        table, alias = self._pick(("r1", "r2", "r3", "nothing")), self._name()
        outer = self._expression(there, "i", 0)
        one = f"{alias}.{self._pick(('k', 'c_int', 'c_tiny'))}"
        source = f"FROM {table} AS {alias}"
        return self._pick(
            (
                f"EXISTS (SELECT 1 {source} WHERE {one} = {outer})",
                f"NOT EXISTS (SELECT 1 {source} WHERE {one} = {outer} AND {alias}.c_bool)",
                f"{outer} IN (SELECT {one} {source})",
                f"{outer} NOT IN (SELECT {one} {source} WHERE {one} IS NOT NULL)",
                f"{outer} > (SELECT min({one}) {source})",
                f"{outer} <= (SELECT max({one}) {source} WHERE {alias}.k <> {outer})",
            )
        )

    def _listed(self, there: Scope, count: int, depth: int) -> str:
        letters = self._random.choices(list(NAMES), k=count)
        found = [self._expression(there, each, depth) for each in letters]
        return ", ".join(f"{each} AS c{at}" for at, each in enumerate(found))

    def _expression(self, there: Scope, letter: str, depth: int) -> str:
        if depth == 0 or self._maybe(0.25):
            return self._leaf(there, letter)
        if FORMS[letter] and self._maybe(0.75):
            form = self._pick(FORMS[letter])
        else:
            form = self._pick(ANY).replace("{1}", f"{{{letter}}}")
        return f"({self._filled(there, form, depth - 1)})"

    def _leaf(self, there: Scope, letter: str) -> str:
        if there.of(letter) and self._maybe(0.85):
            return self._pick(there.of(letter))
        value = self._pick(VALUES[letter])
        return value if letter in ("i", "s", "b") else f"CAST({value} AS {NAMES[letter]})"

    def _filled(self, there: Scope, form: str, depth: int) -> str:
        if "{text}" in form and not there.of("s"):
            form = "count(*)"
        free = self._pick(SHARED)
        fixed = {
            "all": "ORDER BY " + ", ".join(f"{key}{self._direction()}" for key in there.keys),
            "part": f"PARTITION BY {self._leaf(there, free)}" if self._maybe(0.6) else "",
            "text": self._pick(there.of("s") or [""]),
        }

        def fill(hole: re.Match[str]) -> str:
            name = hole[1]
            return (
                fixed[name]
                if name in fixed
                else self._expression(there, free if name == "1" else name, depth)
            )

        return _HOLE.sub(fill, form)

    def _pick(self, choices: Sequence[T]) -> T:
        return self._random.choice(choices)
