"""Lets Spark write rows to files, and checks that all of them can be read.

Spark's workers write by path, on their own machines. Without a shared folder their rows would be
lost unnoticed. So the tasks whose output was committed report how many rows they wrote; a task
that ran several times counts once.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from jetbridge.dialects import spark as sql
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.spark.application import SparkConnection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Hadoop replaces what begins like this by one of its settings, which contain all of Spark's. It
# does so in the schema of a Parquet file that Spark writes or reads, too.
_REFERENCE = "${"
# The type of a column that is NULL in all rows.
_VOID = "void"


@dataclass(frozen=True)
class WrittenFiles:
    """List Parquet files in the order of their rows, with the rows and bytes of each.

    `secrets` are statements by which DuckDB reaches the files.
    """

    files: tuple[tuple[str, int, int], ...]
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the paths of the files."""
        return tuple(name for name, _, _ in self.files)

    @property
    def rows(self) -> int:
        """Return the rows of all files."""
        return sum(rows for _, rows, _ in self.files)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(size for _, _, size in self.files)


def file_columns(count: int) -> list[str]:
    """Return the names of the columns in files that Spark writes or reads."""
    return [f"c{number}" for number in range(count)]


def write_parquet(session: SparkConnection, query: str, folder: Path) -> WrittenFiles:
    """Write the rows of a query in Spark SQL to a new folder; the columns are `file_columns`.

    Raises BadRequest for the query, and FailedPrecondition if rows are missing in the folder.
    """
    rows = plain(session, query)
    _make(folder)
    with view(rows) as source, _folder_view(session, rows, folder) as target:
        count = rows_in_files(session.sql(sql.insert_all(sql.identifier(target), source)))
    files = readable(sorted(folder.glob("*.parquet")))
    refuse_lost(count, files.rows, str(folder))
    return files


def plain(session: SparkConnection, query: str) -> "DataFrame":
    """Return a query as a DataFrame with `file_columns`, of types that files have."""
    session.check_query(query)
    rows = session.sql(query)
    names = file_columns(len(rows.columns))
    renamed = rows.toDF(*names)
    refuse_references(renamed.schema)
    untyped = [field.name for field in renamed.schema if field.dataType.typeName() == _VOID]
    return renamed.withColumns({name: renamed[name].cast("string") for name in untyped})


def rows_in_files(insert: "DataFrame") -> int:
    """Return how many rows an INSERT of Spark has written into files, by its committed tasks.

    These counts come with the result of each task. Those of `observe` come later, as an event that
    a busy Spark drops, and accumulators may count a task twice that ran twice.
    """
    return int(_execute(insert).metrics().apply("numOutputRows").value())


def rows_in_table(insert: "DataFrame") -> int:
    """Return how many rows an INSERT of Spark has written into an Iceberg table."""
    return int(_execute(insert).commitProgress().get().numOutputRows())


def _execute(insert: "DataFrame") -> Any:
    """Return the command in Spark's plan, which has run; an adaptive plan wraps it."""
    plan: Any = insert._jdf.queryExecution().commandExecuted().commandPhysicalPlan()
    while True:
        name = str(plan.getClass().getSimpleName())
        if name == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        elif name.endswith("QueryStageExec"):
            plan = plan.plan()
        else:
            return plan


def readable(files: Iterable[str | Path]) -> WrittenFiles:
    """Return those of the files that this process can see."""
    listed = []
    for file in files:
        with suppress(FileNotFoundError):
            rows = int(pq.read_metadata(file).num_rows)
            listed.append((str(file), rows, Path(file).stat().st_size))
    return WrittenFiles(tuple(listed))


def refuse_lost(written_rows: int, readable_rows: int, folder: str) -> None:
    """Raise FailedPrecondition if Spark wrote another number of rows than there are to read."""
    if written_rows != readable_rows:
        raise FailedPrecondition(
            f"Spark wrote {written_rows:,} rows to {folder}, but {readable_rows:,} are readable; "
            "nothing was changed: use a folder that the server and all workers of Spark share"
        )


def refuse_references(schema: Any) -> None:
    """Raise BadRequest for a field name that Hadoop would replace."""
    name = next(filter(has_reference, _names(schema)), None)
    if name is not None:
        raise BadRequest(
            f"Spark cannot write the field {name!r}, whose name has {_REFERENCE!r} in it: "
            "rename it in the query"
        )


def has_reference(name: str) -> bool:
    """Return whether Hadoop would replace a part of a name."""
    return _REFERENCE in name


def _names(data_type: Any) -> Iterator[str]:
    """Yield the names of all fields of a type, at every depth."""
    for member in getattr(data_type, "fields", ()):
        yield member.name
        yield from _names(member.dataType)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(data_type, part):
            yield from _names(getattr(data_type, part))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise FailedPrecondition(
            f"rows cannot be written to {folder.parent}: {reason}; choose another folder"
        ) from None


@contextmanager
def view(rows: "DataFrame") -> Iterator[str]:
    """Give the rows a name for a block."""
    name = f"jetbridge_{uuid4().hex}"
    rows.createTempView(name)
    try:
        yield name
    finally:
        with suppress(Exception):  # Spark itself may be gone
            rows.sparkSession.catalog.dropTempView(name)


@contextmanager
def _folder_view(session: SparkConnection, rows: "DataFrame", folder: Path) -> Iterator[str]:
    """Give a view whose inserted rows become files of the folder, whatever its name contains."""
    reader = session.spark.read.schema(rows.schema).option("__globPaths__", "false")
    with view(reader.parquet(str(folder))) as name:
        yield name


def all_rows(
    batches: Iterator[pa.RecordBatch], written_rows: int, folder: str
) -> Iterator[pa.RecordBatch]:
    """Yield the same batches; raise FailedPrecondition at their end if rows are missing."""
    count = 0
    for batch in batches:
        count += batch.num_rows
        yield batch
    refuse_lost(written_rows, count, folder)
