"""Runs queries on Spark, which spools their rows as Parquet files. No process holds all rows."""

import posixpath
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from jetbridge.dialects.duckdb import statements as queries
from jetbridge.dialects.quoting import identifier
from jetbridge.dialects.spark import rows_of
from jetbridge.duckdb_engine.instance import EXTENSIONS
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import BadRequest, LimitExceeded, NotSupported, ServerError, Unavailable
from jetbridge.pipeline.query.plan import Plan
from jetbridge.spark.engine import SparkConnection, SparkEngine
from jetbridge.spark.shared_folders import check_shared
from jetbridge.spark.written_rows import WrittenFiles, all_rows, file_columns, write_parquet

_ERROR_CLASS = re.compile(r"^\[([A-Z_.0-9]+)\]\s*")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_LONGEST_MESSAGE = 400
_DISK_IS_FULL = "No space left"
_POLL_SECONDS = 0.5
# Gets the number of tasks that are done, and of all tasks.
TaskListener = Callable[[int, int], None]
# Creates what a query reads, for the time of a block.
View = Callable[[SparkConnection], AbstractContextManager[None]]


def _ignore_tasks(_: int, __: int) -> None:
    """Do nothing with progress."""


@dataclass(frozen=True)
class SparkRunner:
    """Run queries on Spark for one session.

    Spools are folders in `folder`, which every Spark worker must be able to read, with names that
    begin with `prefix`. If there is a function `spool`, it makes the spools instead.
    """

    engine: SparkEngine
    folder: str
    prefix: Callable[[], str]
    spool: Callable[[SparkConnection, str], AbstractContextManager[WrittenFiles]] | None = None

    @contextmanager
    def spool_query(
        self, query: str, listener: TaskListener = _ignore_tasks, views: Sequence[View] = ()
    ) -> Iterator[WrittenFiles]:
        """Run a query in Spark SQL, and keep the files of its rows until the block ends."""
        with ExitStack() as stack:
            with self.session(listener, views) as session:
                spool = self.spool or self._in_folder
                spooled = stack.enter_context(spool(session, query))
            yield spooled

    @contextmanager
    def _in_folder(self, session: SparkConnection, query: str) -> Iterator[WrittenFiles]:
        check_shared(session, self.folder)
        folder = Path(self.folder, f"{self.prefix()}-{uuid4().hex[:12]}")
        try:
            yield write_parquet(session, query, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def describe(self, query: str) -> list[tuple[str, str, bool]]:
        """Return the columns of a query in Spark SQL: name, DuckDB's type, whether NOT NULL."""
        with self.session() as session:
            session.check_query(query)
            schema = session.sql(rows_of(query)).schema
        return [(field.name, _duckdb_type(field.dataType), not field.nullable) for field in schema]

    @contextmanager
    def session(
        self, listener: TaskListener = _ignore_tasks, views: Sequence[View] = ()
    ) -> Iterator[SparkConnection]:
        """Open Spark for one statement; raise an error of Spark as one of ours.

        `views` create what the query reads and Spark cannot read by itself.
        """
        with (
            self.engine.session() as session,
            _translate_errors(),
            self.report_tasks(listener),
            ExitStack() as stack,
        ):
            for view in views:
                stack.enter_context(view(session))
            yield session

    @contextmanager
    def report_tasks(self, listener: TaskListener) -> Iterator[None]:
        """Report the tasks that Spark runs during the block, if it runs any."""
        ended = threading.Event()
        arguments = (self.engine, listener, ended)
        threading.Thread(target=_poll_tasks, args=arguments, daemon=True).start()
        try:
            yield
        finally:
            ended.set()


_DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
}


def _duckdb_type(data_type: Any) -> str:
    """Return DuckDB's name of a Spark type; raise NotSupported if DuckDB has no such type."""
    match data_type.typeName():
        case "array":
            return f"{_duckdb_type(data_type.elementType)}[]"
        case "struct":
            fields = [f"{identifier(f.name)} {_duckdb_type(f.dataType)}" for f in data_type]
            return f"STRUCT({', '.join(fields)})"
        case "map":
            return f"MAP({_duckdb_type(data_type.keyType)}, {_duckdb_type(data_type.valueType)})"
        case "decimal":
            return f"DECIMAL({data_type.precision},{data_type.scale})"
    name = data_type.simpleString()
    if name not in _DUCKDB_TYPES:
        raise NotSupported(f"DuckDB has no type for Spark's {name}: CAST the column")
    return _DUCKDB_TYPES[name]


def _poll_tasks(engine: SparkEngine, listener: TaskListener, ended: threading.Event) -> None:
    while not ended.wait(_POLL_SECONDS):
        with suppress(Exception):
            tasks = engine.running_tasks()
            if tasks is not None and not ended.is_set():
                listener(*tasks)


def spool_rows(plan: Plan, spool: WrittenFiles, memory_limit: str) -> Iterator[pa.RecordBatch]:
    """Return the rows of a spool in DuckDB's types; raise at the end if rows are missing.

    The DuckDB that reads them sees no other files, and runs no text of users.
    """
    names = plan.schema.names
    columns = list(zip(file_columns(len(names)), plan.types, names, strict=True))
    folders = sorted({posixpath.dirname(name) for name in spool.names})
    extensions = EXTENSIONS if any("://" in folder for folder in folders) else ()
    reader = LakeReader(
        folders, memory_limit=memory_limit, secrets=spool.secrets, extensions=extensions
    )
    with closing(reader):
        batches = reader.stream(queries.read_spool(spool.names, columns))
        for batch in all_rows(batches, spool.rows, "its spool"):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=plan.schema)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise BadRequest for what Spark says of a query, Unavailable for what happened to its jobs.

    The message is one line; Spark's log has the rest.
    """
    # Imported here because they take half a second to load.
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise _query_error(str(error)) from error
    except Py4JJavaError as error:
        raise _job_error(str(error)) from error


def _query_error(message: str) -> ServerError:
    if _DISK_IS_FULL in message:
        return _disk_error()
    first_line = _SQLSTATE.sub("", message.strip()).split("\n", 1)[0]
    return BadRequest(f"Spark: {_ERROR_CLASS.sub('', first_line)[:_LONGEST_MESSAGE]}")


def _job_error(message: str) -> ServerError:
    """Return an error with the last cause, which is the one that started the others."""
    if _DISK_IS_FULL in message:
        return _disk_error()
    causes = _CAUSE.findall(message) or [message.strip().split("\n", 1)[0]]
    return Unavailable(f"Spark could not finish: {causes[-1][:_LONGEST_MESSAGE]}")


def _disk_error() -> ServerError:
    return LimitExceeded(
        "the disk of Spark is full and nothing was changed; free some space, then run the "
        "statement again"
    )
