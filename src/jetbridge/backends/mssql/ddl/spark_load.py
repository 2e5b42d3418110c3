"""CREATE TABLE AS of a query that Spark runs: its rows never leave Spark's workers."""

from collections.abc import Iterator

import pyarrow as pa

from jetbridge.backends.mssql.database import Database
from jetbridge.backends.mssql.ddl.create_table_as import TableLoad, planned, publish
from jetbridge.backends.mssql.write.driver_batches import all_converted
from jetbridge.backends.mssql.write.spool import SpoolPart, new_folder, on_disk
from jetbridge.catalog import CreateTable, Filled
from jetbridge.errors import FailedPrecondition
from jetbridge.spark.shared_folders import refuse_unshared
from jetbridge.spark.written_rows import Written, all_rows, write_parquet


class SparkSpool:
    """The files that Spark has written; each is a part."""

    def __init__(self, made: TableLoad, written: Written) -> None:
        self._made = made
        filled = [(file, rows) for file, rows, _ in written.files if rows]
        self.parts = [
            SpoolPart(number, (file,), rows) for number, (file, rows) in enumerate(filled)
        ]
        self.rows, self.size = written.rows, written.size

    def to_files(self) -> None:
        """They are there."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        batches = (batch for part in self.parts for batch in part.batches())
        return all_converted(self._made.columns, all_rows(batches, self.rows, "its spool"))


def create_on_spark(database: Database, schema: str, request: CreateTable, query: str) -> Filled:
    made = planned(database, schema, request)
    if database.engine is None:
        raise FailedPrecondition("there is no Spark to run the query")
    with on_disk(database.options):
        place = new_folder(database.options)
    folder = place.path / "rows"
    try:
        with database.engine.session() as session:
            refuse_unshared(session, database.options.spool_folder())
            source = SparkSpool(made, write_parquet(session, query, folder))
        if made.is_auto():
            for batch in source.batches():
                made.measure(batch)
        publish(made, source)
        return Filled(source.rows, source.size)
    finally:
        place.remove()
