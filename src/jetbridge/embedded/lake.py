"""A second DuckDB, which may read the files of one warehouse, and nothing else.

The one of `sandbox` judges what users wrote and sees no files; this one runs scans. It is shut
once its extensions are loaded: no other folder, no setting, no network can be reached from SQL.
"""

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import duckdb
import pyarrow as pa

from jetbridge.errors import Unavailable
from jetbridge.sql.quoting import literal

# What a query raises.
QueryError = duckdb.Error
# After one of these DuckDB answers no other query.
_FATAL = (duckdb.FatalException, duckdb.InternalException)
_ABOUT_SQL = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)

Rows: TypeAlias = "pa.Table | pa.RecordBatchReader"
_EXTENSIONS = ("avro", "httpfs", "iceberg")
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "arrow_lossless_conversion": True,
}


class LakeReader:
    """Queries over Iceberg metadata, Avro and Parquet files below `folders`."""

    def __init__(
        self,
        folders: Sequence[str],
        *,
        memory_limit: str = "1GB",
        threads: int | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self._folders = [folder.rstrip("/") + "/" for folder in folders]
        # Made when a query needs more than its memory, and removed by DuckDB afterwards.
        spill = f"{tempfile.gettempdir()}/jetbridge-duckdb-{os.getpid()}-{uuid4().hex[:8]}"
        self._config = {**_CONFIG, "memory_limit": memory_limit, "temp_directory": spill}
        if threads:
            self._config["threads"] = threads
        self._secrets = secrets
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None

    def _instance(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                self._root = self._opened()
            return self._root

    def _opened(self) -> duckdb.DuckDBPyConnection:
        root = duckdb.connect(":memory:", config=self._config)
        for name in _EXTENSIONS:
            root.execute(f"LOAD '{extension_file(name)}'")
        for statement in self._secrets:
            root.execute(statement)
        root.execute("SET GLOBAL TimeZone = 'UTC'")
        # Files of a lake never change under their name, so what was read of them may be kept.
        root.execute("SET GLOBAL parquet_metadata_cache = true")
        folders = ", ".join(literal(folder) for folder in self._folders)
        root.execute(f"SET GLOBAL allowed_directories = [{folders}]")
        root.execute("SET GLOBAL enable_external_access = false")
        root.execute("SET GLOBAL lock_configuration = true")
        return root

    @contextmanager
    def _cursor(self, tables: Mapping[str, Rows]) -> Iterator[duckdb.DuckDBPyConnection]:
        root = self._instance()
        cursor = root.cursor()
        try:
            for name, table in tables.items():
                cursor.register(name, table)
            yield cursor
        except _FATAL:
            self._forget(root)
            raise
        finally:
            cursor.close()

    def _forget(self, root: duckdb.DuckDBPyConnection) -> None:
        """The next query opens another; those that use this one may end by themselves."""
        with self._lock:
            if self._root is root:
                self._root = None

    def stream(
        self, sql: str, rows_per_batch: int = 16_384, **tables: Rows
    ) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch in bounded memory; raises `duckdb.Error`.

        A table may be a stream of batches itself, which the query reads once.
        """
        with self._cursor(tables) as cursor:
            batches = iter(cursor.execute(sql).to_arrow_reader(rows_per_batch))
            while True:
                try:
                    batch = next(batches, None)
                except (OSError, pa.ArrowException) as error:
                    # What Arrow makes of an error in the midst of a result.
                    raise duckdb.IOException(str(error)) from error
                if batch is None:
                    return
                yield batch

    def query(self, sql: str, parameters: Any = None, **tables: Rows) -> pa.Table:
        """The whole result; raises `duckdb.Error`."""
        with self._cursor(tables) as cursor:
            answer: pa.Table = cursor.execute(sql, parameters).to_arrow_table()
            return answer

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                self._root.close()
                self._root = None


def is_about_files(error: Exception) -> bool:
    """Whether a query failed for what is in the files, not for what it asks."""
    return not isinstance(error, (*_ABOUT_SQL, *_FATAL)) and not is_out_of_memory(error)


def is_out_of_memory(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, duckdb.OutOfMemoryException) or text.startswith("Out of Memory Error")


def extension_file(name: str) -> Path:
    """The signed extension from its package, of exactly this version of DuckDB."""
    package = f"duckdb_extension_{name}"
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable(
            f"DuckDB's {name} extension is missing: install jetbridge with its extra 'lake'"
        )
    folder = Path(spec.submodule_search_locations[0]) / "extensions" / f"v{duckdb.__version__}"
    file = folder / f"{name}.duckdb_extension"
    if not file.is_file():
        raise Unavailable(
            f"the package {package.replace('_', '-')} does not fit DuckDB {duckdb.__version__}: "
            f"install version {duckdb.__version__} of it"
        )
    return file
