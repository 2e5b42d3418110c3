"""Notes of folders that will have to go: of dropped tables, and of tables that are being made.

A dropped table is taken out of the catalog at once, its files stay for those who still read them.
The note is written first, so that a crash leaves a note too many, never one too few: whoever
sweeps looks in the catalog whether the table is there.
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
    """`metadata` is the table's last metadata file; `maker` the server that is making the table."""

    folder: str
    title: str
    at: float
    identity: str = ""
    metadata: str = ""
    maker: str = ""


class DroppedTables:
    def __init__(self, files: Files, warehouse: str) -> None:
        self._files, self._folder = files, f"{warehouse}/{FOLDER}"
        # Those that stand for what is written there, or could not be.
        self._remembered: dict[str, DroppedTable] = {}

    def add(self, note: DroppedTable) -> str:
        """Answers its location; on a full disk the note is only remembered."""
        text = json.dumps(asdict(note)).encode()
        try:
            return self._files.write_new(self._folder, "", ".json", text)
        except OSError:
            location = f"{self._folder}/{uuid4().hex}.json"
            self._remembered[location] = note
            return location

    def withdraw(self, location: str) -> None:
        self._remembered.pop(location, None)
        self._files.delete([location])

    def all(self) -> dict[str, DroppedTable]:
        """By location; one that a crash left half-written says nothing, and is not among them."""
        filesystem, path = self._files.filesystem(self._folder)
        chosen = pafs.FileSelector(path, allow_not_found=True)
        found = {}
        for info in filesystem.get_file_info(chosen):
            location = f"{self._folder}/{info.base_name}"
            with suppress(ValueError, TypeError, OSError):
                found[location] = DroppedTable(**json.loads(self._files.read(location)))
        return {**found, **self._remembered}

    @contextmanager
    def making(self, folder: str, title: str, server: str) -> Iterator[None]:
        """While a table is made; if that fails, its folder goes later."""
        note = DroppedTable(folder, title, time.time(), maker=server)
        location = self.add(note)
        try:
            yield
        except BaseException:
            # What is written counts when this server is dead.
            self._remembered[location] = DroppedTable(folder, title, time.time())
            raise
        self.withdraw(location)


def new_folder(warehouse: str, namespace: str, name: str) -> str:
    """One that no table ever had: a table may be renamed or dropped and another take its name."""
    levels = "/".join(_slug(level) for level in namespace.split("."))
    return f"{warehouse}/{levels}/{_slug(name)}-{uuid4().hex[:8]}"


def _slug(name: str) -> str:
    """So that no name leads out of the warehouse."""
    return _PLAIN.sub("_", name)[:_LONGEST] or "_"
