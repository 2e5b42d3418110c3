"""Starts the Python workers of Spark; the setting `spark.python.daemon.module` names this module.

PySpark's own daemon puts its archives on the path of the workers. Before each task a worker forgets
what it knows of its path and reads the directories of all archives again: 0.1 s of computing. Here
the workers use the installed PySpark, and share what the daemon imports before it forks them.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from zipfile import ZipFile

ARCHIVES = (".zip", ".jar")
# The workers are forks of the daemon, so each has what the daemon has imported.
SHARED_IMPORTS = ("duckdb", "pyarrow.compute", "pyarrow.parquet")
# Says which version of PySpark a folder or an archive has.
_VERSION = "pyspark/version.py"


def remove_archives(path: list[str]) -> list[str]:
    """Return the path without archives, if PySpark is installed in the version of its archive."""
    folders = [entry for entry in path if not entry.endswith(ARCHIVES)]
    installed = PathFinder.find_spec("pyspark", folders)
    if installed is None or installed.origin is None:
        return path
    version = Path(installed.origin).with_name("version.py").read_bytes()
    archives = [Path(entry) for entry in path if entry.endswith(ARCHIVES)]
    if any(_archived_version(archive) not in (None, version) for archive in archives):
        return path
    return folders


def _archived_version(archive: Path) -> bytes | None:
    """Return what an archive says of its version of PySpark; None if it has no PySpark."""
    if not archive.is_file():
        return None
    with ZipFile(archive) as file:
        return file.read(_VERSION) if _VERSION in file.namelist() else None


def start() -> None:
    """Run the daemon until Spark ends it."""
    sys.path[:] = remove_archives(sys.path)
    for entry in [entry for entry in sys.path_importer_cache if entry not in sys.path]:
        if entry.endswith(ARCHIVES):
            del sys.path_importer_cache[entry]
    for name in SHARED_IMPORTS:
        import_module(name)
    from pyspark import daemon  # noqa: PLC0415 - from the path that is now without archives

    daemon.manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    start()
