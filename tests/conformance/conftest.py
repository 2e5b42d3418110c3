"""One suite for every backend; a test is skipped only where a backend does not claim something."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.catalog import CreateTable, SchemaInfo, UniqueKey
from tests.conformance.harness import HARNESSES, Harness, insert


@pytest.fixture(params=[pytest.param(n, marks=getattr(pytest.mark, n)) for n in HARNESSES])
def harness(request: pytest.FixtureRequest) -> Harness:
    return HARNESSES[request.param]


@pytest.fixture
def needs(harness: Harness) -> Callable[..., None]:
    """Skip by claim alone: a lost capability stays red."""

    def require(*capabilities: type) -> None:
        missing = sorted(c.__name__ for c in capabilities if c not in harness.claims)
        if missing:
            pytest.skip(f"does not claim {', '.join(missing)}")

    return require


@pytest.fixture
def catalog(harness: Harness) -> Any:
    return harness.make()


@pytest.fixture
def schema(catalog: Any) -> Any:
    return catalog.create_schema(SchemaInfo("sales"))


@pytest.fixture
def create(schema: Any, harness: Harness) -> Callable[..., Any]:
    """Make a table of `name=type` columns, or of a whole schema."""

    def make(name: str = "orders", columns: Any = None, **options: Any) -> Any:
        fields = columns if columns is not None else [("id", pa.int64()), ("name", pa.string())]
        key = next((name for name in ("id", "n") if name in pa.schema(fields).names), None)
        if harness.keyed and "keys" not in options and key is not None:
            options["keys"] = (UniqueKey((key,), primary=True),)
        return schema.create_table(CreateTable(name, pa.schema(fields), **options))

    return make


@pytest.fixture
def orders(create: Callable[..., Any], schema: Any) -> Any:
    """Return sales.orders with three rows, a handle that sees them."""
    insert(create(), {"id": [1, 2, 3], "name": ["a", "b", None]})
    return schema.load_table("orders")
