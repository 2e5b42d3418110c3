"""`jetbridge optimize`: a table made small and quick again, while others read and write it.

Files are joined and laid out anew with their rows' ids, by Iceberg's procedures on Spark; then
what nobody needs any more goes: old snapshots, files that no snapshot refers to.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from jetbridge.backends.lake.ddl.create_table import TABLE_PROPERTIES
from jetbridge.backends.lake.ddl.layout import drop_unreadable_manifests, lay_out
from jetbridge.backends.lake.lake import CommitContention, Lake
from jetbridge.backends.lake.lost_partitions import forget_lost_partitions
from jetbridge.backends.lake.maintenance import orphan_files
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.write import branches, server_locks
from jetbridge.backends.lake.write.commit import StaleMetadata, identifier
from jetbridge.dialects import spark as sql
from jetbridge.errors import Conflict, ServerError
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_from_spark, is_java, java_message

Progress = Callable[[str], None]
T = TypeVar("T")

_TRIES = 4
_PAUSE = 0.5
# How Java says that a file is not there.
_GONE = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")
# In an object store nobody knows which servers are alive: younger files may be of a statement.
_STRANGERS = timedelta(days=1)
_FORMAT = "format-version"
_WITH_ROW_IDS = 3
# Iceberg joins files below three quarters of its target of 512 MiB.
_SMALL_BYTES = 256 * 1024 * 1024
_TARGET = "write.target-file-size-bytes"
_VECTORS = "PUFFIN"
# A branch with nothing but the id of its snapshot and its type.
_PLAIN_REF = 2


@dataclass(frozen=True)
class OptimizeOptions:
    """`older_than`: snapshots and stray files of that age go; younger ones stay.

    `partition_by` and `sort_by` are as in `layout`: None leaves them as they are.
    """

    older_than: timedelta = timedelta(days=7)
    upgrade: bool = False
    partition_by: str | None = None
    sort_by: str | None = None


def optimize(
    lake: Lake,
    schema: str,
    table: str,
    options: OptimizeOptions | None = None,
    progress: Progress = lambda _: None,
) -> list[tuple[str, str, str]]:
    """What there was of each kind before and after; `progress` gets a line for each step."""
    work = _Optimize(lake, lake.load(schema, table), options or OptimizeOptions(), progress)
    with _one_sentence(work.state.title()):
        return work.run()


@contextmanager
def _one_sentence(title: str) -> Iterator[None]:
    """What Java says that nobody expected."""
    try:
        yield
    except ServerError:
        raise
    except Exception as error:
        if not is_from_spark(error):
            raise
        problem = f"table {title!r} could not be optimized: {java_message(error)}"
        raise ServerError(problem[:450]) from error


class _Optimize:
    def __init__(
        self, lake: Lake, state: TableState, options: OptimizeOptions, progress: Progress
    ) -> None:
        self.lake, self.state, self.options, self.progress = lake, state, options, progress
        self.started = datetime.now(UTC)
        self._known: tuple[int | None, _Contents] = (None, _NOTHING)

    def run(self) -> list[tuple[str, str, str]]:
        before = self.size()
        self.upgrade()
        self.lay_out()
        self.compact()
        drop_unreadable_manifests(self.lake, self._current())
        self.join_manifests()
        self.expire()
        self._retried(lambda: forget_lost_partitions(self.lake, self._current()))
        removed = self.remove_orphans()
        after = self.size()
        rows = [(what, f"{before[what]:,}", f"{after[what]:,}") for what in before]
        return [*rows, ("orphan files removed", "", f"{removed:,}")]

    @property
    def _parts(self) -> list[str]:
        pointer = self.state.pointer
        return [*pointer.namespace.split("."), pointer.name]

    def _current(self) -> TableState:
        self.state = self.lake.current(self.state)
        return self.state

    @contextmanager
    def _step(self, what: str) -> Iterator[list[str]]:
        """What is put into the list is told at the end, with the seconds it took."""
        start, said = time.monotonic(), list[str]()
        yield said
        seconds = time.monotonic() - start
        self.progress(f"{what}: {', '.join(said) or 'nothing to do'} ({seconds:.1f} s)")

    def _retried(self, work: Callable[[], T]) -> T:
        """Others may commit at the same moment; then it is done again, on what there is then.

        So it is if a file is gone that the table, or another one, had when it was looked at.
        """
        for attempt in range(_TRIES):
            try:
                return work()
            except (StaleMetadata, Conflict):
                pass
            except Exception as error:
                if not _is_gone(error) or attempt == _TRIES - 1:
                    raise
            time.sleep(_PAUSE * 2**attempt)
        raise CommitContention(self.state, _TRIES)

    def _call(self, procedure: str, **arguments: sql.Argument) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            with self.lake.job(self._current()) as session:
                text = sql.call(self.lake.name, procedure, self._parts, **arguments)
                return session.spark.sql(text).collect()[0].asDict()

        return self._retried(work)

    def _table(self, session: SparkConnection) -> Any:
        pointer = self._current().pointer
        name = identifier(session, pointer.namespace, pointer.name)
        return session.catalog(self.lake.name).loadTable(name)

    def _contents(self) -> "_Contents":
        """Asked once for each snapshot: every step wants it, and few make a new one."""

        def work() -> _Contents:
            state = self._current()
            if state.snapshot_id != self._known[0]:
                self._known = (state.snapshot_id, self._asked(state))
            return self._known[1]

        return self._retried(work)

    def _asked(self, state: TableState) -> "_Contents":
        table = [self.lake.name, *self._parts]
        with self.lake.session(state.title()) as session:
            rows = session.spark.sql(sql.files_by_kind(table)).collect()
            manifests = session.spark.sql(sql.count_manifests(table)).collect()[0][0]
        return _Contents([_Kind(*row) for row in rows], manifests)

    def size(self) -> dict[str, int]:
        state, contents = self._current(), self._contents()
        rows = state.count()
        return {
            "data files": contents.files(),
            "bytes": contents.bytes(),
            "rows": contents.rows() if rows is None else rows,
            "delete files": contents.deletes(),
            "manifests": contents.manifests,
            "snapshots": len(state.snapshots()),
        }

    def upgrade(self) -> None:
        if not self.options.upgrade:
            return
        with self._step("upgrade") as said:
            version = self._current().format_version
            if self.state.has_row_ids():
                said.append(f"it has format {version} already")
                return
            self._retried(self._upgraded)
            had = version >= _WITH_ROW_IDS  # another engine has upgraded it, and nothing else
            said.append("rows have ids now" if had else f"format {version} to {_WITH_ROW_IDS}")

    def _upgraded(self) -> None:
        wanted = {
            name: value
            for name, value in TABLE_PROPERTIES.items()
            if name == _FORMAT or name.endswith(".mode")
        }
        with self.lake.writing(self.state), self.lake.session(self.state.title()) as session:
            table = self._table(session)
            transaction = table.newTransaction()
            update = transaction.updateProperties()
            for name, value in wanted.items():
                update.set(name, value)
            update.commit()
            if table.currentSnapshot() is not None:
                # Rows that are there get their ids with the next snapshot.
                transaction.newFastAppend().commit()
            transaction.commitTransaction()

    def lay_out(self) -> None:
        partitions, order = self.options.partition_by, self.options.sort_by
        if partitions is None and order is None:
            return
        with self._step("layout") as said:
            before = self._current().location
            self.state = lay_out(self.lake, self.state, partitions, order)
            if self.state.location != before:
                said.append("changed for all rows")

    def compact(self) -> None:
        """Joins small files, and writes those anew that have deleted rows or another layout."""
        state = self._current()
        if state.snapshot is None:
            return
        with self._step("compaction") as said:
            if self._contents().is_one_file(state):
                return
            rewritten = left = 0
            for attempt in range(_TRIES):
                answer = self._call("rewrite_data_files", **self._compaction())
                rewritten += answer["rewritten_data_files_count"]
                left = answer["failed_data_files_count"]
                # Iceberg counts what it could not commit, for others were faster, nowhere.
                left = left or (0 if rewritten else self._contents().small())
                if not left:
                    break
                time.sleep(_PAUSE * 2**attempt)
            if rewritten:
                said.append(f"{rewritten:,} data files written anew")
            if left:
                said.append(f"{left:,} stay as they are, for others change the table all the time")
            if self._contents().old_deletes():
                self._call("rewrite_position_delete_files")
                said.append("delete files joined")

    def _compaction(self) -> Mapping[str, sql.Argument]:
        state, contents = self._current(), self._contents()
        options = {
            "min-input-files": "2",
            "delete-file-threshold": "1",
            "partial-progress.enabled": "true",
            "rewrite-all": str(contents.has_another_layout(state)).lower(),
        }
        if contents.old_deletes():
            options["remove-dangling-deletes"] = "true"
        sorts = bool(state.raw.get("default-sort-order-id"))
        return {"strategy": "sort" if sorts else "binpack", "options": options}

    def join_manifests(self) -> None:
        state = self._current()
        if state.snapshot is None or self._contents().manifests <= 1:
            return
        with self._step("manifests") as said:
            try:
                answer = self._call("rewrite_manifests", use_caching=False)
            except CommitContention:  # a comfort only: every insert joins small ones too
                said.append("others commit all the time, so they stay as they are")
                return
            if answer["rewritten_manifests_count"]:
                old, new = answer["rewritten_manifests_count"], answer["added_manifests_count"]
                said.append(f"{old:,} became {new:,}")

    def expire(self) -> None:
        with self._step("snapshots") as said:
            left = self._forgotten_branches()
            if left:
                self._retried(lambda: branches.remove(self.lake, self._current(), left))
                said.append(f"{len(left):,} branches of jobs that died removed")
            before = len(self._current().snapshots())
            if not before:
                return
            moment = datetime.now(UTC) - self.options.older_than
            if not _may_expire(self.state, moment):
                return
            self._call("expire_snapshots", older_than=moment, retain_last=1)
            gone = before - len(self._current().snapshots())
            if gone > 0:
                said.append(f"{gone:,} expired")

    def _forgotten_branches(self) -> list[str]:
        """Those of servers that are dead; where that cannot be known, old ones."""
        state, folder = self._current(), self.lake.presence.folder
        found = [name for name in state.raw.get("refs") or {} if name.startswith(branches.ANY)]
        if folder is not None:
            live = {*server_locks.live_servers(folder), self.lake.options.server}
            return [name for name in found if branches.server_of(name) not in live]
        moments = {s["snapshot-id"]: s["timestamp-ms"] for s in state.snapshots()}
        limit = (self.started - self.options.older_than).timestamp() * 1000
        heads = {name: state.raw["refs"][name]["snapshot-id"] for name in found}
        return [name for name, head in heads.items() if moments.get(head, limit) < limit]

    def remove_orphans(self) -> int:
        with self._step("orphan files") as said:
            age = self.options.older_than
            if self.lake.presence.folder is None:
                age = max(age, _STRANGERS)
            limit = self.started - age

            def work() -> Sequence[str]:
                with self.lake.session(self.state.title()) as session:
                    return orphan_files.found(session, self._table(session), limit)

            found = self._retried(work)
            gone = self._retried(lambda: orphan_files.removable(self.lake, self._current(), found))
            orphan_files.remove(self.lake, gone)
            if gone:
                said.append(f"{len(gone):,} removed")
            return len(gone)


def _is_gone(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) or any(is_java(error, name) for name in _GONE)


def _may_expire(state: TableState, moment: datetime) -> bool:
    """Whether a snapshot is that old; other branches, tags and their rules are left to Iceberg."""
    refs = state.raw.get("refs") or {}
    if refs.keys() - {"main"} or len(refs.get("main") or ()) > _PLAIN_REF:
        return True
    limit = moment.timestamp() * 1000
    old = {s["snapshot-id"] for s in state.snapshots() if s["timestamp-ms"] <= limit}
    return bool(old - {state.snapshot_id})


@dataclass(frozen=True)
class _Kind:
    """Files of one kind: 0 holds rows, 1 deleted positions, 2 deleted values."""

    content: int
    file_format: str
    spec: int
    order: int
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class _Contents:
    kinds: Sequence[_Kind]
    manifests: int

    def files(self) -> int:
        return sum(kind.files for kind in self.kinds if not kind.content)

    def deletes(self) -> int:
        return sum(kind.files for kind in self.kinds if kind.content)

    def bytes(self) -> int:
        return sum(kind.bytes for kind in self.kinds)

    def small(self) -> int:
        """The files that one compaction of a table that is not partitioned would join."""
        data = [kind for kind in self.kinds if not kind.content]
        files = sum(kind.files for kind in data)
        size = sum(kind.bytes for kind in data) / max(files, 1)
        whole = len({kind.spec for kind in data}) == 1 and not any(kind.spec for kind in data)
        return files if whole and files > 1 and size < _SMALL_BYTES else 0

    def is_one_file(self, state: TableState) -> bool:
        """Or none; with nothing deleted, laid out as it should be, and not too large."""
        target = int(state.properties.get(_TARGET) or _SMALL_BYTES)
        whole = self.files() <= 1 and not self.deletes()
        return (
            whole
            and self.bytes() <= min(target, _SMALL_BYTES)
            and not self.has_another_layout(state)
        )

    def rows(self) -> int:
        return sum(kind.rows for kind in self.kinds if not kind.content)

    def old_deletes(self) -> bool:
        """Whether there are delete files of format 2."""
        return any(kind.content and kind.file_format != _VECTORS for kind in self.kinds)

    def has_another_layout(self, state: TableState) -> bool:
        """Whether files were written before the partitions or the order were what they are."""
        spec, order = state.raw.get("default-spec-id"), state.raw.get("default-sort-order-id")
        data = [kind for kind in self.kinds if not kind.content]
        return any(kind.spec != spec or (order and kind.order != order) for kind in data)


_NOTHING = _Contents((), 0)
