"""Errors about files of a table that cannot be read: one sentence with the table and the file."""

import re

from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.errors import Unavailable

_LONGEST_REASON = 330
_LONGEST_LOCATION = 180
_FILE = re.compile(r"(?:\w+:)?/[^\s'\"]+\.(?:avro|orc|parquet|puffin|json)\b")
# How DuckDB says that a file is outside of the folders it may read.
_FORBIDDEN = "disabled by configuration"
# How DuckDB says that the name of a partition is none in Avro; other writers make such names.
_AVRO_NAME = "Invalid Avro identifier"
_AVRO_HINT = (
    "; a partition has a name with letters that are not ASCII: repeat ALTER TABLE ... SET "
    "PARTITIONED BY, which names it anew, and run jetbridge optimize"
)
_HINT = "; if it belongs to the lake, name its folder in the property jetbridge.folders"


def unreadable_table(state: TableState, problem: object, location: str = "") -> Unavailable:
    """The location is told unless the problem tells it by itself, in its first words."""
    text = str(problem)
    reason = text.split("\n", 1)[0].strip().rstrip(".")
    location = location or _file_in(text)
    if location and location.rsplit("/", 1)[-1] not in reason[:_LONGEST_REASON]:
        reason = f"file {_cut(location)}: {reason}"
    hint = _HINT if _FORBIDDEN in reason else _AVRO_HINT if _AVRO_NAME in reason else ""
    return Unavailable(f"table {state.title()!r} cannot be read: {reason[:_LONGEST_REASON]}{hint}")


def is_named(problem: object) -> bool:
    """Whether it tells by itself which file it is about."""
    return bool(_file_in(str(problem)))


def _file_in(text: str) -> str:
    """The file that is complained of, somewhere in the midst of many words."""
    found = _FILE.search(text)
    return found[0] if found else ""


def _cut(location: str) -> str:
    return location if len(location) <= _LONGEST_LOCATION else "..." + location[-_LONGEST_LOCATION:]
