"""Notes the folders that the sweeper removes: of dropped tables and of tables being created.

A dropped table leaves the catalog at once; its files stay for those who still read them. The note
is written first, so a crash leaves a note too many, never one too few: the sweeper checks in the
catalog whether the table exists.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from uuid import uuid4

import pyarrow.fs as pafs

from jetbridge.backends.lake.files import Files

FOLDER = ".jetbridge/dropped"
_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 60


@dataclass(frozen=True)
class DroppedTable:
    """Note a folder.

    `metadata` is the table's last metadata file, `maker` the server that creates the table.
    """

    folder: str
    title: str
    at: float
    identity: str = ""
    metadata: str = ""
    maker: str = ""


class DroppedTables:
    """Own the notes of one warehouse."""

    def __init__(self, files: Files, warehouse: str) -> None:
        self._files, self._folder = files, f"{warehouse}/{FOLDER}"
        # Notes that replace what is written, or that could not be written.
        self._remembered: dict[str, DroppedTable] = {}

    def add(self, note: DroppedTable) -> str:
        """Write a note, and return its location; on a full disk it is only remembered."""
        text = json.dumps(asdict(note)).encode()
        try:
            return self._files.write_new(self._folder, "", ".json", text)
        except OSError:
            location = f"{self._folder}/{uuid4().hex}.json"
            self._remembered[location] = note
            return location

    def withdraw(self, location: str) -> None:
        """Remove a note."""
        self._remembered.pop(location, None)
        self._files.delete([location])

    def all(self) -> dict[str, DroppedTable]:
        """Return all notes by location, without those that a crash left half-written."""
        filesystem, path = self._files.filesystem(self._folder)
        selector = pafs.FileSelector(path, allow_not_found=True)
        notes = {}
        for info in filesystem.get_file_info(selector):
            location = f"{self._folder}/{info.base_name}"
            with suppress(ValueError, TypeError, OSError):
                notes[location] = DroppedTable(**json.loads(self._files.read(location)))
        return {**notes, **self._remembered}

    @contextmanager
    def creating(self, folder: str, title: str, server: str) -> Iterator[None]:
        """Note the folder of a table that the block creates; if that fails, it is removed later."""
        note = DroppedTable(folder, title, time.time(), maker=server)
        location = self.add(note)
        try:
            yield
        except BaseException:
            # The written note counts once this server is dead.
            self._remembered[location] = DroppedTable(folder, title, time.time())
            raise
        self.withdraw(location)


def new_folder(warehouse: str, namespace: str, name: str) -> str:
    """Return a folder that no table ever had: another table may have had the same name."""
    levels = "/".join(_slug(level) for level in namespace.split("."))
    return f"{warehouse}/{levels}/{_slug(name)}-{uuid4().hex[:8]}"


def _slug(name: str) -> str:
    """Return a part of a path that cannot lead out of the warehouse."""
    return _PLAIN.sub("_", name)[:_LONGEST] or "_"
