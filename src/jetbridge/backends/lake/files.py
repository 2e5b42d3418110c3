"""Files of the warehouse, wherever it is: local folders and object stores alike."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlparse
from uuid import uuid4

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

LOCAL = ("", "file")


class Files:
    """Reads, deletes and opens files by their location, with or without a scheme."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._io = PyArrowFileIO(dict(properties))

    def filesystem(self, location: str) -> tuple[pafs.FileSystem, str]:
        scheme, netloc, path = PyArrowFileIO.parse_location(location)
        return self._io.fs_by_scheme(scheme, netloc), path

    def read(self, location: str) -> bytes:
        path = local_path(location)
        if path is not None:
            with open(path, "rb") as file:
                return file.read()
        filesystem, path = self.filesystem(location)
        with filesystem.open_input_file(path) as file:
            data: bytes = file.read()
            return data

    def write_new(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """A new file of a name of its own, whole or not at all; answers its location."""
        location = f"{folder}/{prefix}{uuid4().hex}{suffix}"
        self.make_folder(folder)
        filesystem, path = self.filesystem(location)
        try:
            with filesystem.open_output_stream(path) as file:
                file.write(data)
            self.flush(location)
        except OSError:
            with suppress(OSError):
                self.delete([location])
            raise
        return location

    def make_folder(self, location: str) -> None:
        """Object stores have no folders; there it does nothing."""
        path = local_path(location)
        if path is not None:
            os.makedirs(path, exist_ok=True)

    def delete(self, locations: Iterable[str]) -> None:
        """Those that are not there are no error."""
        for location in locations:
            filesystem, path = self.filesystem(location)
            try:
                filesystem.delete_file(path)
            except FileNotFoundError:
                continue

    def size(self, location: str) -> int:
        """In bytes; raises FileNotFoundError."""
        filesystem, path = self.filesystem(location)
        found = filesystem.get_file_info(path)
        if found.type != pafs.FileType.File:
            raise FileNotFoundError(f"there is no file {location}")
        return int(found.size)

    def list_folder(self, folder: str, suffix: str) -> list[str]:
        """The locations of the files right in a folder whose names end so."""
        filesystem, path = self.filesystem(folder)
        found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        names = (info.base_name for info in found if info.type == pafs.FileType.File)
        return sorted(f"{folder}/{name}" for name in names if name.endswith(suffix))

    def delete_folder(self, folder: str) -> None:
        """With all that is in it; one that is not there is no error."""
        filesystem, path = self.filesystem(folder)
        with suppress(FileNotFoundError):
            filesystem.delete_dir(path)

    def flush(self, location: str) -> None:
        """Sees to it that a file outlives a crash of the machine; object stores do that anyway."""
        path = local_path(location)
        if path is None:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def readable(location: str) -> str:
    """`read_avro` knows no file: scheme."""
    return local_path(location) or location


def local_path(location: str) -> str | None:
    """The path of a local file, or None if it is elsewhere."""
    parsed = urlparse(location)
    if parsed.scheme not in LOCAL:
        return None
    return location if not parsed.scheme else parsed.path
