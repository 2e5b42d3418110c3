"""What the pipeline sees of DuckDB: databases, and connections for one statement each.

`planner` implements them in this process, and `child.remote` in a process of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from jetbridge.catalog.settings import SQL_MEMORY
from jetbridge.duckdb_engine.references import QueryReferences
from jetbridge.errors import BadRequest, LimitExceeded, NotFound, ServerError

# Where tables are as they were at another time.
PAST = "jetbridge_past"
# The database in which statements run that name none.
WORK = "jetbridge_work"
# A table that is created to look at its columns, and dropped.
SCRATCH = f"{WORK}.main.jetbridge_scratch"
ROWS_PER_BATCH = 122_880
Path = tuple[str, str, str]


@dataclass(frozen=True)
class DuckDBAccess:
    """Hold what the DuckDB of a session may read and how much it may use.

    `folders` None means every file. Without `include_table_folders` the folders of the catalogs are
    not among them. Only `load_extensions` adds Iceberg, Avro and object stores. `threads` and
    `spill_bytes` (on disk) are upper limits; None: DuckDB's own. `spill_folder` is where it may
    spill; None: a folder of its own.
    """

    folders: Sequence[str] | None = ()
    secrets: Sequence[str] = ()
    memory_limit: str = SQL_MEMORY
    include_table_folders: bool = True
    load_extensions: bool = True
    threads: int | None = None
    spill_bytes: int | None = None
    spill_folder: str | None = None


class StatementConnection(Protocol):
    """Plan and run the queries of one statement.

    A stream of rows ends when another method of the connection is called.
    """

    reads_table_files: bool

    def references(self, query: str) -> QueryReferences:
        """Return the tables that a query names, and the functions it calls."""

    def time_travel_positions(self, query: str) -> list[int]:
        """Return where in the text tables are named as of another time."""

    def table_scans(self, query: str) -> list[tuple[Path, dict[str, Any]]]:
        """Return what a query would read of each table, as DuckDB writes its plan.

        The list is empty for a plan that DuckDB cannot write.
        """

    def single_table_read(self, query: str) -> tuple[Path, tuple[str, ...]] | None:
        """Return the one table that a query reads, and its columns; None if it does more."""

    def constant(self, text: str) -> str:
        """Return the value of an expression without columns, as DuckDB prints it."""

    def declare(self, path: Path, schema: pa.Schema) -> None:
        """Create an empty table."""

    def create_view(self, path: Path, query: str) -> None:
        """Create a view."""

    def register(self, name: str, rows: pa.Table | pa.RecordBatchReader) -> None:
        """Give rows a name under which `create_table_as` finds them."""

    def create_table_as(self, path: Path, query: str) -> None:
        """Create a table with the rows of a query, which can be read more than once."""

    def scratch(self, columns: str) -> AbstractContextManager[None]:
        """Declare `SCRATCH` with these columns, in brackets, for the time of the block."""

    def use(self, database: str, schema: str) -> None:
        """Set where names without a database or schema are looked for."""

    def schema(self, query: str) -> pa.Schema:
        """Return the columns of a query as Arrow, without its rows."""

    def types(self, query: str) -> list[tuple[str, str]]:
        """Return the columns of a query, and what DuckDB calls their types."""

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, batch by batch in bounded memory."""

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""


class StatementDatabase(Protocol):
    """Hold the catalogs as databases of a DuckDB."""

    def connect(self) -> AbstractContextManager[StatementConnection]:
        """Open a connection for one statement; what it declares is gone afterwards."""

    def close(self) -> None:
        """Close the DuckDB."""


class StatementEngine(Protocol):
    """Open the DuckDB in which the statements of one session are parsed, planned and run."""

    def open(self, databases: Sequence[str], access: DuckDBAccess) -> StatementDatabase:
        """Return a DuckDB with these databases; it starts when it is used."""

    def parsing(self) -> AbstractContextManager[None]:
        """Parse the texts of the block where the statements run."""

    def references(self, query: str) -> QueryReferences:
        """Return what a query names; raise BadRequest for anything but one query."""

    def close(self) -> None:
        """End what the engine has started."""


_LONGEST = 450
_MISSING = re.compile(r"(?:Table|Schema) with name (.+?) does not exist!")
SPILL_SETTING = "max_temp_directory_size"
_SPILLED = (
    "the statement needs more room in the temporary folder than its share of limits.staged_bytes; "
    "let it sort, join or group fewer rows, or raise limits.staged_bytes"
)
OUT_OF_MEMORY = (
    "the statement needs more memory than its share of sql.memory_limit; try again when fewer "
    "statements run, or raise sql.memory_limit"
)
_ERRORS: Mapping[type[duckdb.Error], type[ServerError]] = {
    duckdb.OutOfMemoryException: LimitExceeded,
    duckdb.InterruptException: LimitExceeded,
}


def statement_error(error: duckdb.Error, access: DuckDBAccess) -> ServerError:
    """Return the error of a statement.

    A client reads of the limits of the server, not of DuckDB's settings, which it cannot set.
    """
    if access.spill_bytes is None or not isinstance(error, duckdb.OutOfMemoryException):
        return error_from_duckdb(error)
    return LimitExceeded(_SPILLED if SPILL_SETTING in str(error) else OUT_OF_MEMORY)


def error_from_duckdb(error: duckdb.Error) -> ServerError:
    """Return what DuckDB says, in one line."""
    message = str(error).split("\n\n", 1)[0].replace("\n", " ").strip()[:_LONGEST]
    missing = _MISSING.search(message)
    if missing:
        return NotFound("table", missing[1])
    return _ERRORS.get(type(error), BadRequest)(message)
