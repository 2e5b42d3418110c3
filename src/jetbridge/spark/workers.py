"""Does what Python functions in Spark's workers need besides their own work."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Remove zip archives from Python's import cache, which a later import fills again.

    Before each task, Spark's worker searches every archive in it. PySpark's own is there a dozen
    times, once for each of its packages: 0.3 s of computing.
    """
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimporter)]:
        del known[path]
