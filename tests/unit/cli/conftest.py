import pytest


@pytest.fixture(autouse=True)
def log(log_as_it_was: None) -> None:
    """Every test here runs a command."""
