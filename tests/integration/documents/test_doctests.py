"""The examples in the docstrings of public names, run as they stand there."""

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import jetbridge.catalog
import jetbridge.client
import jetbridge.expr
import jetbridge.spark
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, DMLOptions, SchemaInfo
from jetbridge.client import Client, Exchange, ScanReader, TableListing
from jetbridge.service import Server

MODULES = (jetbridge, jetbridge.catalog, jetbridge.client, jetbridge.expr, jetbridge.spark)
ORDERS = pa.table(
    {"id": [1, 2, 3], "city": ["Ulm", "Bonn", "Ulm"], "price": [9.5, 12.0, 20.0]},
    schema=pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("city", pa.string()), ("price", pa.float64())]
    ),
)
# Public names that are no classes or functions, and so have no docstring.
ALIASES = {"ComparisonOp", "Expr", "Alteration", "Function", "Prepare", "Transform", "Write"}
ALIASES |= {"MERGE_ACTION", "ROWID", "__version__"}


def public_names() -> Iterator[tuple[str, Any]]:
    for module in MODULES:
        yield module.__name__, module
        for name in set(module.__all__) - ALIASES:
            yield f"{module.__name__}.{name}", getattr(module, name)


def public_methods() -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of the client's classes by their names."""
    for public_class in (Client, Exchange, ScanReader, TableListing):
        for name, value in vars_of(public_class).items():
            is_public = not name.startswith("_")
            if is_public and inspect.isfunction(value):
                yield f"{public_class.__name__}.{name}", value
            elif is_public and isinstance(value, property):
                yield f"{public_class.__name__}.{name}", value.fget


def vars_of(public_class: type) -> dict[str, Any]:
    return {
        name: value for cls in reversed(public_class.__mro__) for name, value in vars(cls).items()
    }


# Methods that raise no error of their own.
WITHOUT_ERRORS = {
    "Client.close",
    "Client.location",
    "Exchange.cancel",
    "Exchange.returning_schema",
    "ScanReader.close",
    "TableListing.position",
    "TableListing.row_id",
    "TableListing.schema",
}
NAMES = dict(sorted([*public_names(), *public_methods()]))


@pytest.fixture
def names(
    server: Server, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return what the examples use without saying so: a client of a shop with three orders.

    `catalog` and `table` are the same shop in memory, without a server.
    """
    monkeypatch.chdir(tmp_path)  # the default configuration has a lake in the current folder
    client.create_schema("shop")
    client.create_table("shop", "orders", ORDERS.schema)
    client.insert("shop", "orders", ORDERS)
    catalog = MemoryCatalog()
    schema = catalog.create_schema(SchemaInfo("shop"))
    table = schema.create_table(CreateTable("orders", ORDERS.schema))
    with table.inserting(DMLOptions()) as write:
        for batch in ORDERS.to_batches():
            write(batch)
    names = {"client": client, "location": server.location, "pa": pa, "jetbridge": jetbridge}
    names |= {name: getattr(jetbridge.catalog, name) for name in jetbridge.catalog.__all__}
    table = schema.load_table("orders")
    return {**names, "MemoryCatalog": MemoryCatalog, "catalog": catalog, "table": table}


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


@pytest.mark.parametrize("name", dict(public_methods()))
def test_every_method_of_the_client_names_the_errors_it_raises(name):
    documented = inspect.cleandoc(NAMES[name].__doc__)
    assert ("\nRaises:\n" in documented) == (name not in WITHOUT_ERRORS)
