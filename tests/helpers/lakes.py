"""One Spark for the tests of a process (tests/conftest.py), and lakes in folders of their own."""

import atexit
import itertools
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from jetbridge.backends.lake import LakeCatalog
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.jars import S3_FILES
from tests.helpers import cluster
from tests.plugins import class_archive

# The address of a cluster to run on, e.g. spark://127.0.0.1:7077; else Spark runs beside us.
MASTER = "JETBRIDGE_TEST_MASTER"

_numbers = itertools.count()


@cache
def folder() -> Path:
    """Return the folder of the lakes, which is removed when the run ends."""
    return Path(tempfile.mkdtemp(prefix="jetbridge-tests-"))


@cache
def engine() -> SparkEngine:
    """Return the Spark of this process, which starts when it is first used."""
    master = os.environ.get(MASTER)
    settings = cluster.settings(master) if master else None
    made = SparkEngine(settings, log_file=folder() / "spark.log", scratch=folder())
    atexit.register(close)
    # Nobody uses it: it says that what PostgreSQL and S3 need must come along.
    uri = "jdbc:postgresql://127.0.0.1/none"
    made.add_catalog("other", {"type": "jdbc", "uri": uri, "io-impl": S3_FILES})
    return made


def is_used() -> bool:
    """Return whether this process has started Spark."""
    return bool(engine.cache_info().currsize) and engine().status() != "not started"


def close() -> None:
    """End Spark, if it runs, and remove the lakes; `engine` then makes another Spark."""
    if engine.cache_info().currsize:
        engine().stop()
    if folder.cache_info().currsize:
        shutil.rmtree(folder(), ignore_errors=True)
    for made in (engine, folder, reader):
        made.cache_clear()


@cache
def reader() -> LakeReader:
    """Share one DuckDB: to open it with its extensions takes half a second."""
    return LakeReader([str(folder())])


def new_lake() -> LakeCatalog:
    """Return an empty lake."""
    engine().start()
    class_archive.begin()
    name = f"lake{next(_numbers)}"
    return LakeCatalog(name, folder() / name, engine(), reader=reader())


def ready_lake() -> LakeCatalog:
    """Return an empty lake whose Spark is up, for tests with deadlines."""
    lake = new_lake()
    with engine().session():
        return lake
