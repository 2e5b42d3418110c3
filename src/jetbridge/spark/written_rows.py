"""Rows that Spark writes to files for others: counted, and compared with what is there to read.

Spark's workers write by path, and what they wrote is on their machine. So a folder that is not
shared would lose their rows, unless someone counts: the tasks whose output was committed say how
many rows they wrote, each once, however often a task was tried.
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

# Hadoop puts its settings, in which are all of Spark's, in the place of what begins so: in the
# schema of a Parquet file that Spark writes or reads, too.
_REFERENCE = "${"
# Of a column that is NULL in all rows.
_VOID = "void"


@dataclass(frozen=True)
class Written:
    """Parquet files, in the order of their rows, and how many rows and bytes each has.

    `secrets` are what DuckDB needs to reach them, as statements.
    """

    files: tuple[tuple[str, int, int], ...]
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _, _ in self.files)

    @property
    def rows(self) -> int:
        return sum(rows for _, rows, _ in self.files)

    @property
    def size(self) -> int:
        return sum(size for _, _, size in self.files)


def file_columns(count: int) -> list[str]:
    """What the columns of files are called that Spark writes or reads."""
    return [f"c{number}" for number in range(count)]


def write_parquet(session: SparkConnection, query: str, folder: Path) -> Written:
    """The rows of a query in Spark SQL in a new folder; the columns are `file_columns`.

    Raises FailedPrecondition if not all rows are there.
    """
    rows = plain(session, query)
    _make(folder)
    with view(rows) as source, _folder_view(session, rows, folder) as target:
        count = rows_in_files(session.sql(sql.insert_all(sql.identifier(target), source)))
    found = readable(sorted(folder.glob("*.parquet")))
    refuse_lost(count, found.rows, str(folder))
    return found


def plain(session: SparkConnection, query: str) -> "DataFrame":
    """A query whose columns are `file_columns`, each of a type that files have."""
    session.check_query(query)
    rows = session.sql(query)
    names = file_columns(len(rows.columns))
    found = rows.toDF(*names)
    refuse_references(found.schema)
    untyped = [
        n for n, f in zip(names, found.schema, strict=True) if f.dataType.typeName() == _VOID
    ]
    return found.withColumns({name: found[name].cast("string") for name in untyped})


def rows_in_files(insert: "DataFrame") -> int:
    """How many rows an INSERT of Spark has written into files, as the committed tasks say.

    These counts come with the result of each task. Those of `observe` come later, as an event,
    which Spark drops when it is busy; and accumulators may count a task that was repeated twice.
    """
    return int(_executed(insert).metrics().apply("numOutputRows").value())


def rows_in_table(insert: "DataFrame") -> int:
    """The same for a table of Iceberg."""
    return int(_executed(insert).commitProgress().get().numOutputRows())


def _executed(insert: "DataFrame") -> Any:
    """The command in Spark's plan, which has run; an adaptive plan wraps it."""
    plan: Any = insert._jdf.queryExecution().commandExecuted().commandPhysicalPlan()
    while True:
        name = str(plan.getClass().getSimpleName())
        if name == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        elif name.endswith("QueryStageExec"):
            plan = plan.plan()
        else:
            return plan


def readable(files: Iterable[str | Path]) -> Written:
    """Those of the files that this process sees."""
    seen = []
    for file in files:
        with suppress(FileNotFoundError):
            rows = int(pq.read_metadata(file).num_rows)
            seen.append((str(file), rows, Path(file).stat().st_size))
    return Written(tuple(seen))


def refuse_lost(written: int, found: int, folder: str) -> None:
    """Raises FailedPrecondition if what Spark wrote is not what there is to read."""
    if written != found:
        raise FailedPrecondition(
            f"Spark wrote {written:,} rows to {folder}, and {found:,} of them are there; nothing "
            "was changed: use a folder that the server and all workers of Spark share"
        )


def refuse_references(schema: Any) -> None:
    """Raises BadRequest for names that Hadoop would replace."""
    found = next(filter(has_reference, _names(schema)), None)
    if found is not None:
        raise BadRequest(
            f"Spark cannot pass on the field {found!r}, whose name has {_REFERENCE!r} in it: "
            "rename it in the query"
        )


def has_reference(name: str) -> bool:
    """Whether Hadoop would put something else in its place."""
    return _REFERENCE in name


def _names(kind: Any) -> Iterator[str]:
    """Of all fields, however deep."""
    for each in getattr(kind, "fields", ()):
        yield each.name
        yield from _names(each.dataType)
    for part in ("elementType", "keyType", "valueType"):
        if hasattr(kind, part):
            yield from _names(getattr(kind, part))


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
    """The rows under a name, for as long as the block lasts."""
    name = f"jetbridge_{uuid4().hex}"
    rows.createTempView(name)
    try:
        yield name
    finally:
        with suppress(Exception):  # Spark itself may be gone
            rows.sparkSession.catalog.dropTempView(name)


@contextmanager
def _folder_view(session: SparkConnection, rows: "DataFrame", folder: Path) -> Iterator[str]:
    """What is inserted there becomes files of the folder, whatever characters its name has."""
    there = session.spark.read.schema(rows.schema).option("__globPaths__", "false")
    with view(there.parquet(str(folder))) as name:
        yield name


def all_rows(batches: Iterator[pa.RecordBatch], wanted: int, what: str) -> Iterator[pa.RecordBatch]:
    """The same batches; raises at their end if they had not so many rows."""
    count = 0
    for batch in batches:
        count += batch.num_rows
        yield batch
    refuse_lost(wanted, count, what)
