"""The table s.T that the DML tests share: three rows, a key and a CHECK."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from jetbridge.client import Client
from jetbridge.service import Server
from tests.helpers.raw import Raw

HERE = ("s", "T")
MEMORY = ("airport-catalog", "memory")
COLUMNS = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("qty", pa.int32())]
)
INSERTED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("qty", pa.int32())])
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "ada", "qty": 10},
    {"id": 2, "name": "bob", "qty": 20},
    {"id": 3, "name": None, "qty": 30},
]


def batch(rows: list[dict[str, Any]], schema: pa.Schema = INSERTED) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def columns(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


ROWID_ONLY = columns(rowid=pa.int64())
QTY = columns(qty=pa.int32(), rowid=pa.int64())


@contextmanager
def small_table(server: Server, client: Client) -> Iterator[Raw]:
    """Provide a caller, and the table with its rows under the row ids 0, 1 and 2."""
    client.create_schema("s")
    client.create_table("s", "T", COLUMNS, checks=["qty >= 0"], primary_key=["id"])
    client.insert("s", "T", pa.Table.from_pylist(ROWS, INSERTED))
    with Raw(server.location, MEMORY) as caller:
        yield caller


def stored(raw: Raw, *headers: tuple[str, str]) -> list[dict[str, Any]]:
    return [row for answer in raw.scan(HERE, *headers) for row in answer.rows]


def with_ids(rows: Sequence[dict[str, Any]], first: int = 0) -> list[dict[str, Any]]:
    return [{**row, "rowid": number} for number, row in enumerate(rows, first)]
