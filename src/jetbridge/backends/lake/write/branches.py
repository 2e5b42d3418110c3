"""Branches that a job of Spark works on, named by the server that made them."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.write.commit import identifier

ANY = "jetbridge_"


def prefix(server: str) -> str:
    return f"{ANY}{server}_"


def new_name(lake: Lake) -> str:
    return f"{prefix(lake.options.server)}{uuid4().hex[:12]}"


def server_of(branch: str) -> str:
    """The server that made it, by its name."""
    return branch.removeprefix(ANY).rpartition("_")[0]


def remove(lake: Lake, state: TableState, names: Sequence[str]) -> None:
    """With the snapshots and the files that no other branch or tag has."""
    with lake.session(state.title()) as session:
        name = identifier(session, state.pointer.namespace, state.pointer.name)
        forget(session.catalog(lake.name).loadTable(name), state, names)


def forget(table: Any, state: TableState, names: Sequence[str]) -> None:
    """`state` is the table as it is now."""
    there = [name for name in names if name in (state.raw.get("refs") or {})]
    transaction = table.newTransaction()
    for name in there:
        transaction.manageSnapshots().removeBranch(name).commit()
    own = _own_snapshots(state, set(there))
    if own:
        # Else it would also expire others by their age.
        expire = transaction.expireSnapshots().expireOlderThan(0)
        for snapshot in sorted(own):
            expire.expireSnapshotId(snapshot)
        expire.commit()
    transaction.commitTransaction()


def _own_snapshots(state: TableState, names: set[str]) -> set[int]:
    refs = state.raw.get("refs") or {}
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in state.snapshots()}

    def line(snapshot: int | None) -> set[int]:
        found: set[int] = set()
        while snapshot is not None and snapshot in parents and snapshot not in found:
            found.add(snapshot)
            snapshot = parents[snapshot]
        return found

    kept = {s for name, ref in refs.items() if name not in names for s in line(ref["snapshot-id"])}
    lost = {s for name in names for s in line(refs[name]["snapshot-id"])}
    return lost - kept
