"""Apache Iceberg tables in a warehouse: Spark writes them, the embedded DuckDB reads them."""

from jetbridge.backends.lake.catalog import LakeCatalog

__all__ = ["LakeCatalog"]
