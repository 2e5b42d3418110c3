"""Counts the files of a table by kind, to decide what `optimize` has to do."""

from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.backends.lake.metadata.table_state import TableState

# Iceberg joins files below three quarters of its target of 512 MiB.
_SMALL_BYTES = 256 * 1024 * 1024
_TARGET = "write.target-file-size-bytes"
_VECTORS = "PUFFIN"


@dataclass(frozen=True)
class FileKind:
    """Count files of one kind: `content` 0 holds rows, 1 deleted positions, 2 deleted values."""

    content: int
    file_format: str
    spec: int
    order: int
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class TableContents:
    """Describe the files of one snapshot."""

    kinds: Sequence[FileKind] = ()
    manifests: int = 0

    def files(self) -> int:
        """Return the number of data files."""
        return sum(kind.files for kind in self.kinds if not kind.content)

    def deletes(self) -> int:
        """Return the number of delete files."""
        return sum(kind.files for kind in self.kinds if kind.content)

    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(kind.bytes for kind in self.kinds)

    def rows(self) -> int:
        """Return the number of rows, with deleted ones."""
        return sum(kind.rows for kind in self.kinds if not kind.content)

    def small(self) -> int:
        """Return how many files a compaction would join, of a table without partitions."""
        data = [kind for kind in self.kinds if not kind.content]
        files = sum(kind.files for kind in data)
        size = sum(kind.bytes for kind in data) / max(files, 1)
        whole = len({kind.spec for kind in data}) == 1 and not any(kind.spec for kind in data)
        return files if whole and files > 1 and size < _SMALL_BYTES else 0

    def is_one_file(self, state: TableState) -> bool:
        """Return whether there is at most one file, with the right layout and nothing deleted."""
        target = int(state.properties.get(_TARGET) or _SMALL_BYTES)
        whole = self.files() <= 1 and not self.deletes()
        return (
            whole
            and self.bytes() <= min(target, _SMALL_BYTES)
            and not self.has_another_layout(state)
        )

    def old_deletes(self) -> bool:
        """Return whether there are delete files of format 2."""
        return any(kind.content and kind.file_format != _VECTORS for kind in self.kinds)

    def has_another_layout(self, state: TableState) -> bool:
        """Return whether files were written before the partitions or the order changed."""
        spec, order = state.spec_id, state.sort_order_id
        data = [kind for kind in self.kinds if not kind.content]
        return any(kind.spec != spec or (order and kind.order != order) for kind in data)
