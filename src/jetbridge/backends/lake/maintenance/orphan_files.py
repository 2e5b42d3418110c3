"""Finds files that no snapshot refers to, and which files a table refers to.

Files of Iceberg have names of their own (there is a UUID in each), so only the names are compared:
a file that a table refers to is known, however its location is spelled.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from posixpath import basename
from typing import Any
from urllib.parse import unquote

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse import server_locks
from jetbridge.backends.lake.warehouse.server_locks import WriteJob
from jetbridge.backends.lake.warehouse.warehouse import Warehouse
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError
from jetbridge.spark.engine import SparkConnection

# No query names more files than this.
_FILES_PER_QUERY = 200


def find_orphans(session: SparkConnection, table: Any, older_than: datetime) -> list[str]:
    """Return the orphan files of a table by Iceberg's own search.

    Its procedure in SQL would refuse less than a day.
    """
    java = session.jvm.java
    # Called for each file in place of its deletion: it does nothing.
    idle = java.lang.invoke.MethodHandles.identity(java.lang.Class.forName("java.lang.Object"))
    consumer = java.lang.Class.forName("java.util.function.Consumer")
    nothing = java.lang.invoke.MethodHandleProxies.asInterfaceInstance(consumer, idle)
    actions = session.jvm.org.apache.iceberg.spark.actions.SparkActions
    search = actions.get(session.spark._jsparkSession).deleteOrphanFiles(table)
    if local_path(str(table.location())) is None:
        # Hadoop need not have the object store; Iceberg's own files do.
        search = search.usePrefixListing(True)
    milliseconds = int(older_than.timestamp() * 1000)
    answer = search.olderThan(milliseconds).deleteWith(nothing).execute()
    return [str(location) for location in answer.orphanFileLocations()]


def removable(lake: Lake, state: TableState, locations: Sequence[str]) -> list[str]:
    """Return the files that no live server may still commit, and no other table has."""
    if not locations:
        return []
    folder = lake.warehouse.lock.folder
    live = set() if folder is None else server_locks.live_servers(folder)
    prefixes = tuple(f"jetbridge-{name}-" for name in live)
    jobs = [] if folder is None else server_locks.live_jobs(folder)
    jobs_of_table = [job for job in jobs if job.identity == state.identity]
    taken = _files_of_others(lake, state)
    return [
        location
        for location in locations
        if basename(location) not in taken
        and not basename(location).startswith(prefixes)
        and not _may_be_of(jobs_of_table, location)
    ]


def _files_of_others(lake: Lake, state: TableState) -> set[str]:
    """Return the files of tables that share a folder with this one, as after a rename."""
    names: set[str] = set()
    for pointer in lake.tables.listing().tables.values():
        other = lake.tables.state(pointer)
        if other.identity != state.identity and overlap(folders_of(state), folders_of(other)):
            names |= referenced_names(lake.read.reader, other)
    return names


def _may_be_of(jobs: Sequence[WriteJob], location: str) -> bool:
    """Return whether a job that runs now may have written the file."""
    path = local_path(location)
    if not jobs or path is None:
        return bool(jobs)
    try:
        changed = Path(path).stat().st_mtime
    except FileNotFoundError:
        return False
    return any(changed >= job.started - 1 for job in jobs)


def remove_files(warehouse: Warehouse, locations: Sequence[str]) -> None:
    """Remove files, and the checksums of Hadoop beside them."""
    warehouse.files.delete(locations)
    for location in locations:
        path = local_path(location)
        if path is not None:
            file = Path(path)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def referenced_names(reader: LakeReader, state: TableState) -> set[str]:
    """Return the names of all files that the table refers to in any kept snapshot.

    Raises QueryError if a manifest cannot be read: then the files are not known.
    """
    metadata = state.file.metadata
    locations = {state.location, *state.file.earlier_files()}
    for statistics in (metadata.statistics, metadata.partition_statistics):
        locations.update(file.statistics_path for file in statistics or ())
    snapshots = state.snapshots()
    lists = [s.manifest_list for s in snapshots if s.manifest_list is not None]
    manifests = set(_first_column(reader, queries.manifest_paths, lists))
    for snapshot in snapshots:
        manifests.update(snapshot.manifests or ())
    locations.update(lists, manifests)
    locations.update(_first_column(reader, queries.live_files, sorted(manifests)))
    return {name for location in locations for name in _names(location)}


def _names(location: str) -> tuple[str, str]:
    name = basename(location)
    return name, unquote(name)


def _first_column(
    reader: LakeReader, query: queries.OverFiles, locations: Sequence[str]
) -> Iterator[str]:
    paths = [local_path(location) or location for location in locations]
    for start in range(0, len(paths), _FILES_PER_QUERY):
        some = paths[start : start + _FILES_PER_QUERY]
        try:
            yield from reader.query(query(some)).column(0).to_pylist()
        except QueryError:
            # Files of different formats have different columns, so they are read one by one.
            for path in some:
                yield from reader.query(query([path])).column(0).to_pylist()


def folders_of(state: TableState) -> list[str]:
    """Return the folders in which a table has files."""
    return [state.folder, state.data_folder]


def overlap(folders: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether a folder is, or is inside, one of the others, or the reverse."""
    mine, theirs = [_folder(f) for f in folders], [_folder(f) for f in others]
    return any(a.startswith(b) or b.startswith(a) for a in mine for b in theirs)


def is_below(folder: str, root: str) -> bool:
    """Return whether a folder is inside the root, and not the root itself."""
    inner, outer = _folder(folder), _folder(root)
    return inner.startswith(outer) and inner != outer and "/../" not in inner


def _folder(location: str) -> str:
    return (local_path(location) or location).rstrip("/") + "/"
