"""The snapshots that a metadata file names, kept as text.

Every commit writes a metadata file with all snapshots before it. As Python objects the lists of
5,000 versions would take gigabytes; as text they take what the longest one takes, for a commit
adds its snapshot at the end, and versions that follow each other share one text.
"""

from typing import Any

import msgspec

Json = dict[str, Any]
_SNAPSHOTS = msgspec.json.Decoder(list[Json])
_TEXTS = msgspec.json.Decoder(list[msgspec.Raw])
_SNAPSHOT = msgspec.json.Decoder(Json)


class SharedText:
    """The longest list, without its closing bracket."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class SnapshotList:
    __slots__ = ("_end", "text")

    def __init__(self, text: bytes = b"[]") -> None:
        """`text`: a JSON array."""
        self.text = SharedText(text.rstrip().removesuffix(b"]").rstrip())
        self._end = len(self.text.data)

    def decode(self) -> list[Json]:
        """The snapshots in the order of the file; new objects each time."""
        return _SNAPSHOTS.decode(self._json())

    def find(self, snapshot_id: int | None) -> Json | None:
        """Decodes only what it must: the current snapshot is most often the last one."""
        if snapshot_id is None:
            return None
        for text in reversed(_TEXTS.decode(self._json())):
            snapshot = _SNAPSHOT.decode(text)
            if snapshot.get("snapshot-id") == snapshot_id:
                return snapshot
        return None

    def share(self, other: "SnapshotList") -> None:
        """Keeps one text for both lists, if one of them begins with the other."""
        mine, shared = self.text.data, other.text
        if len(mine) <= len(shared.data):
            fits = shared.data.startswith(mine)
        else:
            fits = mine.startswith(shared.data)
            if fits:
                shared.data = mine
        if fits:
            self.text = shared

    def _json(self) -> bytes:
        return self.text.data[: self._end] + b"]"
