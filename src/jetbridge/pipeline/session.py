"""Keeps a session: what stays between the statements of one user, and how statements change it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from jetbridge.catalog import CanConfigure, Catalog, OnConflict, supports
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.settings import DIALECTS, truth
from jetbridge.duckdb_engine.connection import StatementEngine
from jetbridge.duckdb_engine.planner import LocalEngine
from jetbridge.errors import BadRequest, Cancelled, FailedPrecondition, NotFound
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.context import StatementContext, WriteTransaction
from jetbridge.pipeline.name_resolution import DEFAULT_SCHEMA, NameResolver, SearchPath
from jetbridge.pipeline.parsing.statements import (
    Attach,
    CreateSecret,
    Detach,
    DropSecret,
    Load,
    ObjectName,
    SetValue,
    TransactionCommand,
    TransactionStatement,
    Use,
)
from jetbridge.pipeline.query.planner_databases import DuckDBLimits, PlannerDatabases
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import (
    PhaseTimer,
    ProgressListener,
    Report,
    StatementResult,
    ignore_progress,
)
from jetbridge.pipeline.secrets import FindSecret, Secrets
from jetbridge.pipeline.settings import NO_EFFECT, SettingValues
from jetbridge.runtime.cancellation import Cancellation

# Why a session of a client of the server refuses a statement.
_NO_ATTACH = {
    "ATTACH": "ATTACH is not supported in run(); add the catalog to the configuration file of "
    "the server",
    "CREATE SECRET": "CREATE SECRET is not supported in run(); use it in `jetbridge sql`",
}


@dataclass(frozen=True)
class AttachSupport:
    """Hold the functions behind ATTACH, DETACH and CREATE SECRET.

    `parse_secret` checks the options of CREATE SECRET.
    """

    open_catalog: Callable[[Attach, FindSecret], Catalog]
    close_catalog: Callable[[Catalog], None] = lambda _: None
    parse_secret: Callable[[Mapping[str, str]], Mapping[str, str]] = dict


@dataclass(frozen=True)
class SessionResources:
    """Hold what a session may use besides its catalogs.

    `attach` None: the session has no ATTACH and no secrets. `settings` are the first values.
    `engine` is for this session alone, which closes it.
    """

    access: AccessRules = AccessRules(FileScope.ALL, trusted=True)
    spark: SparkRunner | None = None
    limits: DuckDBLimits = DuckDBLimits()
    attach: AttachSupport | None = None
    settings: SettingValues = SettingValues()
    engine: StatementEngine = LocalEngine()


class Session:
    """Keep catalogs, settings, secrets, search path and transaction between statements.

    Not for several threads at once, except `interrupt`.
    """

    def __init__(
        self,
        catalogs: Mapping[str, Catalog],
        resources: SessionResources | None = None,
        *,
        search_path: SearchPath | None = None,
        listener: ProgressListener = ignore_progress,
    ) -> None:
        if not catalogs:
            raise BadRequest("the session has no catalog: name one in the configuration file")
        self._catalogs = dict(catalogs)
        self._attached: dict[str, Catalog] = {}
        self._read_only: frozenset[str] = frozenset()
        self._resources = resources or SessionResources()
        self._settings = self._resources.settings
        self._search_path = search_path or SearchPath(next(iter(self._catalogs)))
        self._secrets = Secrets()
        self._transaction: WriteTransaction | None = None
        self._databases = PlannerDatabases(
            self._resources.access, self._resources.limits, self._resources.engine
        )
        self._listener = listener
        self._cancellation = Cancellation()

    def begin_statement(self) -> StatementContext:
        """Return the context of the next statement, which `interrupt` then ends."""
        self._cancellation = Cancellation()
        return StatementContext(
            self._names(),
            self._resources.access,
            self._settings,
            PhaseTimer(self._listener),
            self._resources.spark,
            self._transaction,
            self._databases,
            self._cancellation,
        )

    def parsing(self) -> AbstractContextManager[None]:
        """Parse the texts of the block where the statements of the session run."""
        return self._resources.engine.parsing()

    def interrupt(self) -> None:
        """End the statement that runs, from another thread; it raises Cancelled."""
        self._cancellation.cancel(Cancelled("the statement was interrupted"))

    def close(self) -> None:
        """Roll back the open transaction, and close what ATTACH opened."""
        transaction, self._transaction = self._transaction, None
        try:
            if transaction is not None:
                transaction.rollback()
        finally:
            for alias in list(self._attached):
                self.detach(alias)
            self._databases.close()
            self._resources.engine.close()

    def _names(self) -> NameResolver:
        names = NameResolver(self._configure_catalogs(), self._search_path, self._read_only)
        return names if self._transaction is None else self._transaction.pin(names)

    def _configure_catalogs(self) -> Mapping[str, Catalog]:
        overrides = self._settings.catalog_overrides
        if not overrides:
            return dict(self._catalogs)
        return {
            name: catalog.configured(overrides) if supports(catalog, CanConfigure) else catalog
            for name, catalog in self._catalogs.items()
        }

    # Transactions

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        return self._transaction is not None

    def begin_transaction(self) -> None:
        """Open a transaction; raise FailedPrecondition if one is open."""
        if self._transaction is not None:
            raise FailedPrecondition("a transaction is open already; COMMIT or ROLLBACK first")
        self._transaction = WriteTransaction()

    def end_transaction(self, *, commit: bool) -> None:
        """Commit or roll back the open transaction; raise FailedPrecondition if there is none."""
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            raise FailedPrecondition(
                f"no transaction is open to {'COMMIT' if commit else 'ROLLBACK'}; BEGIN opens one"
            )
        if commit:
            transaction.commit()
        else:
            transaction.rollback()

    # Settings and search path

    @property
    def settings(self) -> SettingValues:
        """Return the values of all settings."""
        return self._settings

    def change_setting(self, name: str, value: str | None) -> str:
        """Change a setting, or reset it if the value is None; return a note for the user, or "".

        Raises as `check_setting` does.
        """
        self._settings = self.check_setting(name, value)
        return NO_EFFECT if self._settings.is_ignored(name) else ""

    def check_setting(self, name: str, value: str | None) -> SettingValues:
        """Return what the settings would be; raise BadRequest for an unknown name or a bad value.

        Clients write DuckDB's SQL: nobody has checked what Spark would run for them.
        """
        settings = self._settings.with_change(name, value)
        if settings.dialect != DIALECTS[0] and not self._resources.access.trusted:
            raise BadRequest("dialect = spark is for the local command only")
        return settings

    def use(self, name: ObjectName) -> None:
        """Change the search path to `catalog`, `schema` or `catalog.schema`."""
        names = self._names()
        catalog = names.find_catalog(name.name) if name.schema is None else None
        schema = DEFAULT_SCHEMA
        if catalog is None:
            catalog, schema = names.schema_path(name)
            names.schema(catalog, schema)
        self._search_path = SearchPath(catalog, schema)

    # Attached catalogs

    def attach_support(self, statement: str = "ATTACH") -> AttachSupport:
        """Return the functions behind ATTACH and CREATE SECRET.

        Raises FailedPrecondition if this session has neither.
        """
        if self._resources.attach is None:
            raise FailedPrecondition(_NO_ATTACH[statement])
        return self._resources.attach

    def attach(self, statement: Attach) -> None:
        """Open a catalog and add it to the session; raise BadRequest if its name is in use."""
        alias, support = statement.alias, self.attach_support()
        read_only = _is_read_only(statement.options)
        replaceable = self._attached if statement.on_conflict is OnConflict.REPLACE else ()
        if fold(alias) in map(fold, set(self._catalogs) - set(replaceable)):
            self._keep_existing(alias, statement, read_only=read_only)
            return
        catalog = support.open_catalog(statement, self._secrets.find)
        search_path = self._search_path
        if self.detach(alias) and fold(search_path.catalog) == fold(alias):
            self._search_path = replace(search_path, catalog=alias)
        self._catalogs[alias] = self._attached[alias] = catalog
        if read_only:
            self._read_only |= {alias}
        self._databases.close()

    def _keep_existing(self, alias: str, statement: Attach, *, read_only: bool) -> None:
        """Keep the catalog of this name for IF NOT EXISTS, unless it allows more than requested."""
        if statement.on_conflict is not OnConflict.IGNORE:
            raise BadRequest(
                f"there is already a catalog {alias!r}; choose another name, or DETACH it first"
            )
        if read_only and fold(alias) not in map(fold, self._read_only):
            raise BadRequest(
                f"there is already a catalog {alias!r}, and it is not READ_ONLY; choose another "
                "name, or DETACH it first"
            )

    def detach(self, alias: str) -> bool:
        """Close an attached catalog; return False if ATTACH added none of this name."""
        name = next((name for name in self._attached if fold(name) == fold(alias)), None)
        if name is None:
            return False
        support = self.attach_support()
        if self._transaction is not None:
            raise FailedPrecondition(
                f"catalog {name!r} may have been read in this transaction; COMMIT first"
            )
        support.close_catalog(self._attached.pop(name))
        del self._catalogs[name]
        self._read_only -= {name}
        if fold(self._search_path.catalog) == fold(name):
            self._search_path = SearchPath(next(iter(self._catalogs)))
        self._databases.close()
        return True

    # Secrets

    def create_secret(self, statement: CreateSecret) -> bool:
        """Add a secret; return False if IF NOT EXISTS has kept an existing one."""
        options = self.attach_support("CREATE SECRET").parse_secret(statement.options)
        return self._secrets.add(statement.name, options, statement.on_conflict)

    def drop_secret(self, name: str) -> bool:
        """Remove a secret; return False if none has this name."""
        return self._secrets.drop(name)


def _is_read_only(options: Mapping[str, str]) -> bool:
    """Return whether ATTACH asks for READ_ONLY, which READ_WRITE false also does."""
    read_only = options.get("read_only", options.get("readonly", "false"))
    read_write = options.get("read_write", "true")
    return truth("READ_ONLY")(read_only) or not truth("READ_WRITE")(read_write)


def _transaction(session: Session, statement: TransactionStatement) -> StatementResult:
    if statement.command is TransactionCommand.BEGIN:
        session.begin_transaction()
    else:
        session.end_transaction(commit=statement.command is TransactionCommand.COMMIT)
    return StatementResult(Report(statement.command.value))


def _set(session: Session, statement: SetValue) -> StatementResult:
    note = session.change_setting(statement.name, statement.value)
    verb = "RESET" if statement.value is None else "SET"
    return StatementResult(Report(verb, statement.name, note=note))


def _use(session: Session, statement: Use) -> StatementResult:
    session.use(statement.name)
    return StatementResult(Report("USE", str(statement.name)))


def _attach(session: Session, statement: Attach) -> StatementResult:
    session.attach(statement)
    return StatementResult(Report("ATTACH", statement.alias))


def _detach(session: Session, statement: Detach) -> StatementResult:
    if not session.detach(statement.alias) and not statement.if_exists:
        raise NotFound("attached catalog", statement.alias)
    return StatementResult(Report("DETACH", statement.alias))


def _create_secret(session: Session, statement: CreateSecret) -> StatementResult:
    created = session.create_secret(statement)
    note = "" if created else "the secret already exists; nothing was done"
    return StatementResult(Report("CREATE SECRET", statement.name, note=note))


def _drop_secret(session: Session, statement: DropSecret) -> StatementResult:
    if not session.drop_secret(statement.name) and not statement.if_exists:
        raise NotFound("secret", statement.name)
    return StatementResult(Report("DROP SECRET", statement.name))


def _load(_: Session, statement: Load) -> StatementResult:
    note = "it is built in here; nothing was done"
    return StatementResult(Report(statement.verb, statement.name, note=note))


SESSION_STATEMENTS: Mapping[type[Any], Callable[[Session, Any], StatementResult]] = {
    TransactionStatement: _transaction,
    SetValue: _set,
    Use: _use,
    Attach: _attach,
    Detach: _detach,
    CreateSecret: _create_secret,
    DropSecret: _drop_secret,
    Load: _load,
}

# What the session refuses before the first statement of the text runs.
CHECKS: Mapping[type[Any], Callable[[Session, Any], object]] = {
    Attach: lambda session, _: session.attach_support("ATTACH"),
    CreateSecret: lambda session, _: session.attach_support("CREATE SECRET"),
    SetValue: lambda session, statement: session.check_setting(statement.name, statement.value),
}
