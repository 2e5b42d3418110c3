"""Names fold as DuckDB folds them: A to Z, and nothing else."""

import pyarrow as pa
import pytest

from jetbridge.client import Client
from jetbridge.errors import AlreadyExists, BadRequest

COLUMNS = pa.schema({"id": pa.int64()})


def ids(*values: int) -> pa.Table:
    return pa.table({"id": list(values)}, schema=COLUMNS)


@pytest.mark.parametrize(("one", "other"), [("straße", "strasse"), ("É", "é"), ("K", "\u212a")])
def test_names_that_only_unicode_folds_are_two(client: Client, one: str, other: str) -> None:
    client.create_schema("s")
    for name in (one, other):
        client.create_table("s", name, COLUMNS)
    with client.transaction() as transaction:
        transaction.insert("s", one, ids(1))
        transaction.insert("s", other, ids(2))
        assert transaction.read("s", one)["id"].to_pylist() == [1]
        assert transaction.read("s", other)["id"].to_pylist() == [2]
    assert client.read("s", one)["id"].to_pylist() == [1]
    assert client.read("s", other)["id"].to_pylist() == [2]


def test_columns_that_only_unicode_folds_are_two(client: Client) -> None:
    client.create_schema("s")
    columns = pa.schema({"É": pa.int64(), "é": pa.int64()})
    client.create_table("s", "t", columns)
    client.insert("s", "t", pa.table({"É": [1], "é": [2]}))
    assert client.read("s", "t").to_pylist() == [{"É": 1, "é": 2}]
    client.rename_column("s", "t", "é", "f")
    assert client.read("s", "t").to_pylist() == [{"É": 1, "f": 2}]


def test_names_that_differ_in_ascii_case_are_one(client: Client) -> None:
    client.create_schema("Shop")
    client.create_table("shop", "Orders", COLUMNS)
    client.insert("SHOP", "orders", ids(1))
    assert client.read("shop", "ORDERS")["id"].to_pylist() == [1]
    assert client.table("shop", "orders").name == "Orders"
    with pytest.raises(AlreadyExists):
        client.create_table("shop", "ORDERS", COLUMNS)
    with pytest.raises(BadRequest, match="twice"):
        client.create_table("shop", "t", pa.schema([("a", pa.int8()), ("A", pa.int8())]))
