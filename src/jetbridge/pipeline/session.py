"""One person's statements, one after the other: what they share, and what each leads to."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from jetbridge.catalog import (
    CanBeReached,
    CanConfigure,
    Catalog,
    OnConflict,
    Write,
    supports,
)
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.settings import Setting, truth
from jetbridge.duckdb_engine.instance import needs_extensions
from jetbridge.duckdb_engine.planner import (
    DuckDBAccess,
    PlannerDatabase,
    StatementConnection,
    query_references,
)
from jetbridge.errors import BadRequest, Cancelled, FailedPrecondition, NotFound
from jetbridge.pipeline.access import AccessRules, FileScope, reads_files
from jetbridge.pipeline.name_resolution import NameResolver, Path, SearchPath
from jetbridge.pipeline.parsing.statements import Attach, CreateSecret, ObjectName
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import REPORT, PhaseTimer, ProgressListener, Report, ignore_progress
from jetbridge.pipeline.secrets import FindSecret, Secrets
from jetbridge.pipeline.settings import NO_EFFECT, Settings, refuse_unknown
from jetbridge.pipeline.transactions import BeginWrite, WriteTransaction
from jetbridge.runtime.cancellation import Cancellation


@dataclass
class StatementResult:
    """Rows, or a report, or both; rows are read before the next statement runs."""

    report: Report | None = None
    schema: pa.Schema | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))

    def table(self) -> pa.Table:
        """All rows; a report without rows is one row."""
        if self.schema is not None:
            return pa.Table.from_batches(self.batches, self.schema)
        rows = [] if self.report is None else [self.report.as_row()]
        return pa.Table.from_pylist(rows, REPORT)


@dataclass(frozen=True)
class SessionResources:
    """What a session may use; `open_catalog` makes the catalog of an ATTACH.

    `make_secret` checks what CREATE SECRET says. `settings` are those of kinds of catalogs, also
    of kinds that are not attached yet; their values go to all catalogs that have CanConfigure.
    `ignored_settings` may be set, and have no effect.
    `threads` and `spill_bytes` are limits of DuckDB besides its memory; None: its own.
    """

    rules: AccessRules = AccessRules(FileScope.ALL, trusted=True)
    folders: tuple[str, ...] = ()
    spark: SparkRunner | None = None
    memory_limit: str = "2GB"
    threads: int | None = None
    spill_bytes: int | None = None
    open_catalog: Callable[[Attach, FindSecret], Catalog] | None = None
    close_catalog: Callable[[Catalog], None] = lambda _: None
    make_secret: Callable[[Mapping[str, str]], Mapping[str, str]] | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    ignored_settings: Collection[str] = frozenset()


class Session:
    """Not for several threads at once."""

    def __init__(
        self,
        catalogs: Mapping[str, Catalog],
        means: SessionResources | None = None,
        *,
        settings: Settings | None = None,
        place: SearchPath | None = None,
        watch: ProgressListener = ignore_progress,
    ) -> None:
        if not catalogs:
            raise BadRequest("there is no catalog to work in")
        self.catalogs = dict(catalogs)
        self.means = means or SessionResources()
        self.settings = settings or Settings()
        self.place = place or SearchPath(next(iter(self.catalogs)))
        self.watch = watch
        self.transaction: WriteTransaction | None = None
        self.secrets = Secrets()
        # Values of `means.settings` that were set here, as text.
        self.given: dict[str, str] = {}
        self._attached: dict[str, Catalog] = {}
        self._read_only: frozenset[str] = frozenset()
        self._benches: dict[tuple[frozenset[str] | None, bool], PlannerDatabase] = {}
        self._statement = Cancellation()

    def places(self) -> NameResolver:
        """For one statement; those of one transaction see the catalogs at one moment."""
        now = NameResolver(self._configured(), self.place, self._read_only)
        return now if self.transaction is None else self.transaction.places(now)

    def _configured(self) -> Mapping[str, Catalog]:
        """The catalogs, with what SET says about them."""
        if not self.given:
            return self.catalogs
        return {
            name: each.configured(self.given) if supports(each, CanConfigure) else each
            for name, each in self.catalogs.items()
        }

    def change(self, name: str, value: str | None) -> str:
        """SET, or RESET where the value is None; what is to be said of it, if anything.

        Raises BadRequest with what is allowed.
        """
        self.check_setting(name, value)
        if name.lower() in self.means.ignored_settings:
            return NO_EFFECT
        known = self._known(name)
        if known not in self.means.settings:
            self.settings = self.settings.changed(known, value)
        elif value is None:
            self.given.pop(known, None)
        else:
            self.given[known] = value
        return ""

    def check_setting(self, name: str, value: str | None) -> None:
        """Raise BadRequest for a setting that does not exist, or a value that is not allowed."""
        if name.lower() in self.means.ignored_settings:
            return
        known = self._known(name)
        setting = self.means.settings.get(known)
        if setting is None:
            settings = self.settings.changed(known, value)
            if not self.means.rules.trusted:
                settings.for_clients()
        elif value is not None:
            setting.read(value)

    def _known(self, name: str) -> str:
        """The name by which a setting is listed; raises BadRequest where there is none."""
        settings, lower = self.means.settings, name.lower()
        found = next((each for each in settings if lower in settings[each].also), None)
        if found is None:
            refuse_unknown(name, settings)
        return found or lower

    def shown(self, name: str) -> str:
        """The value of a setting; one that is not set here has its first value."""
        known = self._known(name)
        setting = self.means.settings.get(known)
        if setting is None:
            return self.settings.shown(known)
        given = self.given.get(known)
        value = setting.default if given is None else setting.read(given)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def clock(self) -> PhaseTimer:
        return PhaseTimer(self.watch)

    def refuse_writing(self, path: Path, how: str) -> None:
        """Raise FailedPrecondition if this session may not write the table now."""
        self.places().live(path[0])
        if self.transaction is not None:
            self.transaction.refuse_writing(path, how)

    @contextmanager
    def writing(
        self, path: Path, how: str, begin: BeginWrite, clock: PhaseTimer
    ) -> Iterator[Write]:
        """Takes rows for a table: of the transaction, or published at the end of the block."""
        self.places().live(path[0])
        if self.transaction is not None:
            yield self.transaction.writing(path, how, begin)
            return
        with ExitStack() as stack:
            yield stack.enter_context(begin())
            with self.means.spark.telling(clock.tasks) if self.means.spark else nullcontext():
                stack.close()

    @contextmanager
    def desk(self, query: str = "", target: str | None = None) -> Iterator[StatementConnection]:
        """A DuckDB for one statement, in which this query may be planned and run.

        `target` is the catalog whose rows it changes.
        """
        with self._bench(query, self._needed(query, target)).connect() as desk:
            yield desk

    def begin(self) -> Cancellation:
        """That of the next statement."""
        self._statement = Cancellation()
        return self._statement

    def interrupt(self) -> None:
        """From another thread: the statement that runs ends, with an error."""
        self._statement.cancel(Cancelled("the statement was interrupted"))

    def _needed(self, query: str, target: str | None) -> frozenset[str] | None:
        """The catalogs whose files DuckDB must read for a query; None if it may read others.

        A caller who may read some folders must not read the files of a warehouse by their names.
        """
        if self.means.rules.trusted:
            return frozenset(self.catalogs)
        names = query_references(query) if query else None
        if names and self.means.rules.files is FileScope.FOLDERS and reads_files(names):
            return None
        found = {target} if target else set()
        for parts in names.tables if names else ():
            with suppress(NotFound):
                found.add(self.places().path(ObjectName(*reversed(parts[-3:])))[0])
        return frozenset(n for n in found if supports(self.catalogs[n], CanBeReached))

    def _bench(self, query: str, needed: frozenset[str] | None) -> PlannerDatabase:
        """With the extensions for lakes and stores only where needed: they take 0.3 s to load."""
        lake = any(supports(self.catalogs[name], CanBeReached) for name in needed or ())
        extended = lake or needs_extensions(query)
        if (needed, extended) not in self._benches:
            access = self._access(needed, extended)
            self._benches[needed, extended] = PlannerDatabase(list(self.catalogs), access)
        return self._benches[needed, extended]

    def _access(self, needed: frozenset[str] | None, extended: bool) -> DuckDBAccess:
        means = self.means
        reaches = [
            catalog.reach()
            for name, catalog in self.catalogs.items()
            if needed and name in needed and supports(catalog, CanBeReached)
        ]
        folders = [folder for reach in reaches for folder in reach.folders]
        return DuckDBAccess(
            None
            if means.rules.files is FileScope.ALL
            else [*folders, *self._other_folders(needed)],
            [secret for reach in reaches for secret in reach.secrets],
            means.memory_limit,
            include_table_folders=needed is not None,
            load_extensions=extended,
            threads=means.threads,
            spill_bytes=means.spill_bytes,
        )

    def _other_folders(self, needed: frozenset[str] | None) -> tuple[str, ...]:
        return self.means.folders if needed is None else ()

    def refuse_attach(self) -> None:
        """Raise FailedPrecondition where no catalog can be attached."""
        if self.means.open_catalog is None:
            raise FailedPrecondition(
                "ATTACH is not supported in run(); add the catalog to the configuration file of "
                "the server"
            )

    def attach(self, statement: Attach) -> None:
        assert self.means.open_catalog is not None  # noqa: S101 - `refuse_attach` has looked
        alias, place = statement.alias, self.place
        read_only = _is_read_only(statement.options)
        replaced = self._attached if statement.on_conflict is OnConflict.REPLACE else ()
        if fold(alias) in map(fold, set(self.catalogs) - set(replaced)):
            self._leave(alias, statement, read_only=read_only)
            return
        catalog = self.means.open_catalog(statement, self.secrets.wanted)
        if self.detach(alias) and fold(place.catalog) == fold(alias):
            self.place = replace(place, catalog=alias)
        self.catalogs[alias] = self._attached[alias] = catalog
        if read_only:
            self._read_only |= {alias}
        self._forget_benches()

    def _leave(self, alias: str, statement: Attach, *, read_only: bool) -> None:
        """IF NOT EXISTS keeps what is there, if that is not more than was asked for."""
        if statement.on_conflict is not OnConflict.IGNORE:
            raise BadRequest(f"there is a catalog {alias!r} already")
        if read_only and fold(alias) not in map(fold, self._read_only):
            raise BadRequest(
                f"there is a catalog {alias!r} already, and it is not READ_ONLY: choose another "
                "name, or DETACH it first"
            )

    def refuse_secrets(self) -> None:
        """Raise FailedPrecondition where there are no secrets."""
        if self.means.make_secret is None:
            raise FailedPrecondition(
                "CREATE SECRET is not supported in run(); use it in `jetbridge sql`"
            )

    def create_secret(self, statement: CreateSecret) -> bool:
        """Whether it was made: IF NOT EXISTS leaves one that is there."""
        assert self.means.make_secret is not None  # noqa: S101 - `refuse_secrets` has looked
        said = self.means.make_secret(statement.options)
        return self.secrets.add(statement.name, said, statement.on_conflict)

    def detach(self, alias: str) -> bool:
        found = next((name for name in self._attached if fold(name) == fold(alias)), None)
        if found is None:
            return False
        if self.transaction is not None:
            raise FailedPrecondition(
                f"catalog {found!r} may have been read in this transaction; COMMIT, then go on"
            )
        self.means.close_catalog(self._attached.pop(found))
        del self.catalogs[found]
        self._read_only -= {found}
        if fold(self.place.catalog) == fold(found):
            self.place = SearchPath(next(iter(self.catalogs)))
        self._forget_benches()
        return True

    def _forget_benches(self) -> None:
        for bench in self._benches.values():
            bench.close()
        self._benches = {}

    def close(self) -> None:
        """What a transaction has not committed is undone."""
        transaction, self.transaction = self.transaction, None
        try:
            if transaction is not None:
                transaction.rollback()
        finally:
            for alias in list(self._attached):
                self.detach(alias)
            self._forget_benches()


def _is_read_only(options: Mapping[str, str]) -> bool:
    """READ_WRITE false says the same."""
    only = options.get("read_only", options.get("readonly", "false"))
    return truth("READ_ONLY")(only) or not truth("READ_WRITE")(options.get("read_write", "true"))
