"""Random queries: the same rows and types from all engines, and at least half of them on Spark."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest, FailedPrecondition
from tests.pipeline.targets import Bench, bench
from tests.properties.random_queries import Maker
from tests.properties.random_tables import tables

pytestmark = pytest.mark.lake

TABLES = 1
FEW, MANY = range(15), range(300)
TOLERANCE = 1e-9
# Rows, or the error that came instead; None is a query that was refused.
Answer: TypeAlias = Any


@dataclass
class Engines:
    """Hold the same tables in plain DuckDB and in a lake."""

    plain: duckdb.DuckDBPyConnection
    lake: Bench
    on_spark: int = 0
    problems: list[str] = field(default_factory=list)

    def create(self, name: str, query: str) -> None:
        self.plain.execute(f"CREATE TABLE {name} AS {query}")
        self.lake.sql(f"CREATE TABLE t.dbo.{name} AS {query}")

    def query(self, seed: int) -> str:
        return Maker(seed, self.describe).query()

    def describe(self, query: str) -> list[tuple[str, str]]:
        rows = self.plain.execute(f"DESCRIBE {query}").fetchall()
        return [(str(row[0]), str(row[1])) for row in rows]

    def wanted(self, query: str) -> Answer:
        try:
            return self.plain.execute(query).to_arrow_table()
        except duckdb.Error as error:
            return BadRequest(str(error))

    def answer(self, engine: str, query: str) -> Answer:
        self.lake.sql(f"SET engine = '{engine}'")
        try:
            return self.lake.sql(query)
        except FailedPrecondition:
            return None
        except Exception as error:
            return error

    def same_text(self, query: str) -> bool:
        """Return whether Spark is told the same by both ways to it."""
        texts = []
        for engine in ("auto", "spark"):
            self.lake.sql(f"SET engine = '{engine}'")
            texts.append(dict(self.lake.rows(f"EXPLAIN {query}")).get("Spark SQL"))
        return texts[0] is not None and texts[0] == texts[1]

    def check(self, seed: int, *, thorough: bool) -> None:
        query = self.query(seed)
        wanted, found = self.wanted(query), {"duckdb": self.answer("duckdb", query)}
        on_spark = self.answer("spark", query)
        if on_spark is not None:
            self.on_spark += 1
            found["spark"] = on_spark
        if thorough or on_spark is None:
            found["auto"] = self.answer("auto", query)
        elif isinstance(on_spark, pa.Table) and not self.same_text(query):
            self.problems.append(f"seed {seed}: auto and spark differ: {query}")
        for engine, answer in found.items():
            difference = different(wanted, answer)
            if difference:
                self.problems.append(f"seed {seed}, {engine}: {difference}: {query}")


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
    with plain, bench("lake") as lake:
        made = Engines(plain, lake)
        for name, query in tables(TABLES).items():
            made.create(name, query)
        lake.sql("USE t.dbo; SET spark_from = '0'")
        yield made


@pytest.mark.parametrize(
    ("seeds", "thorough"),
    [
        pytest.param(FEW, False, id="few"),
        pytest.param(MANY, True, id="many", marks=pytest.mark.soak),
    ],
)
def test_all_engines_give_the_same(engines: Engines, seeds: range, thorough: bool) -> None:
    engines.on_spark, engines.problems = 0, []
    for seed in seeds:
        engines.check(seed, thorough=thorough)
    assert engines.problems == [], "\n" + "\n".join(engines.problems)
    assert engines.on_spark >= len(seeds) / 2


def different(wanted: Answer, found: Answer) -> str:
    """Return how an answer differs from the expected one; nothing where it does not."""
    if not isinstance(wanted, pa.Table) or not isinstance(found, pa.Table):
        both = isinstance(wanted, BadRequest) and isinstance(found, BadRequest)
        return "" if both else f"{_shown(found)} for {_shown(wanted)}"
    types = [[(each.name, each.type) for each in table.schema] for table in (wanted, found)]
    if types[0] != types[1]:
        return f"{types[1]} for {types[0]}"
    rows = [sorted(_rows(table), key=_sortable) for table in (wanted, found)]
    if len(rows[0]) != len(rows[1]):
        return f"{len(rows[1])} rows for {len(rows[0])}"
    for one, other in zip(*rows, strict=True):
        if not all(map(_same, one, other)):
            return f"{other} for {one}"
    return ""


def _shown(answer: Answer) -> str:
    return f"{answer.num_rows} rows" if isinstance(answer, pa.Table) else repr(answer)


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Order rows with inexact values last, so that rows that are else the same meet."""
    columns = [_values(table.column(name)) for name in sorted(table.column_names)]
    return list(zip(*columns, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return times as numbers, because Python has no year 0, and one zero for both."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    return [each + 0.0 if isinstance(each, float) else each for each in column.to_pylist()]


def _sortable(row: tuple[Any, ...]) -> list[tuple[bool, bool, Any]]:
    return [_place(each) for each in row]


def _place(value: Any) -> tuple[bool, bool, Any]:
    nan = isinstance(value, float) and math.isnan(value)
    return value is None, nan, 0 if value is None or nan else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both = math.isnan(one) and math.isnan(other)
        return both or math.isclose(one, other, rel_tol=TOLERANCE)
    return bool(one == other)
