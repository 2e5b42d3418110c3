"""Which files a table refers to in any snapshot it keeps, by their names.

Files of Iceberg have names of their own (there is a UUID in each), so the name alone is compared:
whichever way a location is spelled, a file that is referred to is known again.
"""

from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename
from urllib.parse import unquote

from jetbridge.backends.lake.files import local_path
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError

# So that no query names thousands of files.
_AT_ONCE = 200


def referenced(reader: LakeReader, state: TableState) -> set[str]:
    """Names of data, delete, manifest, metadata and statistics files.

    Raises `QueryError` if a manifest cannot be read: then nobody knows.
    """
    raw = state.raw
    found = {state.location}
    found.update(state.earlier_files())
    for kind in ("statistics", "partition-statistics"):
        found.update(entry["statistics-path"] for entry in raw.get(kind) or ())
    snapshots = state.snapshots()
    lists = [each["manifest-list"] for each in snapshots if "manifest-list" in each]
    manifests = set(_first_column(reader, queries.manifest_paths, lists))
    for snapshot in snapshots:
        manifests.update(snapshot.get("manifests") or ())  # how format 1 may say it
    found.update(lists, manifests)
    found.update(_first_column(reader, queries.live_files, sorted(manifests)))
    return {name for location in found for name in _names(location)}


def _names(location: str) -> tuple[str, str]:
    name = basename(location)
    return name, unquote(name)


def _first_column(
    reader: LakeReader, query: queries.OverFiles, locations: Sequence[str]
) -> Iterator[str]:
    paths = [local_path(each) or each for each in locations]
    for start in range(0, len(paths), _AT_ONCE):
        some = paths[start : start + _AT_ONCE]
        try:
            yield from reader.query(query(some)).column(0).to_pylist()
        except QueryError:
            # Those of different formats have different columns: each is read for itself.
            for path in some:
                yield from reader.query(query([path])).column(0).to_pylist()


def overlap(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether a folder of the one is, or is inside, a folder of the other, or the reverse."""
    ours, theirs = [_folder(each) for each in one], [_folder(each) for each in other]
    return any(a.startswith(b) or b.startswith(a) for a in ours for b in theirs)


def is_below(folder: str, root: str) -> bool:
    """Whether it is inside, and not the root itself."""
    inner, outer = _folder(folder), _folder(root)
    return inner.startswith(outer) and inner != outer and "/../" not in inner


def _folder(location: str) -> str:
    return (local_path(location) or location).rstrip("/") + "/"
