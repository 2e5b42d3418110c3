"""A second DuckDB, which may read the files of one warehouse, and nothing else.

The one of `sandbox` judges what users wrote and sees no files; this one runs scans. It is shut
once its extensions are loaded: no other folder, no setting, no network can be reached from SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine.instance import EXTENSIONS, DuckDBInstance, Setting, arrow_batches
from jetbridge.duckdb_engine.statements import EXPLAIN, QUERY, execute
from jetbridge.runtime.cancellation import current
from jetbridge.runtime.plain_layout import plain_rows

# What a query raises.
QueryError = duckdb.Error
# After one of these DuckDB answers no other query.
_FATAL = (duckdb.FatalException, duckdb.InternalException)
_ABOUT_SQL = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader"


class LakeReader:
    """Queries over Iceberg metadata, Avro and Parquet files below `folders`."""

    def __init__(
        self,
        folders: Sequence[str],
        *,
        memory_limit: str = "1GB",
        threads: int | None = None,
        secrets: Sequence[str] = (),
        extensions: Sequence[str] = EXTENSIONS,
    ) -> None:
        config: dict[str, Setting] = {"memory_limit": memory_limit}
        if threads:
            config["threads"] = threads
        # Files of a lake never change under their name, so what was read of them may be kept.
        keep = "SET GLOBAL parquet_metadata_cache = true"
        self._duckdb = DuckDBInstance(config, folders, [*secrets, keep], extensions)

    @contextmanager
    def _cursor(self, tables: Mapping[str, Rows]) -> Iterator[duckdb.DuckDBPyConnection]:
        root = self._duckdb.instance()
        cursor = root.cursor()
        try:
            for name, table in tables.items():
                cursor.register(name, plain_rows(table))
            with current().on_cancel(cursor.interrupt):
                yield cursor
        except _FATAL:
            self._duckdb.forget(root)
            raise
        finally:
            cursor.close()

    def stream(
        self, sql: str, rows_per_batch: int = 16_384, **tables: Rows
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows, batch by batch in bounded memory; raise `duckdb.Error`.

        A table may be a stream of batches itself, which the query reads once.
        """
        with self._cursor(tables) as cursor:
            yield from arrow_batches(cursor, sql, rows_per_batch)

    def query(self, sql: str, parameters: Any = None, **tables: Rows) -> pa.Table:
        """Return the whole result; raise `duckdb.Error`."""
        with self._cursor(tables) as cursor:
            result = execute(cursor, sql, QUERY, EXPLAIN, parameters=parameters)
            answer: pa.Table = result.to_arrow_table()
            return answer

    def close(self) -> None:
        self._duckdb.close()


def is_about_files(error: Exception) -> bool:
    """Return whether a query failed for what is in the files, not for what it asks."""
    return not isinstance(error, (*_ABOUT_SQL, *_FATAL)) and not is_out_of_memory(error)


def is_out_of_memory(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, duckdb.OutOfMemoryException) or text.startswith("Out of Memory Error")
