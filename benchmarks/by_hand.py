"""Does the work of the lake by hand, in the JVM of the server, as the reference.

The reference runs in actions of the measured server, because PySpark has one JVM in a process. An
action returns the seconds of the work alone, without the call.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tools import data
from jetbridge.backends.lake import LakeCatalog
from jetbridge.spark.engine import SparkConnection, SparkEngine

Action = Callable[[bytes], Iterator[bytes]]

_WITH_IDS = pa.schema(
    [field.with_metadata({"PARQUET:field_id": str(i)}) for i, field in enumerate(data.SCHEMA, 1)]
)


class ByHand:
    """Serve the reference work as actions `bench_…`."""

    def __init__(self, catalog: LakeCatalog, engine: SparkEngine) -> None:
        self._catalog, self._engine = catalog, engine
        self._row = data.rows(1).cast(_WITH_IDS)

    def actions(self) -> dict[str, Action]:
        works = {"sql": self._sql, "to_arrow": self._to_arrow, "append": self._append}
        return {
            "bench_nothing": lambda _: iter([b""]),
            "bench_metadata": self._metadata,
            **{f"bench_{name}": self._timed(work) for name, work in works.items()},
        }

    def _timed(self, work: Callable[[SparkConnection, str], float]) -> Action:
        def run(body: bytes) -> Iterator[bytes]:
            with self._engine.session() as session:
                yield json.dumps(work(session, body.decode())).encode()

        return run

    def _metadata(self, body: bytes) -> Iterator[bytes]:
        """Return the current metadata file of a table."""
        schema, name = body.decode().split(".")
        yield self._catalog.lake.tables.load(schema, name).location.encode()

    def _sql(self, session: SparkConnection, text: str) -> float:
        start = time.perf_counter()
        session.spark.sql(text)
        return time.perf_counter() - start

    def _to_arrow(self, session: SparkConnection, table: str) -> float:
        start = time.perf_counter()
        rows = session.spark.table(table).toArrow()
        seconds = time.perf_counter() - start
        assert rows.num_rows
        return seconds

    def _append(self, session: SparkConnection, name: str) -> float:
        """Write one row with pyarrow and commit the file, without any check."""
        iceberg: Any = session.jvm.org.apache.iceberg
        catalog = session.catalog(self._catalog.lake.name)
        identifier = iceberg.catalog.TableIdentifier.parse(name)
        start = time.perf_counter()
        table = catalog.loadTable(identifier)
        folder = Path(table.location().removeprefix("file:")) / "data"
        folder.mkdir(exist_ok=True)
        path = str(folder / f"{uuid4().hex}.parquet")
        pq.write_table(self._row, path)
        source = table.io().newInputFile(path)
        config = iceberg.MetricsConfig.forTable(table)
        metrics = iceberg.parquet.ParquetUtil.fileMetrics(source, config)
        builder = iceberg.DataFiles.builder(table.spec()).withInputFile(source)
        file = builder.withFormat("PARQUET").withMetrics(metrics).build()
        table.newAppend().appendFile(file).commit()
        return time.perf_counter() - start
