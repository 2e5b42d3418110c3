"""What a translation is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jetbridge.pipeline.name_resolution import Path, SearchPath


@dataclass(frozen=True)
class SparkTable:
    """A table as Spark reads it.

    `relation` is a name or a query in brackets, as Spark SQL. `types` are the DuckDB types of the
    columns that Spark gives with exactly their `spark_type`; `missing` those of the others.
    """

    relation: str
    types: Mapping[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A query in DuckDB SQL, with the names and DuckDB types of its columns as planned."""

    query: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    tables: Mapping[Path, SparkTable]
    place: SearchPath
