"""Rules for the tests of all stand-ins."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Fail tests that leave sockets open, as tests/conftest.py does, which `pytest standins` skips.

    pytest calls this hook for the tests of other folders, too. Spark leaves sockets open, and other
    tests may have started it in this process.
    """
    lakes = sys.modules.get("tests.helpers.lakes")
    has_spark = lakes is not None and lakes.is_used()
    if item.path.is_relative_to(_FOLDER) and not has_spark:
        item.add_marker(pytest.mark.filterwarnings("error:unclosed <socket:ResourceWarning"))
    return (yield)
