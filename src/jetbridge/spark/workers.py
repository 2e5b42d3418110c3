"""What Python functions do in Spark's workers besides their own work."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Spark has a worker look into every archive on its path again before each task.

    PySpark's own is there a dozen times, once for each of its packages: 0.3 s of computing. What
    is forgotten here is found again by the next import that needs it.
    """
    known = sys.path_importer_cache
    for path in [path for path, finder in known.items() if isinstance(finder, zipimporter)]:
        del known[path]
