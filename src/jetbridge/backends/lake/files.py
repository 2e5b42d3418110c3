"""Reads, writes and deletes files of a warehouse, in local folders and in object stores."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlparse
from uuid import uuid4

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

LOCAL = ("", "file")


class Files:
    """Access files by their location, with or without a scheme."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._io = PyArrowFileIO(dict(properties))

    def filesystem(self, location: str) -> tuple[pafs.FileSystem, str]:
        """Return the file system of a location, and the path in it."""
        scheme, netloc, path = PyArrowFileIO.parse_location(location)
        return self._io.fs_by_scheme(scheme, netloc), path

    def read(self, location: str) -> bytes:
        """Return the whole file; raises OSError."""
        path = local_path(location)
        if path is not None:
            with open(path, "rb") as file:
                return file.read()
        filesystem, path = self.filesystem(location)
        with filesystem.open_input_file(path) as file:
            data: bytes = file.read()
            return data

    def write_new(self, folder: str, prefix: str, suffix: str, data: bytes) -> str:
        """Write a file with a new name, whole or not at all, and return its location."""
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
        """Create a local folder; object stores have none."""
        path = local_path(location)
        if path is not None:
            os.makedirs(path, exist_ok=True)

    def delete(self, locations: Iterable[str]) -> None:
        """Delete files; a missing file is no error."""
        for location in locations:
            filesystem, path = self.filesystem(location)
            try:
                filesystem.delete_file(path)
            except FileNotFoundError:
                continue

    def size(self, location: str) -> int:
        """Return the size of a file in bytes; raises FileNotFoundError."""
        filesystem, path = self.filesystem(location)
        info = filesystem.get_file_info(path)
        if info.type != pafs.FileType.File:
            raise FileNotFoundError(f"there is no file {location}")
        return int(info.size)

    def list_folder(self, folder: str, suffix: str) -> list[str]:
        """Return the locations of the files right in a folder with this suffix, sorted."""
        filesystem, path = self.filesystem(folder)
        infos = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        names = (info.base_name for info in infos if info.type == pafs.FileType.File)
        return sorted(f"{folder}/{name}" for name in names if name.endswith(suffix))

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all files in it; a missing folder is no error."""
        filesystem, path = self.filesystem(folder)
        with suppress(FileNotFoundError):
            filesystem.delete_dir(path)

    def flush(self, location: str) -> None:
        """Make a local file outlive a crash of the machine; object stores do that by themselves."""
        path = local_path(location)
        if path is None:
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def readable(location: str) -> str:
    """Return a location as DuckDB reads it: `read_avro` does not know the scheme `file:`."""
    return local_path(location) or location


def local_path(location: str) -> str | None:
    """Return the path of a local file, or None if it is not on this machine."""
    parsed = urlparse(location)
    if parsed.scheme not in LOCAL:
        return None
    return location if not parsed.scheme else parsed.path
