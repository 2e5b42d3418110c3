"""One bench for each target and module; tests make tables of their own names."""

from collections.abc import Iterator

import pytest

from tests.pipeline.targets import TARGETS, Bench, bench, marked


@pytest.fixture(scope="module", params=marked(*TARGETS))
def target(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with bench(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def lake() -> Iterator[Bench]:
    with bench("lake") as made:
        yield made
