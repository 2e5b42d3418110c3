"""One query in DuckDB and, translated, in Spark: the same rows and types.

Spark computes small answers several at a time, so the queries of a module are begun together.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import sqlglot
from pyspark.sql.types import DataType

from jetbridge.duckdb_engine.connection import DuckDBAccess, StatementConnection
from jetbridge.duckdb_engine.planner import PlannerDatabase
from jetbridge.pipeline.name_resolution import SearchPath
from jetbridge.pipeline.translate import Question, SparkTable, Untranslatable, spark_type, translate
from tests.helpers.lakes import engine, folder

# Names and types of the columns, and rows.
Answer = tuple[list[tuple[str, str]], list[tuple[Any, ...]]]

PLACE = SearchPath("here")
# What tests call the argument that they give to `check`.
CHECKED = "checked"
TABLES = {
    "t": """
        SELECT * FROM (VALUES
            (1::INTEGER, 10::BIGINT, 1.50::DECIMAL(9,2), 0.5::DOUBLE, 'a', DATE '2020-01-01',
             TIMESTAMP '2020-01-01 10:00:00', true, [1, 2, 3], {'x': 1, 'y': 'p'}, 1::TINYINT,
             1.5::FLOAT),
            (2, 20, 2.25, 'nan', 'b', '2020-02-29', '2020-01-01 10:00:00.123456', false, [],
             {'x': 2, 'y': NULL}, 2, 'nan'),
            (2, 20, 2.25, -0.0, 'B', '1999-12-31', NULL, NULL, NULL, NULL, NULL, -0.0),
            (3, NULL, NULL, 0.0, 'ß', NULL, '1969-12-31 23:59:59', true, [NULL, 4],
             {'x': NULL, 'y': 'é'}, -3, 0.0),
            (NULL, 5, -1.00, NULL, NULL, '9999-12-31', '2020-01-01', false, [5], NULL, 4, NULL),
            (2, 7, 2.25, 'inf', 'a', '2020-01-01', '2020-01-01 10:00:00', true, [1],
             {'x': 9, 'y': 'p'}, 7, 'inf')
        ) t(i, b, m, d, s, dt, ts, f, l, st, ti, r)
    """,
    "u": """
        SELECT * FROM (VALUES
            (1::INTEGER, 'x', 100::BIGINT), (2, 'y', 200), (2, 'z', NULL), (4, 'w', 400),
            (NULL, 'n', 500)
        ) u(i, name, v)
    """,
    "none": "SELECT * FROM t WHERE false",
}


@dataclass
class Engines:
    """Hold the same tables in both engines; `desk` has them empty."""

    desk: StatementConnection
    rows: duckdb.DuckDBPyConnection
    tables: dict[tuple[str, str, str], SparkTable] = field(default_factory=dict)
    begun: dict[str, Future[Answer]] = field(default_factory=dict)

    def create(self, name: str, query: str) -> None:
        """Create a table from a query in DuckDB."""
        self.rows.execute(f"CREATE TABLE {name} AS {query}")
        found = self.rows.execute(f"SELECT * FROM {name}").to_arrow_table()
        described = self.rows.execute(f"DESCRIBE {name}").fetchall()
        path = folder() / f"translated-{name}.parquet"
        pq.write_table(found, path)
        with engine().session() as session:
            session.spark.read.parquet(str(path)).createOrReplaceTempView(f"translated_{name}")
        self.desk.declare(("here", "main", name), found.schema)
        types = {str(row[0]): str(row[1]) for row in described}
        self.tables[("here", "main", name)] = SparkTable(f"translated_{name}", types)

    def question(self, query: str) -> Question:
        found = self.desk.types(query)
        names = tuple(name for name, _ in found)
        return Question(query, names, tuple(kind for _, kind in found), self.tables, PLACE)

    def translate(self, query: str) -> str:
        return translate(self.question(query), self.desk)

    def begin(self, queries: Sequence[str], pool: Executor) -> None:
        """Begin a query; `check` reports one that is refused."""
        for query in queries:
            with suppress(Untranslatable):
                self.begun[query] = pool.submit(_answer, self.translate(query))

    def check(self, query: str) -> None:
        """Compare rows, types and names; their order where the query orders all of them."""
        ordered = bool(sqlglot.parse_one(query, read="duckdb").args.get("order"))
        question = self.question(query)
        begun = self.begun.pop(query, None)
        schema, found = begun.result() if begun else _answer(translate(question, self.desk))
        wanted = [DataType.fromDDL(spark_type(each)).simpleString() for each in question.types]
        assert schema == list(zip(question.names, wanted, strict=True))
        one, other = _comparable(self.rows.execute(query).fetchall()), _comparable(found)
        if ordered:
            assert other == one
        else:
            assert Counter(other) == Counter(one)


def _answer(text: str) -> Answer:
    with engine().session() as session:
        answer = session.sql(text)
        schema = [(each.name, each.dataType.simpleString()) for each in answer.schema]
        return schema, [tuple(row) for row in answer.collect()]


@contextmanager
def opened(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """Provide engines that have begun the queries which the tests of the module check."""
    own = (item for item in request.session.items if item.path == request.path)
    calls = (item.callspec for item in own if isinstance(item, pytest.Function))
    with _tables() as made, ThreadPoolExecutor(4) as pool:
        made.begin([str(each.params[CHECKED]) for each in calls if CHECKED in each.params], pool)
        yield made


@contextmanager
def _tables() -> Iterator[Engines]:
    """Provide tables with NULL, duplicates and odd numbers, and one without rows."""
    bench = PlannerDatabase(["here"], DuckDBAccess())
    rows = duckdb.connect()
    rows.execute("SET TimeZone = 'UTC'")
    try:
        with bench.connect() as desk:
            desk.use("here", "main")
            made = Engines(desk, rows)
            for name, query in TABLES.items():
                made.create(name, query)
            yield made
    finally:
        rows.close()
        bench.close()


def _comparable(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [tuple(_value(each) for each in row) for row in rows]


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else float(f"{value:.12g}") + 0.0
    if isinstance(value, Decimal | int) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, Mapping):
        return tuple(_value(each) for each in value.values())
    if isinstance(value, list | tuple):
        return tuple(_value(each) for each in value)
    return bytes(value) if isinstance(value, bytearray) else value
