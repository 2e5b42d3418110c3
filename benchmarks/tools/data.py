"""Generates the rows of all benchmarks: bigint, double, string, timestamp."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)


def rows(count: int, first: int = 0) -> pa.Table:
    """Return rows whose `id` ascends; `x` and `s` have every number once, in random order."""
    shuffled = np.random.default_rng(first).permutation(count)
    ids = pa.array(np.arange(first, first + count))
    return pa.table(
        [
            ids,
            pa.array(shuffled / count),
            pa.array(np.char.add("item-", shuffled.astype(str))).cast(pa.string()),
            ids.cast(pa.timestamp("us")),
        ],
        schema=SCHEMA,
    )


def batches(table: pa.Table, size: int) -> list[pa.RecordBatch]:
    """Return the rows in batches of a size."""
    return list(table.combine_chunks().to_batches(max_chunksize=size))


def many(count: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of `count` rows in all, generated one million at a time."""
    step = 1_000_000
    for first in range(0, count, step):
        yield from batches(rows(min(step, count - first), first), size)
