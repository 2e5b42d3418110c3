"""A process that begins an INSERT and waits to be killed: `doomed_insert.py WAREHOUSE SERVER`."""

import sys
import time
from pathlib import Path

import pyarrow as pa

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.options import LakeOptions
from jetbridge.catalog import DMLOptions
from jetbridge.spark.engine import SparkEngine


def main(warehouse: Path, server: str) -> None:
    engine = SparkEngine(log_file=warehouse / "spark.log")
    options = LakeOptions(str(warehouse), server=server)
    table = LakeCatalog("lake", warehouse, engine, options=options).load_schema("s").load_table("t")
    with table.inserting(DMLOptions()) as write:
        for _ in range(3):
            write(pa.record_batch({"id": pa.array(range(130_000))}))
        sys.stdout.write("writing\n")
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
