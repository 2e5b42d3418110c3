"""Start a server in this process and send it statements with the Python client.

Run:  python examples/conversation.py
"""

import sys

import pyarrow as pa
import pyarrow.compute as pc

import jetbridge
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AsOf, AtUnit
from jetbridge.errors import ServerError

ORDERS = pa.schema([("id", pa.int64()), ("item", pa.string()), ("price", pa.float64())])


def show(statement: str, result: object) -> None:
    sys.stdout.write(f"-- {statement}\n{result}\n\n")


def main() -> None:
    with (
        jetbridge.serve({"memory": MemoryCatalog()}, port=0) as server,
        jetbridge.connect(server.location, "memory") as client,
    ):
        client.create_schema("shop")
        client.create_table("shop", "orders", ORDERS, primary_key=["id"], checks=["price > 0"])
        rows = pa.table({"id": [1, 2], "item": ["lamp", "desk"], "price": [49.9, 210.0]})
        inserted = client.insert("shop", "orders", rows, returning=True)
        show("INSERT ... RETURNING *", inserted.returning.to_pylist())

        prices = client.read("shop", "orders", ["price", "rowid"])
        reduced = pa.table({"price": pc.multiply(prices["price"], 0.9), "rowid": prices["rowid"]})
        updated = client.update("shop", "orders", reduced)
        show("UPDATE ... SET price = price * 0.9", f"{updated.affected_rows} rows")
        show("SELECT *", client.read("shop", "orders").to_pylist())
        earlier = client.read("shop", "orders", at=AsOf(AtUnit.VERSION, "1"))
        show("SELECT * AT (VERSION => 1)", earlier.to_pylist())

        try:
            client.insert("shop", "orders", pa.table({"id": [1], "item": ["sofa"], "price": [8.0]}))
        except ServerError as error:
            show("INSERT of an existing key", error)


if __name__ == "__main__":
    main()
