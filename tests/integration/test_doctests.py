"""The examples in the docstrings of public names, run as they stand there."""

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import jetbridge.client
import jetbridge.expr
from jetbridge.client import Client
from jetbridge.service import Server

MODULES = (jetbridge.client, jetbridge.expr)
ORDERS = pa.table(
    {"id": [1, 2, 3], "city": ["Ulm", "Bonn", "Ulm"], "price": [9.5, 12.0, 20.0]},
    schema=pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("city", pa.string()), ("price", pa.float64())]
    ),
)
# Public names that are no classes or functions, and so have no docstring.
ALIASES = {"ComparisonOp", "Expr"}


def public_names() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        yield module.__name__, module
        for name in set(module.__all__) - ALIASES:
            yield f"{module.__name__}.{name}", getattr(module, name)


def public_methods() -> Iterator[tuple[str, Any]]:
    for name, value in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("_"):
            yield f"Client.{name}", value


NAMES = dict(sorted([*public_names(), *public_methods()]))


@pytest.fixture
def names(server: Server, client: Client) -> dict[str, Any]:
    """What the examples use without saying so: a client of a shop with three orders."""
    client.create_schema("shop")
    client.create_table("shop", "orders", ORDERS.schema)
    client.insert("shop", "orders", ORDERS)
    return {"client": client, "location": server.location, "pa": pa}


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs(name, names):
    value = NAMES[name]
    scope = vars(value if inspect.ismodule(value) else inspect.getmodule(value)) | names
    assert value.__doc__
    example = doctest.DocTestParser().get_doctest(value.__doc__, scope, name, None, None)
    assert example.examples, f"{name} has no example"
    report: list[str] = []
    doctest.DocTestRunner().run(example, out=report.append)
    assert "".join(report) == ""
