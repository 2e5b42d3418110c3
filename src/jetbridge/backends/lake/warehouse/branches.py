"""Names and removes the branches that jobs of Spark work on."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse.warehouse import Warehouse

# How the names of all branches of jobs begin.
PREFIX = "jetbridge_"


def prefix_of(server: str) -> str:
    """Return how the names of a server's branches begin."""
    return f"{PREFIX}{server}_"


def new_name(server: str) -> str:
    """Return a name for a new branch of a server."""
    return f"{prefix_of(server)}{uuid4().hex[:12]}"


def server_of(branch: str) -> str:
    """Return the server that created a branch."""
    return branch.removeprefix(PREFIX).rpartition("_")[0]


def remove_branches(warehouse: Warehouse, state: TableState, names: Sequence[str]) -> None:
    """Remove branches, with the snapshots and files that no other branch or tag has."""
    with warehouse.session(state.title()) as session:
        remove_from(warehouse.java_table(session, state), state, names)


def remove_from(table: Any, state: TableState, names: Sequence[str]) -> None:
    """Remove branches from a table of Java; `state` is its current state."""
    existing = [name for name in names if name in state.references]
    transaction = table.newTransaction()
    for name in existing:
        transaction.manageSnapshots().removeBranch(name).commit()
    own = own_snapshots(state, set(existing))
    if own:
        # Else it would also expire others by their age.
        expire = transaction.expireSnapshots().expireOlderThan(0)
        for snapshot in sorted(own):
            expire.expireSnapshotId(snapshot)
        expire.commit()
    transaction.commitTransaction()


def own_snapshots(state: TableState, names: set[str]) -> set[int]:
    """Return the snapshots that only these branches have."""
    references = state.references
    parents = {s.snapshot_id: s.parent_snapshot_id for s in state.snapshots()}

    def line(snapshot: int | None) -> set[int]:
        ids: set[int] = set()
        while snapshot is not None and snapshot in parents and snapshot not in ids:
            ids.add(snapshot)
            snapshot = parents[snapshot]
        return ids

    kept = {s for n, ref in references.items() if n not in names for s in line(ref.snapshot_id)}
    return {s for name in names for s in line(references[name].snapshot_id)} - kept
