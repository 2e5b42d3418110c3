"""The benchmarks that come as extensions of DuckDB: TPC-H and TPC-DS."""

from collections.abc import Iterator

import duckdb

from benchmarks.scoreboard.files import Judged
from benchmarks.scoreboard.judge import Judge
from jetbridge.dialects.quoting import literal
from jetbridge.duckdb_engine.instance import extension_file

SCALE = 0.01
GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def judge_benchmark(name: str) -> Iterator[Judged]:
    """Yield each query of a benchmark with its verdict."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(f"LOAD {literal(str(extension_file(name)))}")
    connection.execute(f"CALL {GENERATORS[name]}(sf = {SCALE})")
    judge = Judge(connection)
    for (query,) in connection.sql(f"FROM {name}_queries() SELECT query").fetchall():
        yield query, judge.verdict(query)
    connection.close()
