"""The README's conversation prints what it says, and its statements do the same over the wire."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jetbridge.catalog import AsOf, AtUnit
from jetbridge.client import Client, connect
from jetbridge.service import Server
from tests.helpers import lakes

README = (Path(__file__).resolve().parents[3] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)
TABLES = [text.strip() for kind, text in BLOCKS if not kind and text.startswith("┌")]


def statements() -> list[str]:
    """Return those that a plain DuckDB can run too: all but those of the extension."""
    text = "\n".join(text for kind, text in BLOCKS if kind == "sql")
    found = [each.strip() for each in text.split(";")]
    return [each for each in found if " lake.shop" in each]


def boxed(relation: duckdb.DuckDBPyRelation) -> str:
    return str(relation).strip()


def test_the_boxes_are_what_duckdb_prints() -> None:
    # The extension is not to be had here, so the boxes are those of local tables of the same
    # names; a local table has no versions, so the last query runs before the update.
    local = duckdb.connect()
    local.execute("ATTACH ':memory:' AS lake")
    create_schema, create_table, insert, update, travel = statements()
    for each in (create_schema, create_table, insert):
        local.execute(each)
    then = boxed(local.sql(travel.replace("AT (VERSION => 1)", "")))
    assert [boxed(local.sql(update)), then] == TABLES


@pytest.fixture
def lake() -> Iterator[Client]:
    with Server({"lake": lakes.new_lake()}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as connected:
            yield connected


@pytest.mark.lake
def test_the_statements_do_the_same_over_the_wire(lake: Client) -> None:
    price = pa.decimal128(9, 2)
    columns = pa.schema(
        [("id", pa.int64()), pa.field("item", pa.string(), nullable=False), ("price", price)]
    )
    rows = pa.table(
        {"id": [1, 2], "item": ["lamp", "desk"], "price": [Decimal("49.90"), Decimal("210.00")]},
        schema=columns,
    )
    lake.create_schema("shop")
    lake.create_table("shop", "orders", columns, primary_key=["id"], checks=["(price > 0)"])
    lake.insert("shop", "orders", rows)
    found = lake.read("shop", "orders", ["item", "price", "rowid"])
    desk = found.filter(pc.equal(found["item"], "desk"))
    changed = pa.table(
        {
            "price": pa.array([Decimal("189.00")], price),
            "item": desk["item"],
            "rowid": desk["rowid"],
        }
    )
    answer = lake.update("shop", "orders", changed, returning=True).returning
    assert answer is not None
    assert answer.select(["item", "price"]).to_pylist() == [
        {"item": "desk", "price": Decimal("189.00")}
    ]
    then = lake.read("shop", "orders", at=AsOf(AtUnit.VERSION, "1"))
    assert then.to_pylist() == rows.to_pylist()
