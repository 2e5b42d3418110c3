"""CREATE TABLE AS of a query that Spark runs: its rows never leave Spark's workers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.filling import Filling, planned, publish
from jetbridge.backends.mssql.spool import Part, new_folder
from jetbridge.backends.mssql.wire import all_converted
from jetbridge.catalog import CreateTable, Filled
from jetbridge.errors import FailedPrecondition


class SparkSpool:
    """The files that Spark has written; each is a part."""

    def __init__(self, made: Filling, folder: Path) -> None:
        self._made = made
        files = sorted(folder.glob("*.parquet"))
        counted = [(str(file), pq.read_metadata(file).num_rows) for file in files]
        filled = [(file, rows) for file, rows in counted if rows]
        self.parts = [Part(number, (file,), rows) for number, (file, rows) in enumerate(filled)]
        self.rows = sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        return sum(Path(file).stat().st_size for part in self.parts for file in part.files)

    def to_files(self) -> None:
        """They are there."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        batches = (batch for part in self.parts for batch in part.batches())
        return all_converted(self._made.columns, batches)


def create_on_spark(database: Database, schema: str, request: CreateTable, query: str) -> Filled:
    made = planned(database, schema, request)
    if database.engine is None:
        raise FailedPrecondition("there is no Spark to run the query")
    folder = new_folder(database.options)
    try:
        with database.engine.session() as session:
            session.sql(query).write.parquet(str(folder))
        source = SparkSpool(made, folder)
        if made.is_auto():
            for batch in source.batches():
                made.measure(batch)
        publish(made, source)
        return Filled(source.rows, source.size)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
