"""Run random stored expressions over hostile rows, in a process that measures itself.

python -m tests.security.input.stored_expressions SEED COUNT
"""

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine import (
    check_expression,
    default_expression,
    default_values,
    evaluate,
    first_violation,
    row_expression,
)
from jetbridge.duckdb_engine.functions import CHANGING, SIZES
from jetbridge.errors import BadRequest, LimitExceeded

LONG = 4_000_000
# How many of the slowest and largest are told.
TOP = 8
NUMBERS = [0, 1, -1, 2**63 - 1, -(2**63), None, 7, 10**9]
TEXTS = [
    "a" * LONG,
    "",
    "äß€🦆" * (LONG // 10),
    "1" * 1000,
    None,
    "[" * (LONG // 4) + "]" * (LONG // 4),
    '{"a": [' + "1," * (LONG // 8) + '1], "b": null}',
    "x,y;z " * (LONG // 16),
]
ROWS = pa.table(
    {
        "s": TEXTS,
        "n": pa.array(NUMBERS, pa.int64()),
        "x": [0.0, -0.0, 1e308, -1e308, float("nan"), float("inf"), None, 1e-308],
        "b": [None if text is None else text.encode() for text in TEXTS],
        "l": [[1] * (LONG // 8), [], None, [None] * 1000, list(range(1000)), [2**62], [0], [7]],
        "w": [["a" * 1000] * 500, ["a" * (LONG // 4)], [], None, [""] * 100_000, ["b"], [], []],
        "st": [{"f": number, "g": text} for number, text in zip(NUMBERS, TEXTS, strict=True)],
        "m": pa.array(
            [[(str(key), key) for key in range(50_000)], [], None, [("a", 1)], [], [], [], []],
            pa.map_(pa.string(), pa.int64()),
        ),
        "t": pa.array([0, 2**62, -(2**62), None, 1, 10**15, 10**9, 5], pa.timestamp("us")),
        "d": pa.array([0, 2**30, -(2**30), None, 1, 19_000, 5, 6], pa.date32()),
        "k": [True, False, None, True, False, None, True, False],
    }
)
SMALL = pa.table(
    {
        **{
            name: ROWS[name].take(pa.array([0, 1, 2, 3] * 5_000))
            for name in ("n", "x", "t", "d", "k")
        },
        "s": [f"name {index}@example.org" for index in range(20_000)],
        "b": [b"xyz"] * 20_000,
        "l": pa.array([[1, 2, None]] * 20_000, pa.list_(pa.int64())),
        "w": [["p", "qq"]] * 20_000,
        "st": pa.array([{"f": 1, "g": "y"}] * 20_000, ROWS["st"].type),
        "m": pa.array([[("a", 1)]] * 20_000, ROWS["m"].type),
    }
)
COLUMNS = {
    "VARCHAR": ["s", "st.g", "w[1]", "s::JSON"],
    "BIGINT": ["n", "l[1]", "st.f", "length(s)"],
    "DOUBLE": ["x"],
    "BLOB": ["b"],
    "LIST": ["l", "w"],
    "STRUCT": ["st"],
    "MAP": ["m"],
    "TIMESTAMP": ["t"],
    "DATE": ["d"],
    "BOOLEAN": ["k"],
}
CONSTANTS = {
    "VARCHAR": ["'a'", "''", "'%a%'", "'a_%a'", "'$.a'", "'(a|b)*'", "'{}'", "'%05d'", "'\\1x'"]
    + ["'" + "a" * 900 + "'", "'day'", "'[a-z]{1,100}'", "','", "'$.*'", "'%Y-%m'", "'xx'"],
    "BIGINT": ["0", "1", "-1", "3", "64", "1000", "100000", "1000000000", "NULL"],
    "DOUBLE": ["0.5", "1e300", "2.5"],
    "BLOB": ["'a'::BLOB"],
    "LIST": ["[1, 2]", "['a', 'b']", "[]"],
    "STRUCT": ["{'f': 1}"],
    "MAP": ["MAP {'a': 1}"],
    "TIMESTAMP": ["TIMESTAMP '2024-02-29 12:00:00'"],
    "DATE": ["DATE '2024-02-29'"],
    "BOOLEAN": ["true", "NULL"],
}
CASTS = ["VARCHAR", "BIGINT", "DOUBLE", "BLOB", "JSON", "INT[]", "VARCHAR[]", "DECIMAL(38, 3)"]
CASTS += ["BIT", "HUGEINT", "VARCHAR[3]", "STRUCT(f INT, g VARCHAR)", "MAP(VARCHAR, INT)", "DATE"]


def kind_of(name: str) -> str:
    """Return the kind of a DuckDB type."""
    for mark, kind in (("[", "LIST"), ("STRUCT", "STRUCT"), ("MAP", "MAP"), ("TIMESTAMP",) * 2):
        if mark in name:
            return kind
    if name in COLUMNS:
        return name
    numbers = ("INT", "DECIMAL", "FLOAT", "NUMERIC")
    if any(part in name for part in numbers):
        return "BIGINT" if "INT" in name else "DOUBLE"
    return {"JSON": "VARCHAR", "BIT": "BIT", "INTERVAL": "INTERVAL"}.get(name, "ANY")


def signatures() -> Iterator[tuple[str, list[str], str]]:
    """Return the functions of stored expressions: name, kinds of arguments and result."""
    asked = (
        "SELECT function_name, parameter_types, coalesce(return_type, 'ANY'), parameters "
        "FROM duckdb_functions() WHERE function_type IN ('scalar', 'macro')"
    )
    for name, kinds, result, names in duckdb.connect().execute(asked).fetchall():
        if name.lower() in SIZES or name.lower() in CHANGING:
            given = [kind_of(kind or "ANY") for kind in (kinds or ["ANY"] * len(names or []))]
            yield name, given, kind_of(result)


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        found = sorted({(name, tuple(kinds), result) for name, kinds, result in signatures()})
        self._by_name: dict[str, list[tuple[str, ...]]] = {}
        self._by_result: dict[str, list[str]] = {}
        for name, kinds, result in found:
            self._by_name.setdefault(name, []).append(kinds)
            self._by_result.setdefault(result, []).append(name)

    def text(self) -> str:
        name = self.random.choice(sorted(self._by_name))
        return self._call(name, self.random.choice([0, 1, 2, 3]))

    def _call(self, name: str, depth: int) -> str:
        kinds = self.random.choice(self._by_name[name])
        first = self.random.random() < 0.5
        given = [
            self._constant(kind) if index and first else self._value(kind, depth)
            for index, kind in enumerate(kinds)
        ]
        if name.isidentifier():
            return f"{name}({', '.join(given)})"
        if len(given) == 2:  # noqa: PLR2004
            return f"({given[0]} {name} {given[1]})"
        return f"({name} {given[0]})" if given else "NULL"

    def _constant(self, kind: str) -> str:
        return self.random.choice(CONSTANTS.get(kind) or self.random.choice([*CONSTANTS.values()]))

    def _value(self, kind: str, depth: int) -> str:
        kind = kind if kind in COLUMNS else self.random.choice(sorted(COLUMNS))
        dice = self.random.random()
        if depth and dice < 0.5:
            return self._call(self.random.choice(self._by_result.get(kind, ["lower"])), depth - 1)
        if depth and dice < 0.6:
            inner = self._value(self.random.choice(sorted(COLUMNS)), depth - 1)
            how = self.random.choice(["CAST", "TRY_CAST"])
            return f"{how}({inner} AS {self.random.choice(CASTS)})"
        if depth and dice < 0.65:
            one, other = self._value(kind, depth - 1), self._value(kind, depth - 1)
            return f"CASE WHEN k THEN {one} ELSE {other} END"
        if dice < 0.9:
            return self.random.choice(COLUMNS[kind])
        return self._constant(kind)


def attempt(text: str, rows: pa.Table, answers: Counter[str]) -> None:
    """Run an expression as CHECK, USING and DEFAULT; only errors of jetbridge are allowed."""
    wanted = pa.field("v", pa.string())
    steps: dict[str, tuple[Callable[[], object], ...]] = {
        "CHECK": (
            lambda: check_expression(f"({text}) IS NULL", rows.schema),
            lambda: first_violation(f"({text}) IS DISTINCT FROM NULL", rows),
        ),
        "USING": (
            lambda: row_expression(text, rows.schema),
            lambda: evaluate(text, rows, wanted),
        ),
        "DEFAULT": (
            lambda: default_expression(text, wanted),
            lambda: default_values(text, wanted, 100, 10_000_000),
        ),
    }
    for kind, (judge, run) in steps.items():
        outcome = "refused"
        try:
            judge()
            outcome = "failed"
            run()
            outcome = "done"
        except LimitExceeded:
            outcome = "limited"
        except BadRequest:
            pass
        answers[f"{kind} {outcome}"] += 1


def kibibytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def run(seed: int, count: int) -> dict[str, object]:
    maker = Maker(seed)
    answers: Counter[str] = Counter()
    for rows in (ROWS, SMALL):
        attempt("upper(s)", rows.slice(1, 1), answers)
    answers.clear()
    base = kibibytes("VmRSS")
    times: list[tuple[float, str]] = []
    sizes: list[tuple[float, str]] = []
    for number in range(count):
        text = maker.text()
        sys.stderr.write(f"{text}\n")  # its last line tells what stopped the process
        Path("/proc/self/clear_refs").write_text("5")
        start = time.process_time()
        attempt(text, SMALL if number % 4 == 0 else ROWS, answers)
        times.append((time.process_time() - start, text))
        size = (kibibytes("VmHWM") - base) / 1024
        # What a process once had it keeps, so only what needs more than all before is told.
        if not sizes or size > max(sizes)[0]:
            sizes.append((size, text))
    return {
        "seconds": sorted(times)[: -TOP - 1 : -1],
        "mebibytes": sorted(sizes)[: -TOP - 1 : -1],
        "answers": dict(sorted(answers.items())),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
