"""Serves Apache Iceberg tables in a warehouse: Spark writes them, the embedded DuckDB reads them.

`LakeCatalog` is loaded when it is first used: it needs the packages of the extra `lake`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetbridge.backends.lake.catalog import LakeCatalog

__all__ = ["LakeCatalog"]


def __getattr__(name: str) -> Any:
    if name == "LakeCatalog":
        from jetbridge.backends.lake.catalog import LakeCatalog  # noqa: PLC0415

        return LakeCatalog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
