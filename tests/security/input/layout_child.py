"""Hand random Arrow layouts to DuckDB in a process of its own, and compare the values.

`python -m tests.security.input.layout_child FIRST COUNT DEPTH` prints what differs; a crash shows
the number of the array that it printed last.
"""

import random
import sys

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine import cast
from jetbridge.duckdb_engine.sandbox import DATA, query
from jetbridge.runtime.plain_layout import plain_type
from tests.security.input.layouts import anything

TEXT = pa.field("c", pa.string())
ROWS = [1, 2, 9, 40, 3_000]


def check(array: pa.Array) -> None:
    """Compare what DuckDB reads, and what it casts, with the values of Arrow."""
    values = array.to_pylist()
    table = pa.table({"c": array})
    assert query(f"SELECT c FROM {DATA}", table).column(0).to_pylist() == values
    reader = table.to_reader(max_chunksize=7)
    assert query(f"SELECT c FROM {DATA}", reader).column(0).to_pylist() == values
    if not any(name in str(array.type) for name in ("union", "json")):  # Arrow makes none
        fresh = pa.array(values, plain_type(array.type))
        assert cast(array, TEXT).to_pylist() == cast(fresh, TEXT).to_pylist()


def main(first: int, count: int, depth: int) -> None:
    for number in range(first, first + count):
        sys.stderr.write(f"{number}\n")
        rng = random.Random(number)
        array = anything(rng, rng.choice(ROWS), depth)
        try:
            check(array)
        except duckdb.NotImplementedException as error:
            if 'Unsupported Internal Arrow Type: "d"' not in str(error):  # a dense union
                raise
        except AssertionError as error:
            raise AssertionError(f"array {number}, {array.type}") from error


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
