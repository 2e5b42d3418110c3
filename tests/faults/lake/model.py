"""Compute what a table must hold, and how it differs, with a DuckDB of the test."""

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from jetbridge.client import Client

COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string()), ("p", pa.int32())])
PARTITIONS = 4
_FACTS = """
    SELECT count(*), count(DISTINCT id), coalesce(sum(id), 0), coalesce(sum(v), 0),
        coalesce(sum(length(s)), 0), coalesce(sum(p), 0)
    FROM {}
"""


def made(first: int, count: int, step: int = 0) -> pa.Table:
    """Return rows whose values follow from the id and the step that wrote them."""
    ids = np.arange(first, first + count, dtype=np.int64)
    texts = pa.array(ids).cast(pa.string())
    parts = (ids % PARTITIONS).astype(np.int32)
    return pa.table([ids, ids * 7 % 1009 + step, texts, parts], schema=COLUMNS)


def differences(found: pa.Table, expected: pa.Table) -> dict[str, Any]:
    """Return the differences: by count, DISTINCT, SUM, and EXCEPT both ways."""
    with duckdb.connect() as model:
        model.register("found", found.select(expected.schema.names))
        model.register("expected", expected)
        facts = {name: _row(model, _FACTS.format(name)) for name in ("found", "expected")}
        lost = _row(model, _without("expected", "found"))[0]
        extra = _row(model, _without("found", "expected"))[0]
    if facts["found"] == facts["expected"] and not lost and not extra:
        return {}
    return {**facts, "lost": lost, "extra": extra}


def _without(one: str, other: str) -> str:
    return f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})"


def _row(model: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    row = model.execute(sql).fetchone()
    assert row is not None
    return row


def read(client: Client, path: tuple[str, str]) -> pa.Table:
    return client.read(*path, COLUMNS.names)


def settled(found: pa.Table, before: pa.Table, after: pa.Table, *, done: bool) -> pa.Table:
    """Return which of two states the table has; after an acknowledged statement, only `after`."""
    wrong_after = differences(found, after)
    if not wrong_after:
        return after
    wrong_before = differences(found, before)
    assert not wrong_before, f"before: {wrong_before}; after: {wrong_after}"
    assert not done, f"acknowledged, but not there: {wrong_after}"
    return before
