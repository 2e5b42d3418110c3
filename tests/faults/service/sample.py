"""The table on which fault tests break statements."""

import pyarrow as pa

PATH = ("s", "t")
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("v", pa.float64()),
        pa.field("s", pa.string()),
    ]
)
ROWS = 64


def some_rows(first: int, count: int) -> pa.RecordBatch:
    ids = range(first, first + count)
    return pa.record_batch(
        [list(ids), [i / 4 for i in ids], [f"row {i}" for i in ids]], schema=COLUMNS
    )


def new_values(rowids: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        {"v": pa.array([1000.0] * len(rowids)), "rowid": pa.array(rowids, pa.int64())}
    )


def only_rowids(rowids: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"rowid": pa.array(rowids, pa.int64())})


def statement(operation: str, batches: int) -> list[pa.RecordBatch]:
    """Return the batches of a client; each concerns eight other rows."""
    groups = [list(range(8 * n, 8 * n + 8)) for n in range(batches)]
    make = {
        "insert": lambda rows: some_rows(ROWS + rows[0], len(rows)),
        "update": new_values,
        "delete": only_rowids,
    }[operation]
    return [make(rows) for rows in groups]
