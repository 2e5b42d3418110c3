"""Loads and reads with Microsoft's drivers alone, in Python and in Spark's JVM: the reference."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import mssql_py_core
import mssql_python
import pyarrow as pa
import pyarrow.ipc

from benchmarks.tools import data
from jetbridge.backends.mssql.connection.address import DEFAULT_PORT, Address
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.jars import Jar

WRITERS = 2
_BATCH_ROWS = 65_536
_JDBC = Jar("com.microsoft.sqlserver", "mssql-jdbc", "13.2.1.jre11")
# Settings by which Spark fetches the driver.
JDBC_SETTINGS = {"spark.jars.packages": _JDBC.coordinates}
_ENCRYPT = {"yes": "true", "no": "false", "strict": "strict"}


class BareLoad:
    """Load by several processes, which have a connection and a part of the rows each."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def load(self, table: str) -> float:
        """Return the seconds until all processes have committed."""
        start = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(table)
        for pipe in self._pipes:
            assert pipe.recv() == table
        return time.perf_counter() - start


@contextmanager
def bare_load(address: Address, rows: pa.Table, folder: Path) -> Iterator[BareLoad]:
    processes, pipes = multiprocessing.get_context("spawn"), []
    started = []
    step = -(-rows.num_rows // WRITERS)
    for number in range(WRITERS):
        file = folder / f"bare{number}.arrow"
        _write(file, rows.slice(number * step, step))
        own_end, other_end = processes.Pipe()
        process = processes.Process(target=_work, args=(address, str(file), other_end), daemon=True)
        process.start()
        other_end.close()
        started.append(process)
        pipes.append(own_end)
    try:
        yield BareLoad(pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for process in started:
            process.join()


def _write(file: Path, rows: pa.Table) -> None:
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in data.batches(rows, _BATCH_ROWS):
            writer.write_batch(batch)


def _work(address: Address, file: str, pipe: Connection) -> None:
    """Load into each table whose name comes through the pipe, in one transaction each."""
    connection = mssql_py_core.PyCoreConnection(address.for_core())
    cursor = connection.cursor()
    try:
        while True:
            table = pipe.recv()
            with pa.memory_map(file) as mapped:
                reader = pa.ipc.open_stream(mapped)
                cursor.execute("BEGIN TRANSACTION")
                cursor.bulkcopy_arrow(table, reader, timeout=0, table_lock=True)
                cursor.execute("COMMIT")
            pipe.send(table)
    except EOFError:
        connection.close()


class JdbcLoad:
    """Load by `DataFrame.write` with the driver for Java, from rows in Spark's memory.

    Raise Unavailable if Spark cannot start because its jars cannot be fetched.
    """

    def __init__(self, engine: SparkEngine, address: Address, file: Path) -> None:
        self._engine = engine
        host, _, port = address.server.partition(",")
        self._options = {
            "url": f"jdbc:sqlserver://{host}:{port or DEFAULT_PORT};databaseName="
            f"{address.database};encrypt={_ENCRYPT[address.encrypt]}"
            f";trustServerCertificate={str(address.trust).lower()}",
            "driver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
            "user": address.user,
            "password": address.password,
            "useBulkCopyForBatchInsert": "true",
            "bulkCopyForBatchInsertTableLock": "true",
            # As many rows as a file of jetbridge; the default of 1,000 is many times slower.
            "batchsize": "102400",
            # Other levels run SET IMPLICIT_TRANSACTIONS.
            "isolationLevel": "NONE",
        }
        with engine.session() as session:
            self._rows = session.spark.read.parquet(str(file)).repartition(WRITERS).cache()
            self._rows.count()

    def load(self, table: str) -> float:
        start = time.perf_counter()
        with self._engine.session():
            options = {**self._options, "dbtable": table}
            self._rows.write.format("jdbc").options(**options).mode("append").save()
        return time.perf_counter() - start


@dataclass(frozen=True)
class BareRead:
    """Read by the driver's own stream of batches, on an open connection."""

    connection: mssql_python.Connection

    def count(self, query: str) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return sum(batch.num_rows for batch in cursor.arrow_reader(_BATCH_ROWS))


@contextmanager
def bare_read(address: Address) -> Iterator[BareRead]:
    connection = mssql_python.connect(address.for_odbc(), autocommit=True)
    try:
        yield BareRead(connection)
    finally:
        connection.close()
