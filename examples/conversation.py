"""A short conversation with a server of its own, from Python: no DuckDB client is needed.

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


def say(title: str, answer: object) -> None:
    sys.stdout.write(f"-- {title}\n{answer}\n\n")


def main() -> None:
    with (
        jetbridge.serve({"memory": MemoryCatalog()}, port=0) as server,
        jetbridge.connect(server.location, "memory") as client,
    ):
        client.create_schema("shop")
        client.create_table("shop", "orders", ORDERS, primary_key=["id"], checks=["price > 0"])
        rows = pa.table({"id": [1, 2], "item": ["lamp", "desk"], "price": [49.9, 210.0]})
        inserted = client.insert("shop", "orders", rows, returning=True)
        say("INSERT ... RETURNING *", inserted.returning.to_pylist())

        found = client.read("shop", "orders", ["price", "rowid"])
        cheaper = pa.table({"price": pc.multiply(found["price"], 0.9), "rowid": found["rowid"]})
        changed = client.update("shop", "orders", cheaper)
        say("UPDATE ... SET price = price * 0.9", f"{changed.affected_rows} rows")
        say("SELECT *", client.read("shop", "orders").to_pylist())
        then = client.read("shop", "orders", at=AsOf(AtUnit.VERSION, "1"))
        say("SELECT * AT (VERSION => 1)", then.to_pylist())

        try:
            client.insert("shop", "orders", pa.table({"id": [1], "item": ["sofa"], "price": [8.0]}))
        except ServerError as error:
            say("INSERT of a key that is there", error)


if __name__ == "__main__":
    main()
