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
_END_OF_ARRAY = b"] \t\r\n"


class SharedText:
    """The longest list, without its closing bracket."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class SnapshotList:
    __slots__ = ("_end", "text")

    def __init__(self, text: bytes | memoryview = b"[]") -> None:
        """`text`: a JSON array. It may be long, so it is copied once."""
        end = len(text)
        while end and text[end - 1] in _END_OF_ARRAY:
            end -= 1
        self.text = SharedText(bytes(text[:end]))
        self._end = end

    def decode(self) -> list[Json]:
        """The snapshots in the order of the file; new objects each time."""
        return _SNAPSHOTS.decode(self._json())

    def find(self, snapshot_id: int | None) -> Json | None:
        return find_snapshot(self._json(), snapshot_id)

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


def find_snapshot(text: bytes | memoryview, snapshot_id: int | None) -> Json | None:
    """The snapshot of this id in a JSON array; most often it is the last one."""
    if snapshot_id is None:
        return None
    for each in reversed(_TEXTS.decode(text)):
        snapshot: Json = _SNAPSHOT.decode(each)
        if snapshot.get("snapshot-id") == snapshot_id:
            return snapshot
    return None
