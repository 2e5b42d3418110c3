"""Records the tables below `recorded`: `python -m tests.unit.backends.lake.record`.

Spark writes them with relative locations, so that tests can read them in any folder: they change
into `tests/unit/backends/lake`, to which the locations belong.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from jetbridge.spark.engine import SparkConnection, SparkEngine

HERE = Path(__file__).resolve().parent
FOLDER = "recorded"
PROPERTIES = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.distribution-mode": "none",
    "commit.manifest.min-count-to-merge": "100",
}
# By table: its columns in JSON, and the statements that change it; {t} is its name.
COLUMNS = (
    '{"type": "struct", "schema-id": 0, "fields": ['
    '{"id": 1, "name": "id", "required": true, "type": "long"},'
    '{"id": 2, "name": "name", "required": false, "type": "string", "doc": "who"}]}'
)
TABLES = {
    "plain": [
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO {t} VALUES (3, 'c')",
        "ALTER TABLE {t} ADD COLUMN size INT",
        "INSERT INTO {t} VALUES (4, 'd', 40), (5, 'e', 50)",
        "ALTER TABLE {t} RENAME COLUMN name TO label",
        "DELETE FROM {t} WHERE id = 4",
    ],
    "laid_out": [
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)",
        "ALTER TABLE {t} WRITE LOCALLY ORDERED BY name DESC NULLS LAST",
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL)",
        "ALTER TABLE {t} CREATE BRANCH side",
        "ALTER TABLE {t} CREATE TAG first RETAIN 30 DAYS",
        "INSERT INTO {t} VALUES (4, 'd')",
    ],
}


def record(session: SparkConnection) -> None:
    catalog = session.catalog("rec")
    parse = session.static("org.apache.iceberg.SchemaParser.fromJson")
    identify = session.static("org.apache.iceberg.catalog.TableIdentifier.parse")
    session.spark.sql("CREATE NAMESPACE rec.s")
    for name, statements in TABLES.items():
        builder: Any = catalog.buildTable(identify(f"s.{name}"), parse(COLUMNS))
        builder.withLocation(f"{FOLDER}/{name}").withProperties(PROPERTIES).create()
        for statement in statements:
            session.spark.sql(statement.format(t=f"rec.s.{name}"))


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        engine = SparkEngine({"spark.master": "local[1]"}, log_file=Path(scratch, "spark.log"))
        uri = f"jdbc:sqlite:{scratch}/catalog.db"
        engine.add_catalog(
            "rec",
            {"type": "jdbc", "uri": uri, "warehouse": scratch, "jdbc.schema-version": "V1"}
            | {"cache-enabled": "false"},
        )
        with engine.session() as session:
            record(session)
            work = Path(session.jvm.java.lang.System.getProperty("user.dir"))
            shutil.rmtree(HERE / FOLDER, ignore_errors=True)
            shutil.copytree(work / FOLDER, HERE / FOLDER, ignore=shutil.ignore_patterns(".*.crc"))
        engine.stop()


if __name__ == "__main__":
    main()
