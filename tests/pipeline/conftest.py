"""One bench for each target and module; tests make tables of their own names."""

from collections.abc import Iterator

import pytest

from tests.pipeline.targets import TARGETS, Bench, bench


@pytest.fixture(
    scope="module", params=[pytest.param(n, marks=getattr(pytest.mark, n)) for n in TARGETS]
)
def target(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with bench(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def lake() -> Iterator[Bench]:
    with bench("lake") as made:
        yield made
