"""A DuckDB with the tables of the shop, for all tests of a module."""

from collections.abc import Iterator

import duckdb
import pytest

from tests.distributed import shop


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with shop.open_shop() as opened:
        yield opened
