"""The tables and queries of TPC-H, and what plain DuckDB answers."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.duckdb_engine.instance import extension_file

NUMBERS = tuple(range(1, 23))
# Means and quotients are sums in an order of their own, so their last digits may differ.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Benchmark:
    """Hold the tables as Parquet files in `folder`, and a DuckDB that reads them."""

    folder: Path
    duckdb: duckdb.DuckDBPyConnection
    tables: tuple[str, ...]
    queries: dict[int, str]

    def source(self, table: str) -> str:
        """Return what reads the file of a table, in SQL."""
        return f"read_parquet({literal(str(self.folder / f'{table}.parquet'))})"

    def differences(self, number: int, found: pa.Table) -> list[str]:
        """Return what is not as in plain DuckDB: names, types or rows."""
        self.duckdb.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {self.queries[number]}")
        self.duckdb.register("found", found)
        try:
            return _differences(self.duckdb)
        finally:
            self.duckdb.unregister("found")


@contextmanager
def made(folder: Path, scale: float) -> Iterator[Benchmark]:
    """Load DuckDB's extension that makes the data, which comes as a package."""
    folder.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect()
    connection.execute(f"LOAD {literal(str(extension_file('tpch')))}")
    connection.execute(f"CALL dbgen(sf = {scale})")
    tables = tuple(row[0] for row in connection.execute("SHOW TABLES").fetchall())
    queries = connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall()
    texts = {int(number): str(text).strip().rstrip(";") for number, text in queries}
    benchmark = Benchmark(folder, connection, tables, texts)
    for table in tables:
        path = literal(str(folder / f"{table}.parquet"))
        connection.execute(f"COPY {identifier(table)} TO {path} (FORMAT parquet)")
        connection.execute(f"DROP TABLE {identifier(table)}")
        connection.execute(f"CREATE VIEW {identifier(table)} AS FROM {benchmark.source(table)}")
    try:
        yield benchmark
    finally:
        connection.close()


def _differences(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Compare the tables `wanted` and `found`."""
    wanted, found = (
        [(row[0], row[1]) for row in connection.execute(f"DESCRIBE {name}").fetchall()]
        for name in ("wanted", "found")
    )
    if wanted != found:
        return [f"columns {found} for {wanted}"]
    exact = [identifier(name) for name, kind in wanted if kind != "DOUBLE"]
    inexact = [identifier(name) for name, kind in wanted if kind == "DOUBLE"]
    problems = [*_other_rows(connection, exact)] if exact else []
    return problems or [*_far_off(connection, exact, inexact)]


def _other_rows(connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> Iterator[str]:
    listed = ", ".join(columns)
    for one, other in (("wanted", "found"), ("found", "wanted")):
        query = f"SELECT {listed} FROM {one} EXCEPT ALL SELECT {listed} FROM {other}"
        for row in connection.execute(query).fetchall():
            yield f"{row} is {one}, and not {other}"


def _far_off(
    connection: duckdb.DuckDBPyConnection, exact: Sequence[str], inexact: Sequence[str]
) -> Iterator[str]:
    """Yield doubles of rows that are else the same."""
    order = ", ".join([*exact, *inexact])
    rows = [
        connection.execute(f"SELECT {order} FROM {name} ORDER BY {order}").fetchall()
        for name in ("wanted", "found")
    ]
    if len(rows[0]) != len(rows[1]):
        yield f"{len(rows[1])} rows for {len(rows[0])}"
        return
    for one, other in zip(*rows, strict=True):
        if not all(map(_near, one[len(exact) :], other[len(exact) :])):
            yield f"{other} for {one}"


def _near(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=TOLERANCE)
