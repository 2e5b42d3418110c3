"""Expressions that clients store are one expression, by every way to store them."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from jetbridge.client import Client
from jetbridge.errors import BadRequest
from tests.security.sandbox.clients import serving

COLUMNS = pa.schema({"a": pa.int64(), "b": pa.string()})
DEFAULTED = pa.schema([pa.field("a", pa.int64(), metadata={"default": "1"})])
# Each ends its place and goes on as something else, or is read in two ways.
ATTACKS = [
    "1) FROM (SELECT 1); SELECT error('smug' || 'gled'); --",
    "1), (2",
    "1) || (2",
    "1 IS NULL; SELECT 2",
    "1 /*",
    "(MAP {#1: 2}) IS NULL)); SELECT error('smug' || 'gled'); --#}) IS NULL",
    "1 AS x",
    "a > 1 FROM t",
    "1 UNION SELECT 2",
    "$x$ ) ; $y$",
    "1\0",
    "DISTINCT a",
    "",
]


def with_check(client: Client, text: str) -> None:
    client.create_table("s", "made", COLUMNS, checks=[text])


def with_default(client: Client, text: str) -> None:
    field = pa.field("a", pa.int64(), metadata={"default": text or " "})
    client.create_table("s", "made", pa.schema([field]))


def add_check(client: Client, text: str) -> None:
    client.add_constraint("s", "t", f"CHECK ({text})")


def set_default(client: Client, text: str) -> None:
    client.set_default("s", "t", "a", text or " ")


def change_type(client: Client, text: str) -> None:
    client.change_column_type("s", "t", pa.field("a", pa.int32()), text or " ")


WAYS: list[Callable[[Client, str], None]] = [
    with_check,
    with_default,
    add_check,
    set_default,
    change_type,
]


@pytest.fixture
def table(client: Client) -> Client:
    client.create_schema("s")
    client.create_table("s", "t", COLUMNS)
    client.insert("s", "t", pa.table({"a": [1], "b": ["x"]}))
    return client


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_1_2_stored_text_is_one_expression(
    table: Client, way: Callable[[Client, str], None], text: str
) -> None:
    before = table.list_schemas()
    with pytest.raises(BadRequest) as refused:
        way(table, text)
    assert "smuggled" not in str(refused.value)
    assert table.list_schemas() == before
    assert table.read("s", "t")["a"].to_pylist() == [1]


def test_1_2_text_of_run_is_bounded() -> None:
    with serving() as (ours, _):
        answer = ours.run(f"SELECT '{'x' * 200_000}'")
        assert (answer.status, "limit is 200000" in answer.message) == ("INVALID_ARGUMENT", True)
        assert ours.reports(f"SELECT '{'x' * 199_000}'")[0]["rows_produced"] == 1
