import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A command sets the log up for its process, and here it is the process of all tests."""
    log = logging.getLogger("jetbridge")
    level, propagate, handlers = log.level, log.propagate, list(log.handlers)
    yield
    log.setLevel(level)
    log.propagate, log.handlers[:] = propagate, handlers
