"""Starts the Python workers of Spark; the setting `spark.python.daemon.module` names this module.

PySpark's own daemon puts its archives on the path of the workers. Before each task a worker forgets
what it knows of its path and reads the directories of all archives again: 0.1 s of computing. Here
the workers use the installed PySpark, and share what the daemon imports before it forks them.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from zipfile import BadZipFile, ZipFile

ARCHIVES = (".zip", ".jar")
# The workers are forks of the daemon, so each has what the daemon has imported.
SHARED_IMPORTS = ("duckdb", "pyarrow.compute", "pyarrow.parquet")
# Says which version of PySpark a folder or an archive has.
_VERSION = "pyspark/version.py"
# A file in each archive that Spark puts on the path: PySpark, py4j, and the jar of Spark's core.
_OF_SPARK = {_VERSION, "py4j/version.py", "org/apache/spark/SparkContext.class"}


def remove_archives(path: list[str]) -> list[str]:
    """Return the path without Spark's archives, if the same version of PySpark is installed.

    Other archives stay: a user may have put them on the path.
    """
    folders = [entry for entry in path if not entry.endswith(ARCHIVES)]
    installed = PathFinder.find_spec("pyspark", folders)
    if installed is None or installed.origin is None:
        return path
    version = Path(installed.origin).with_name("version.py").read_bytes()
    names = {entry: _names(Path(entry)) for entry in path if entry.endswith(ARCHIVES)}
    archived = [Path(entry) for entry in names if _VERSION in names[entry]]
    if any(_read(archive, _VERSION) != version for archive in archived):
        return path
    return [entry for entry in path if not names.get(entry, frozenset()) & _OF_SPARK]


def _names(archive: Path) -> frozenset[str]:
    """Return the names of the files in an archive; none if it cannot be read."""
    try:
        with ZipFile(archive) as file:
            return frozenset(file.namelist())
    except (OSError, BadZipFile):
        return frozenset()


def _read(archive: Path, name: str) -> bytes:
    with ZipFile(archive) as file:
        return file.read(name)


def start() -> None:
    """Run the daemon until Spark ends it."""
    sys.path[:] = remove_archives(sys.path)
    for entry in set(sys.path_importer_cache) - set(sys.path):
        if entry.endswith(ARCHIVES):
            del sys.path_importer_cache[entry]
    for name in SHARED_IMPORTS:
        import_module(name)
    from pyspark import daemon  # noqa: PLC0415 - from the path that is now without archives

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    start()
