"""Queries run by Spark: their rows are spooled as Parquet files, never collected in one place."""

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
from jetbridge.spark.shared_folders import refuse_unshared
from jetbridge.spark.written_rows import Written, all_rows, file_columns, write_parquet

_CODE = re.compile(r"^\[([A-Z_.0-9]+)\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)
_LONGEST = 400
_PERIOD = 0.5
_FULL = "No space left"
_CAUSE = re.compile(r"^Caused by: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
# Told how many tasks are done, and of how many.
TaskWatch = Callable[[int, int], None]
View = Callable[[SparkConnection], AbstractContextManager[None]]


def _nobody(_: int, __: int) -> None:
    """Watches nothing."""


@dataclass(frozen=True)
class SparkRunner:
    """`folder` is where spools lie; Spark's workers must see it, too. Or `spool` makes them."""

    engine: SparkEngine
    folder: str
    prefix: Callable[[], str]
    spool: Callable[[SparkConnection, str], AbstractContextManager[Written]] | None = None

    @contextmanager
    def spooled(
        self, query: str, watch: TaskWatch = _nobody, views: Sequence[View] = ()
    ) -> Iterator[Written]:
        """The rows of a query in Spark SQL, all of them; the files are gone afterwards."""
        with ExitStack() as stack:
            with self.session(watch, views) as session:
                spool = self.spool or self._in_folder
                written = stack.enter_context(spool(session, query))
            yield written

    @contextmanager
    def _in_folder(self, session: SparkConnection, query: str) -> Iterator[Written]:
        refuse_unshared(session, self.folder)
        place = Path(self.folder, f"{self.prefix()}-{uuid4().hex[:12]}")
        try:
            yield write_parquet(session, query, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def described(self, query: str) -> list[tuple[str, str, bool]]:
        """The columns of a query in Spark SQL: names, DuckDB's types, and whether NOT NULL."""
        with self.session() as session:
            session.check_query(query)
            found = session.sql(rows_of(query)).schema
        return [(each.name, duckdb_name(each.dataType), not each.nullable) for each in found]

    @contextmanager
    def session(
        self, watch: TaskWatch = _nobody, views: Sequence[View] = ()
    ) -> Iterator[SparkConnection]:
        """Spark for one statement; an error of its query is ours.

        `views` make tables that Spark does not have by itself.
        """
        with (
            self.engine.session() as session,
            _explained(),
            self.telling(watch),
            ExitStack() as stack,
        ):
            for view in views:
                stack.enter_context(view(session))
            yield session

    @contextmanager
    def telling(self, watch: TaskWatch) -> Iterator[None]:
        """How far Spark has come with what it does during the block, if it does anything."""
        ended = threading.Event()
        threading.Thread(target=_tell, args=(self.engine, watch, ended), daemon=True).start()
        try:
            yield
        finally:
            ended.set()


_SAME = {
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


def duckdb_name(kind: Any) -> str:
    """What DuckDB calls a type of Spark; raises NotSupported for one it has not."""
    match kind.typeName():
        case "array":
            return f"{duckdb_name(kind.elementType)}[]"
        case "struct":
            inner = ", ".join(f"{identifier(f.name)} {duckdb_name(f.dataType)}" for f in kind)
            return f"STRUCT({inner})"
        case "map":
            return f"MAP({duckdb_name(kind.keyType)}, {duckdb_name(kind.valueType)})"
        case "decimal":
            return f"DECIMAL({kind.precision},{kind.scale})"
    found = _SAME.get(kind.simpleString())
    if found is None:
        raise NotSupported(f"Spark's type {kind.simpleString()} has no like in DuckDB: CAST it")
    return found


def _tell(engine: SparkEngine, watch: TaskWatch, ended: threading.Event) -> None:
    while not ended.wait(_PERIOD):
        with suppress(Exception):
            tasks = engine.running_tasks()
            if tasks is not None and not ended.is_set():
                watch(*tasks)


def spool_rows(plan: Plan, spool: Written, memory_limit: str) -> Iterator[pa.RecordBatch]:
    """As DuckDB has them; raises at their end if not all of them were there.

    The DuckDB that reads them sees no other files, and has no text of users.
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
def _explained() -> Iterator[None]:
    """What Spark raises about a query becomes BadRequest, what happened to its jobs Unavailable.

    Each is one line; the log has the rest.
    """
    # Here, because they take half a second to load.
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise _about_query(str(error)) from error
    except Py4JJavaError as error:
        raise _about_jobs(str(error)) from error


def _about_query(message: str) -> ServerError:
    first = _STATE.sub("", message.strip()).split("\n", 1)[0]
    if _FULL in message:
        return _full()
    return BadRequest(f"Spark: {_CODE.sub('', first)[:_LONGEST]}")


def _about_jobs(message: str) -> ServerError:
    """The cause of the causes says what is wrong."""
    if _FULL in message:
        return _full()
    causes = _CAUSE.findall(message) or [message.strip().split("\n", 1)[0]]
    return Unavailable(f"Spark could not finish: {causes[-1][:_LONGEST]}")


def _full() -> ServerError:
    return LimitExceeded("the disk of Spark is full; free some space, nothing was changed")
