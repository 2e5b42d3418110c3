"""Cases in DuckDB and in Spark, many in one statement, and how their answers differ."""

import decimal
import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j import java_gateway, protocol
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.entries import Entry
from jetbridge.pipeline.translate.types import spark_type
from jetbridge.spark.engine import SparkConnection
from tests.helpers.lakes import folder
from tests.integration.translate.cases import (
    Case,
    cases_of,
    column,
    connected,
    planned,
    some_of,
)

Problems = dict[Entry, list[str]]
Answers = dict[int, tuple[pa.ChunkedArray, str]]
# Expressions in one statement: the code that Spark makes for more is too long for Java.
TOGETHER = 60
# How many of the rows for which DuckDB raises are tried in Spark at most, each in a statement.
RAISING = 4
SHOWN = 3
# How much a double may differ from DuckDB's, by what the remark says.
ALLOWED = {"last digits:": 1e-12, "last digit:": 1e-15}


def exported(table: str) -> tuple[str, pa.Table]:
    """Write a table of DuckDB as Parquet, in the types that Spark has; return file and rows."""
    path = str(folder() / f"{table}.parquet")
    huge = [
        row[0] for row in connected().execute(f"DESCRIBE {table}").fetchall() if row[1] == "HUGEINT"
    ]
    casts = ", ".join(f"CAST({name} AS DECIMAL(38,0)) AS {name}" for name in huge)
    columns = f"* REPLACE ({casts})" if huge else "*"
    rows = connected().execute(f"SELECT {columns} FROM {table}").to_arrow_table()
    # A dictionary, as DuckDB writes it, holds 0.0 and -0.0 as one.
    pq.write_table(rows, path, use_dictionary=False)
    return path, rows


def view(session: SparkConnection, table: str) -> None:
    path, rows = exported(table)
    session.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW {table} USING parquet OPTIONS (path {literal(path)})"
    )
    # Spark evaluates an expression over these without a job.
    schema = session.spark.table(table).schema
    session.spark.createDataFrame(rows, schema).createOrReplaceTempView(f"{table}s")


def ordered(answer: DataFrame, key: str) -> pa.Table:
    """Return the rows without their key, in its order; Spark would compute them twice to sort."""
    return answer.toArrow().sort_by(key).drop_columns([key])


def at_once(check: Callable[[Sequence[Case]], None], cases: Sequence[Case], size: int) -> None:
    """Run so many cases in a statement, two statements at a time."""
    batches = [cases[start : start + size] for start in range(0, len(cases), size)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(check, batches))


class Scalars:
    """Hold all cases of scalar entries whose arguments are so many columns."""

    def __init__(self, session: SparkConnection, arity: int, tried: int) -> None:
        self.session, self.table, self.tried = session, f"args{max(arity, 1)}", tried
        self.problems: Problems = defaultdict(list)
        view(session, self.table)

    def check(self, cases: Sequence[Case]) -> None:
        with _raw_errors():
            at_once(self._check, planned(cases, self.table), TOGETHER)

    def _check(self, cases: Sequence[Case]) -> None:
        expected, raised = self._duckdb(cases)
        texts = []
        for case, rows in zip(cases, raised, strict=True):
            answered = f"CASE WHEN row NOT IN ({', '.join(map(str, rows))}) THEN "
            texts.append(f"{answered}{case.spark_sql} END" if rows else case.spark_sql)
        for at, (found, type_) in self._spark(cases, texts, range(len(cases))).items():
            self._types(cases[at], type_)
            self._compare(cases[at], expected.column(at), found)
            self._raises(cases[at], raised[at])

    def _spark(self, cases: Sequence[Case], texts: Sequence[str], some: range) -> Answers:
        """Return answers by number of the case; halve a statement that fails, to find its case."""
        listed = ", ".join(f"{texts[at]} AS r{at}" for at in some)
        try:
            answer = self.session.sql(f"SELECT row, {listed} FROM {self.table}")
            found = ordered(answer, "row")
        except Exception as error:
            if len(some) > 1:
                half = len(some) // 2
                return self._spark(cases, texts, some[:half]) | self._spark(
                    cases, texts, some[half:]
                )
            problem = f"{cases[some[0]]}: {str(error)[:300]}"
            self.problems[cases[some[0]].entry].append(problem)
            return {}
        types = [field.dataType.simpleString() for field in answer.schema.fields[1:]]
        return {at: (found.column(n), types[n]) for n, at in enumerate(some)}

    def _duckdb(self, cases: Sequence[Case]) -> tuple[pa.Table, list[list[int]]]:
        """Return the answers, and the rows without one."""
        listed = ", ".join(f"TRY([{case.duckdb}]) AS r{at}" for at, case in enumerate(cases))
        with connected().cursor() as own:
            own.execute("SET TimeZone = 'UTC'")
            own.execute(f"CREATE TEMP TABLE answers AS SELECT row, {listed} FROM {self.table}")
            failed = ", ".join(
                f"list(row ORDER BY row) FILTER (r{at} IS NULL)" for at in range(len(cases))
            )
            ((*raised,),) = own.execute(f"SELECT {failed} FROM answers").fetchall()
            text = ", ".join(f"r{at}[1] AS r{at}" for at in range(len(cases)))
            found = own.execute(f"SELECT {text} FROM answers ORDER BY row").to_arrow_table()
        return found, [rows or [] for rows in raised]

    def _types(self, case: Case, found: str) -> None:
        wanted = spark_type(case.result).replace(" ", "").replace("`", "").lower()
        if found != wanted:
            self.problems[case.entry].append(f"{case}: type {found} for {wanted}")

    def _compare(self, case: Case, expected: pa.ChunkedArray, found: pa.ChunkedArray) -> None:
        expected, found = _numbers(expected), _numbers(found)
        wrong = differences(expected, found, loose=case.entry.remark)
        for row in wrong[:SHOWN]:
            given = self._arguments(case, row + 1)
            values = f"{found[row].as_py()!r} for {expected[row].as_py()!r}"
            text = f"{case} of {given}: {values} ({len(wrong)} rows)"
            self.problems[case.entry].append(text)

    def _arguments(self, case: Case, row: int) -> tuple[Any, ...]:
        names = [f"CAST({column(at, each)} AS VARCHAR)" for at, each in enumerate(case.types)]
        text = f"SELECT {', '.join(names) or 'NULL'} FROM {self.table} WHERE row = {row}"
        return tuple(connected().cursor().execute(text).fetchone() or ())

    def _raises(self, case: Case, rows: Sequence[int]) -> None:
        step = max(1, len(rows) // self.tried)
        for row in rows[::step][: self.tried]:
            text = f"SELECT {case.spark_sql} AS r FROM {self.table}s WHERE row = {row}"
            answer = self.session.sql(text)
            try:
                answer._jdf.collectToPython()
            except Py4JJavaError:
                pass
            else:
                given = self._arguments(case, row)
                self.problems[case.entry].append(f"{case} of {given}: answered, DuckDB raises")


@contextmanager
def _raw_errors() -> Iterator[None]:
    """Leave errors as Java's: to make one of Python takes ten times as long as the statement."""
    usual = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    try:
        yield
    finally:
        java_gateway.get_return_value = usual


def _numbers(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return dates and timestamps as numbers: Python has none before year 1 or after 9999."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date(values.type) else values


def differences(expected: pa.ChunkedArray, found: pa.ChunkedArray, *, loose: str) -> list[int]:
    """Return the rows in which two columns differ by more than the remark of the entry allows."""
    if _identical(expected, found):
        return []
    allowed = next((each for words, each in ALLOWED.items() if words in loose), 0.0)
    pairs = zip(expected.to_pylist(), found.to_pylist(), strict=True)
    return [row for row, (a, b) in enumerate(pairs) if not same(a, b, allowed)]


def _identical(expected: pa.ChunkedArray, found: pa.ChunkedArray) -> bool:
    """Return whether a quick look is enough: 0.0 equals -0.0, so doubles are compared as bits."""
    if expected.type != found.type or pa.types.is_nested(expected.type):
        return False
    bits = {pa.float64(): pa.int64(), pa.float32(): pa.int32()}.get(expected.type)
    if bits is not None:
        expected, found = (_bits(each, bits) for each in (expected, found))
    return bool(expected.equals(found))


def _bits(values: pa.ChunkedArray, bits: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([each.view(bits) for each in values.chunks], bits)


def same(a: Any, b: Any, allowed: float = 0.0) -> bool:
    """Return whether values are equal bit for bit, but that all NaN are one."""
    if isinstance(a, float) and isinstance(b, float):
        return _same_floats(a, b, allowed)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, decimal.Decimal) or isinstance(b, decimal.Decimal):
        return a is not None and b is not None and a == b
    return type(a) is type(b) and bool(a == b)


def _same_floats(a: float, b: float, allowed: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if allowed and abs(a - b) <= allowed * abs(a):
        return True
    return struct.pack("<d", a) == struct.pack("<d", b)


def check_scalars(session: SparkConnection, entries: Sequence[Entry], most: int = 16) -> Problems:
    by_arity: Mapping[int, list[Case]] = defaultdict(list)
    problems: Problems = defaultdict(list)
    for entry in entries:
        cases = list(cases_of(entry))
        arity = len(cases[0].types)
        fitting = planned(cases, f"args{max(arity, 1)}")
        by_arity[arity] += some_of(fitting, most)
        if not fitting:
            problems[entry].append("no combination of types fits, so nothing is tested")
    for arity, cases in by_arity.items():
        scalars = Scalars(session, arity, min(RAISING, max(1, most // 4)))
        scalars.check(cases)
        for entry, found in scalars.problems.items():
            problems[entry] += found
    return problems
