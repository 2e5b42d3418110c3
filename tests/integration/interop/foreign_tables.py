"""Tables as other engines make them: s.NAME of (id, name), each with the rows of IDS."""

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.warehouse.java_catalog import identifier
from tests.helpers.lakes import engine
from tests.integration.interop.session import spark_sql

IDS = [0, 1, 2, 4, 5, 6, 7, 8, 9]
_MERGE_ON_READ = ", ".join(
    f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge")
)


def created_by_spark(
    lake: LakeCatalog, name: str, version: int, columns: str, layout: str = "", **more: str
) -> str:
    """Return the name in SQL; of a table without layout, rows are deleted without new files."""
    title = f"{lake.lake.name}.s.{name}"
    listed = "".join(f", 'write.{key}' = '{value}'" for key, value in more.items())
    modes = f", {_MERGE_ON_READ}" if version > 1 and not layout else ""
    spark_sql(
        f"CREATE TABLE {title} ({columns}) {layout} "
        f"TBLPROPERTIES ('format-version' = '{version}'{modes}{listed})"
    )
    return title


def by_spark(lake: LakeCatalog, name: str, version: int, layout: str = "", **more: str) -> None:
    """Write two files; row 3 is deleted."""
    title = created_by_spark(lake, name, version, "id BIGINT, name STRING", layout, **more)
    spark_sql(f"INSERT INTO {title} SELECT id, concat('Nº ', id % 3) FROM range(0, 10, 1, 2)")
    spark_sql(f"DELETE FROM {title} WHERE id = 3")


def by_pyiceberg(lake: LakeCatalog, name: str, version: int, *, partitioned: bool = False) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    fields = [PartitionField(2, 1000, IdentityTransform(), "by_name")] if partitioned else []
    made = lake.lake.iceberg.create_table(
        f"s.{name}",
        schema,
        partition_spec=PartitionSpec(*fields),
        properties={"format-version": str(version)},
    )
    made.append(pa.table({"id": range(6), "name": ["a", None, "ü", "weg", None, ""]}))
    made.append(pa.table({"id": range(6, 10), "name": ["日本", "b", None, "c"]}))
    made.delete("id = 3")


def with_equality_deletes(lake: LakeCatalog, name: str, version: int) -> None:
    """Delete rows by their key, wherever they are, as Flink does."""
    title = created_by_spark(lake, name, version, "id BIGINT, name STRING")
    spark_sql(f"INSERT INTO {title} SELECT id, concat('Nº ', id) FROM range(10)")
    folder = lake.load_schema("s").load_table(name).state.folder
    path = f"{folder}/data/deleted-{uuid.uuid4().hex}.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([3])], schema=pa.schema([field])), path)
    with engine().session() as session:
        table = session.catalog(lake.lake.name).loadTable(identifier(session, "s", name))
        gateway: Any = session.spark.sparkContext._gateway
        keys = gateway.new_array(session.jvm.int, 1)
        keys[0] = 1
        builder = session.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        file = table.io().newInputFile(path)
        formats = session.jvm.org.apache.iceberg.FileFormat
        deleted = builder.ofEqualityDeletes(keys).withFormat(formats.PARQUET).withInputFile(file)
        table.newRowDelta().addDeletes(deleted.withRecordCount(1).build()).commit()


def of_files_without_ids(lake: LakeCatalog, name: str) -> None:
    """Add Parquet files that are older than the table and know nothing of Iceberg."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    made = lake.lake.iceberg.create_table(f"s.{name}", schema)
    path = f"{made.location()}/data/old.parquet".removeprefix("file:")
    made.append(pa.table({"id": IDS[1:], "name": ["x"] * len(IDS[1:])}))
    pq.write_table(pa.table({"id": IDS[:1], "name": ["old"]}), path)
    made.add_files([path])


MADE: dict[str, Callable[[LakeCatalog, str], None]] = {
    "spark_v1": lambda lake, name: by_spark(lake, name, 1, "PARTITIONED BY (truncate(1, id))"),
    "spark_v2": lambda lake, name: by_spark(lake, name, 2),
    "spark_v2_orc": lambda lake, name: by_spark(lake, name, 2, **{"format.default": "orc"}),
    "spark_v2_partitioned": lambda lake, name: by_spark(lake, name, 2, "PARTITIONED BY (name)"),
    "spark_v2_by_value": lambda lake, name: with_equality_deletes(lake, name, 2),
    "spark_v3": lambda lake, name: by_spark(
        lake, name, 3, **{"metadata.compression-codec": "gzip"}
    ),
    "spark_v3_avro": lambda lake, name: by_spark(lake, name, 3, **{"format.default": "avro"}),
    "spark_v3_partitioned": lambda lake, name: by_spark(lake, name, 3, "PARTITIONED BY (name)"),
    "pyiceberg_v1": lambda lake, name: by_pyiceberg(lake, name, 1),
    "pyiceberg_v2_partitioned": lambda lake, name: by_pyiceberg(lake, name, 2, partitioned=True),
    "files_without_ids": of_files_without_ids,
}
