"""Lists the backends. A backend is imported when a configuration or a statement names it."""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from jetbridge.catalog.backend import Backend


def _lake() -> Backend[Any]:
    from jetbridge.backends.lake.backend import BACKEND  # noqa: PLC0415

    return BACKEND


def _memory() -> Backend[Any]:
    from jetbridge.backends.memory.backend import BACKEND  # noqa: PLC0415

    return BACKEND


def _mssql() -> Backend[Any]:
    from jetbridge.backends.mssql.backend import BACKEND  # noqa: PLC0415

    return BACKEND


# By the `type` of a catalog. A new backend is one line here.
LOADERS: Mapping[str, Callable[[], Backend[Any]]] = {
    "lake": _lake,
    "memory": _memory,
    "mssql": _mssql,
}


class Backends(Mapping[str, Backend[Any]]):
    """Map types of catalogs to backends, each of which is imported at its first use."""

    def __getitem__(self, kind: str) -> Backend[Any]:
        return LOADERS[kind]()

    def __iter__(self) -> Iterator[str]:
        return iter(LOADERS)

    def __len__(self) -> int:
        return len(LOADERS)


BACKENDS = Backends()


def missing_packages(backend: Backend[Any]) -> list[str]:
    """Return the packages of the extra that are not installed, as pip spells them."""
    return [name for module, name in backend.packages.items() if find_spec(module) is None]
