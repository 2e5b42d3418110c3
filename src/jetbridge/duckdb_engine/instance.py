"""A DuckDB with the extensions that read a lake; both `LakeReader` and `Workbench` have one.

It is opened at the first use. Once its extensions are loaded it is shut: SQL changes no setting
and, unless it may read all files, reaches no folder but those it was given.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pyarrow as pa

from jetbridge.dialects.quoting import literal
from jetbridge.duckdb_engine.statements import ATTACH, CREATE, DETACH, LOAD, SET, execute
from jetbridge.errors import Unavailable
from jetbridge.runtime.temporary_folders import TemporaryFolder

Setting = str | bool | int | float | list[str]

EXTENSIONS = ("avro", "httpfs", "iceberg")
# In the text of a query: `s3://`, `read_avro`, `iceberg_scan`.
_USES_EXTENSIONS = re.compile("://|avro|iceberg", re.IGNORECASE)
_CONFIG: dict[str, Setting] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "arrow_lossless_conversion": True,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
}


def needs_extensions(query: str) -> bool:
    """Return whether the text of a query may use one of `EXTENSIONS`, which load in 0.3 s."""
    return _USES_EXTENSIONS.search(query) is not None


class DuckDBInstance:
    """Open a DuckDB at the first use, run `statements` in it, and shut it.

    `folders` None: all files may be read. If it `spills`, it uses `spill_folder`; None: a temporary
    folder of its own.
    """

    def __init__(
        self,
        config: Mapping[str, Setting],
        folders: Sequence[str] | None,
        statements: Sequence[str] = (),
        extensions: Sequence[str] = EXTENSIONS,
        *,
        spills: bool = True,
        spill_folder: str | None = None,
    ) -> None:
        self._extensions = extensions
        self._config = {**_CONFIG, **config}
        self._folders, self._statements = folders, statements
        self._spills, self._spill_folder = spills, spill_folder
        self._temporary: list[TemporaryFolder] = []
        self._lock = threading.Lock()
        self._root: duckdb.DuckDBPyConnection | None = None

    def instance(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                self._root = self._opened()
            return self._root

    def _opened(self) -> duckdb.DuckDBPyConnection:
        root = duckdb.connect(":memory:", config={**self._config, "temp_directory": self._spill()})
        for name in self._extensions:
            execute(root, f"LOAD {literal(str(extension_file(name)))}", LOAD)
        for statement in ("SET GLOBAL TimeZone = 'UTC'", *self._statements):
            execute(root, statement, SET, CREATE, ATTACH, DETACH)
        if self._folders is not None:
            folders = ", ".join(literal(folder.rstrip("/") + "/") for folder in self._folders)
            execute(root, f"SET GLOBAL allowed_directories = [{folders}]", SET)
            execute(root, "SET GLOBAL enable_external_access = false", SET)
        execute(root, "SET GLOBAL lock_configuration = true", SET)
        return root

    def _spill(self) -> str:
        if not self._spills:
            return ""
        if self._spill_folder is not None:
            return self._spill_folder
        self._temporary.append(create_spill_folder())
        return str(self._temporary[-1].path)

    def forget(self, root: duckdb.DuckDBPyConnection) -> None:
        """Open another DuckDB at the next use; those that use this one may end by themselves."""
        with self._lock:
            if self._root is root:
                self._root = None

    def close(self) -> None:
        with self._lock:
            if self._root is not None:
                self._root.close()
                self._root = None
            while self._temporary:
                self._temporary.pop().remove()


def create_spill_folder() -> TemporaryFolder:
    """Create the folder into which a DuckDB spills; raise Unavailable if there is no room."""
    try:
        return TemporaryFolder("duckdb")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(
            f"there is no temporary folder for DuckDB: {reason}; free some space, or set TMPDIR"
        ) from error


def arrow_batches(
    cursor: duckdb.DuckDBPyConnection, sql: str, rows_per_batch: int
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a query, batch by batch in bounded memory; raise `duckdb.Error`."""
    batches = iter(execute(cursor, sql).to_arrow_reader(rows_per_batch))
    while True:
        try:
            batch = next(batches, None)
        except (OSError, pa.ArrowException) as error:
            # What Arrow makes of an error in the midst of a result.
            full = str(error).startswith("Out of Memory Error")
            kind = duckdb.OutOfMemoryException if full else duckdb.IOException
            raise kind(str(error)) from error
        if batch is None:
            return
        yield batch


def extension_file(name: str) -> Path:
    """Return the signed extension from its package, of exactly this version of DuckDB."""
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
