"""Runs `jetbridge optimize`: makes a table small and quick again, while others read and write it.

Files are joined and laid out anew with the ids of their rows, by Iceberg's procedures on Spark.
Then old snapshots are removed, and files that no snapshot refers to.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from jetbridge.backends.lake.ddl.create_table import TABLE_PROPERTIES
from jetbridge.backends.lake.ddl.layout import drop_unreadable_manifests, lay_out
from jetbridge.backends.lake.errors import (
    ICEBERG_EXCEPTIONS,
    MESSAGE_CHARACTERS,
    StaleMetadata,
)
from jetbridge.backends.lake.files import readable
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.maintenance import orphan_files
from jetbridge.backends.lake.maintenance.table_contents import FileKind, TableContents
from jetbridge.backends.lake.metadata.lost_partitions import lost_specs
from jetbridge.backends.lake.metadata.table_state import TableState
from jetbridge.backends.lake.warehouse import branches, server_locks
from jetbridge.backends.lake.warehouse.java_catalog import static
from jetbridge.backends.lake.write.publisher import CommitContention
from jetbridge.dialects import spark as sql
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.errors import Conflict, ServerError
from jetbridge.runtime.cancellation import current
from jetbridge.spark.engine import SparkConnection
from jetbridge.spark.errors import is_from_spark, is_java, java_message

Progress = Callable[[str], None]
T = TypeVar("T")

_ATTEMPTS = 4
_PAUSE = 0.5
# Java throws one of these for a missing file.
_GONE = (ICEBERG_EXCEPTIONS + "NotFoundException", "java.io.FileNotFoundException")
# An object store does not show which servers live: younger files may belong to a statement.
_UNKNOWN_SERVERS = timedelta(days=1)
_FORMAT = "format-version"
_WITH_ROW_IDS = 3


@dataclass(frozen=True)
class OptimizeOptions:
    """Choose what to do.

    Snapshots and orphan files that are older than `older_than` are removed. `partition_by` and
    `sort_by` are as in `layout`: None leaves them as they are.
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
    """Optimize a table; return counts before and after. `progress` gets a line for each step."""
    work = _Optimize(lake, lake.tables.load(schema, table), options or OptimizeOptions(), progress)
    with _java_errors(work.state.title()):
        return work.run()


@contextmanager
def _java_errors(title: str) -> Iterator[None]:
    """Raise an unexpected error of Java in one sentence with the table."""
    try:
        yield
    except ServerError:
        raise
    except Exception as error:
        if not is_from_spark(error):
            raise
        problem = f"table {title!r} could not be optimized: {java_message(error)}"
        raise ServerError(problem[:MESSAGE_CHARACTERS]) from error


class _Optimize:
    """Run the steps on one table."""

    def __init__(
        self, lake: Lake, state: TableState, options: OptimizeOptions, progress: Progress
    ) -> None:
        self.lake, self.state, self.options, self.progress = lake, state, options, progress
        self.started = datetime.now(UTC)
        self._known: tuple[int | None, TableContents] = (None, TableContents())

    def run(self) -> list[tuple[str, str, str]]:
        before = self.size()
        self.upgrade()
        self.lay_out()
        self.compact()
        drop_unreadable_manifests(self.lake.publisher, self._current())
        self.join_manifests()
        self.expire()
        self._retry(lambda: forget_lost_partitions(self.lake, self._current()))
        removed = self.remove_orphans()
        after = self.size()
        rows = [(name, f"{before[name]:,}", f"{after[name]:,}") for name in before]
        return [*rows, ("orphan files removed", "", f"{removed:,}")]

    @property
    def _parts(self) -> list[str]:
        pointer = self.state.pointer
        return [*pointer.namespace.split("."), pointer.name]

    def _current(self) -> TableState:
        self.state = self.lake.tables.current(self.state)
        return self.state

    @contextmanager
    def _step(self, name: str) -> Iterator[list[str]]:
        """Yield a list for results, which `progress` gets at the end with the time of the step."""
        start, results = time.monotonic(), list[str]()
        yield results
        seconds = time.monotonic() - start
        self.progress(f"{name}: {', '.join(results) or 'nothing to do'} ({seconds:.1f} s)")

    def _retry(self, work: Callable[[], T]) -> T:
        """Run a step, again if others committed at the same moment or a file is gone meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except (StaleMetadata, Conflict):
                pass
            except Exception as error:
                if not _is_gone(error) or attempt == _ATTEMPTS - 1:
                    raise
            time.sleep(_PAUSE * 2**attempt)
        raise CommitContention(self.state, _ATTEMPTS)

    def _call(self, procedure: str, **arguments: sql.Argument) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            with self.lake.publisher.run_job(self._current()) as session:
                text = sql.call(self.lake.name, procedure, self._parts, **arguments)
                return session.spark.sql(text).collect()[0].asDict()

        return self._retry(work)

    def _table(self, session: SparkConnection) -> Any:
        return self.lake.warehouse.java_table(session, self._current())

    def _contents(self) -> TableContents:
        """Return the files, read once for each snapshot: every step needs them, few make one."""

        def work() -> TableContents:
            state = self._current()
            if state.snapshot_id != self._known[0]:
                self._known = (state.snapshot_id, self._read_contents(state))
            return self._known[1]

        return self._retry(work)

    def _read_contents(self, state: TableState) -> TableContents:
        table = [self.lake.name, *self._parts]
        with self.lake.warehouse.session(state.title()) as session:
            rows = session.spark.sql(sql.files_by_kind(table)).collect()
            manifests = session.spark.sql(sql.count_manifests(table)).collect()[0][0]
        return TableContents([FileKind(*row) for row in rows], manifests)

    def size(self) -> dict[str, int]:
        """Return the counts of the report."""
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
        """Upgrade the table to the format with row ids, if the options say so."""
        if not self.options.upgrade:
            return
        with self._step("upgrade") as results:
            version = self._current().format_version
            if self.state.has_row_ids():
                results.append(f"it has format {version} already")
                return
            self._retry(self._upgrade)
            is_new = version >= _WITH_ROW_IDS  # another engine upgraded it, and nothing else
            results.append(
                "rows have ids now" if is_new else f"format {version} to {_WITH_ROW_IDS}"
            )

    def _upgrade(self) -> None:
        properties = {
            name: value
            for name, value in TABLE_PROPERTIES.items()
            if name == _FORMAT or name.endswith(".mode")
        }
        with (
            self.lake.publisher.hold(self.state),
            self.lake.warehouse.session(self.state.title()) as session,
        ):
            table = self._table(session)
            transaction = table.newTransaction()
            update = transaction.updateProperties()
            for name, value in properties.items():
                update.set(name, value)
            update.commit()
            if table.currentSnapshot() is not None:
                # Existing rows get their ids with the next snapshot.
                transaction.newFastAppend().commit()
            transaction.commitTransaction()

    def lay_out(self) -> None:
        """Set partitions and order, if the options say so."""
        partitions, order = self.options.partition_by, self.options.sort_by
        if partitions is None and order is None:
            return
        with self._step("layout") as results:
            before = self._current().location
            self.state = lay_out(self.lake.publisher, self.state, partitions, order)
            if self.state.location != before:
                results.append("changed for all rows")

    def compact(self) -> None:
        """Join small files, and rewrite those that have deleted rows or another layout."""
        state = self._current()
        if state.snapshot is None:
            return
        with self._step("compaction") as results:
            if self._contents().is_one_file(state):
                return
            rewritten = left = 0
            for attempt in range(_ATTEMPTS):
                answer = self._call("rewrite_data_files", **self._compaction())
                rewritten += answer["rewritten_data_files_count"]
                left = answer["failed_data_files_count"]
                # Iceberg does not count files that it could not commit because others were faster.
                left = left or (0 if rewritten else self._contents().small())
                if not left:
                    break
                time.sleep(_PAUSE * 2**attempt)
            if rewritten:
                results.append(f"{rewritten:,} data files rewritten")
            if left:
                results.append(f"{left:,} left: others keep changing the table")
            if self._contents().old_deletes():
                self._call("rewrite_position_delete_files")
                results.append("delete files joined")

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
        return {"strategy": "sort" if state.sort_order_id else "binpack", "options": options}

    def join_manifests(self) -> None:
        """Join the manifests."""
        state = self._current()
        if state.snapshot is None or self._contents().manifests <= 1:
            return
        with self._step("manifests") as results:
            try:
                answer = self._call("rewrite_manifests", use_caching=False)
            except CommitContention:  # no need: every insert joins small ones, too
                results.append("left: others keep committing")
                return
            if answer["rewritten_manifests_count"]:
                old, new = answer["rewritten_manifests_count"], answer["added_manifests_count"]
                results.append(f"{old:,} became {new:,}")

    def expire(self) -> None:
        """Remove old snapshots, and branches of jobs that died."""
        with self._step("snapshots") as results:
            left = self._forgotten_branches()
            if left:
                self._retry(lambda: self._remove_branches(left))
                results.append(f"{len(left):,} branches of jobs that died removed")
            before = len(self._current().snapshots())
            if not before:
                return
            moment = datetime.now(UTC) - self.options.older_than
            if not _may_expire(self.state, moment):
                return
            self._call("expire_snapshots", older_than=moment, retain_last=1)
            gone = before - len(self._current().snapshots())
            if gone > 0:
                results.append(f"{gone:,} expired")

    def _remove_branches(self, names: Sequence[str]) -> None:
        branches.remove_branches(self.lake.warehouse, self._current(), names)

    def _forgotten_branches(self) -> list[str]:
        """Return the branches of dead servers; where that is not known, the old ones."""
        state, folder = self._current(), self.lake.warehouse.lock.folder
        names = [name for name in state.references if name.startswith(branches.PREFIX)]
        if folder is not None:
            live = {*server_locks.live_servers(folder), self.lake.warehouse.server}
            return [name for name in names if branches.server_of(name) not in live]
        times = {s.snapshot_id: s.timestamp_ms for s in state.snapshots()}
        limit = (self.started - self.options.older_than).timestamp() * 1000
        heads = {name: state.references[name].snapshot_id for name in names}
        return [name for name, head in heads.items() if times.get(head, limit) < limit]

    def remove_orphans(self) -> int:
        """Remove files that no snapshot refers to, and return how many."""
        with self._step("orphan files") as results:
            age = self.options.older_than
            if self.lake.warehouse.lock.folder is None:
                age = max(age, _UNKNOWN_SERVERS)
            limit = self.started - age

            def work() -> Sequence[str]:
                with self.lake.warehouse.session(self.state.title()) as session:
                    return orphan_files.find_orphans(session, self._table(session), limit)

            orphans = self._retry(work)
            files = self._retry(lambda: orphan_files.removable(self.lake, self._current(), orphans))
            orphan_files.remove_files(self.lake.warehouse, files)
            if files:
                results.append(f"{len(files):,} removed")
            return len(files)


def _is_gone(error: Exception) -> bool:
    return isinstance(error, FileNotFoundError) or any(is_java(error, name) for name in _GONE)


def _may_expire(state: TableState, moment: datetime) -> bool:
    """Return whether a snapshot is that old; Iceberg decides if there are branches or rules."""
    references = state.references
    if references.keys() - {"main"} or any(r.has_rules() for r in references.values()):
        return True
    limit = moment.timestamp() * 1000
    old = {s.snapshot_id for s in state.snapshots() if s.timestamp_ms <= limit}
    return bool(old - {state.snapshot_id})


def forget_lost_partitions(lake: Lake, state: TableState) -> None:
    """Remove the lost specs that no snapshot needs; raises StaleMetadata."""
    lists = [snapshot.manifest_list for snapshot in state.snapshots()]
    lost = lost_specs(state)
    if not lost or not all(lists):
        return
    paths = [readable(location) for location in lists if location]
    rows = lake.read.reader.query(queries.manifest_specs(paths))
    unused = lost - set(rows.column(0).to_pylist())
    if unused:
        _remove_specs(lake, state, unused)


def _remove_specs(lake: Lake, state: TableState, specs: frozenset[int]) -> None:
    with lake.warehouse.session(state.title()) as session:
        operations = lake.warehouse.java_table(session, state).operations()
        base = operations.current()
        if base.metadataFileLocation() != state.location:
            raise StaleMetadata
        numbers = session.jvm.java.util.HashSet()
        for number in specs:
            numbers.add(number)
        builder = static(session, "TableMetadata.buildFrom")(base)
        removal = getattr(session.jvm.org.apache.iceberg, "MetadataUpdate$RemovePartitionSpecs")
        removal(numbers).applyTo(builder)
        with current().publishing():
            operations.commit(base, builder.build())
