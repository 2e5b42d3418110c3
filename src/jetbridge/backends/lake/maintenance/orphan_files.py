"""Files in the folder of a table that none of its snapshots refers to, as Iceberg finds them."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from posixpath import basename
from typing import Any

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.maintenance.references import overlap, referenced
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.write import server_locks
from jetbridge.backends.lake.write.server_locks import WriteJob
from jetbridge.spark.engine import SparkConnection


def found(session: SparkConnection, table: Any, older_than: datetime) -> list[str]:
    """Iceberg's own search; its procedure in SQL would refuse less than a day."""
    java = session.jvm.java
    # Called for each file in place of its deletion: it does nothing.
    idle = java.lang.invoke.MethodHandles.identity(java.lang.Class.forName("java.lang.Object"))
    consumer = java.lang.Class.forName("java.util.function.Consumer")
    nothing = java.lang.invoke.MethodHandleProxies.asInterfaceInstance(consumer, idle)
    actions = session.jvm.org.apache.iceberg.spark.actions.SparkActions
    search = actions.get(session.spark._jsparkSession).deleteOrphanFiles(table)
    if local_path(str(table.location())) is None:
        # Hadoop need not know the object store; Iceberg's own files do.
        search = search.usePrefixListing(True)
    moment = int(older_than.timestamp() * 1000)
    answer = search.olderThan(moment).deleteWith(nothing).execute()
    return [str(location) for location in answer.orphanFileLocations()]


def removable(lake: Lake, state: TableState, locations: Sequence[str]) -> list[str]:
    """Without what a living server may still make part of the table, or another table has."""
    if not locations:
        return []
    folder = lake.presence.folder
    live = set() if folder is None else server_locks.live_servers(folder)
    prefixes = tuple(f"jetbridge-{name}-" for name in live)
    jobs = [] if folder is None else server_locks.live_jobs(folder)
    mine = [job for job in jobs if job.identity == state.identity]
    taken = _of_others(lake, state)
    return [
        location
        for location in locations
        if basename(location) not in taken
        and not basename(location).startswith(prefixes)
        and not _may_be_of(mine, location)
    ]


def _of_others(lake: Lake, state: TableState) -> set[str]:
    """Files of tables that share a folder with this one, as after a change of names."""
    folders = [state.folder, lake.data_folder(state)]
    names: set[str] = set()
    for pointer in lake.pointers.listing().tables.values():
        other = lake.state(pointer)
        if other.identity != state.identity and overlap(
            folders, [other.folder, lake.data_folder(other)]
        ):
            names |= referenced(lake.reader, other)
    return names


def _may_be_of(jobs: Sequence[WriteJob], location: str) -> bool:
    """Whether a job that runs now may have written it."""
    path = local_path(location)
    if not jobs or path is None:
        return bool(jobs)
    try:
        changed = Path(path).stat().st_mtime
    except FileNotFoundError:
        return False
    return any(changed >= job.started - 1 for job in jobs)


def remove(lake: Lake, locations: Sequence[str]) -> None:
    lake.files.delete(locations)
    for location in locations:
        path = local_path(location)
        if path is not None:  # Hadoop's checksum
            file = Path(path)
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
