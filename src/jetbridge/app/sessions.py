"""Sessions without a server: what `jetbridge sql` and programs open, and close again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from jetbridge.app.attach import open_attached, parse_secret
from jetbridge.app.compose import Application, close_catalog, open_application
from jetbridge.app.configuration import load_config
from jetbridge.app.session_settings import CatalogSettings, IgnoredSettings
from jetbridge.app.spools import spark_runner
from jetbridge.app.statement_memory import StatementShare
from jetbridge.catalog import Catalog
from jetbridge.catalog.backend import SharedResources
from jetbridge.catalog.identifiers import fold
from jetbridge.config import Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.duckdb_engine.child.remote import ArrowInput, ChildEngine, ChildLimits
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.commands.show import EXPLAIN
from jetbridge.pipeline.name_resolution import SearchPath
from jetbridge.pipeline.query.planner_databases import DuckDBLimits
from jetbridge.pipeline.report import ProgressListener, Report, StatementResult, ignore_progress
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import AttachSupport, Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from jetbridge.runtime.temporary_folders import start_sweep
from jetbridge.wire.arrow_input import read_stream
from jetbridge.wire.limits import ANSWER_LIMITS, MIB
from jetbridge.wire.schemas import read_schema
from jetbridge.wire.wide_integers import decimal_batch, decimal_schema


@contextmanager
def open_session(
    config: Config, *, verbose: bool = False, watch: ProgressListener = ignore_progress
) -> Iterator[Session]:
    """Open the catalogs of a configuration and a session over them, and close both.

    Spark is there for every session, as a lake may be attached; it starts when it is needed.
    Raises what `open_application` raises.
    """
    start_sweep()
    with open_application(config, verbose=verbose, use_spark=True) as application:
        session = application.session(watch)
        try:
            yield session
        finally:
            session.close()
            # A sweep of a lake needs Spark, and is not worth a start of it.
            if application.engine and application.engine.alive():
                application.sweep()


def local_session(application: Application, watch: ProgressListener) -> Session:
    """Return a session of the local user, who may attach catalogs and read files."""
    config, resources = application.config, application.resources
    files = FileScope.ALL if config.sql.files else FileScope.NONE
    return Session(
        application.catalogs,
        SessionResources(
            AccessRules(files, trusted=True),
            spark=spark_runner(config, application.engine, application.catalogs.values()),
            limits=DuckDBLimits(config.sql.memory_limit),
            attach=AttachSupport(
                lambda attach, find_secret: open_attached(attach, find_secret, resources),
                close_catalog,
                parse_secret,
            ),
            settings=_settings(config),
        ),
        listener=watch,
    )


def _settings(config: Config) -> SettingValues:
    values = SettingValues(CatalogSettings(config), IgnoredSettings())
    for name in ("engine", "spark_from"):
        values = values.changed(name, getattr(config.sql, name))
    return values


def client_reports(
    config: Config,
    shared: SharedResources,
    catalogs: Mapping[str, Catalog],
    text: str,
    catalog: str,
    may_use: frozenset[str] | None,
    share: StatementShare,
    processes: StatementProcesses,
) -> Iterator[dict[str, Any]]:
    """Runs the statements of a client of the server; a report for each.

    They see the catalogs that the client may use, and no files but those in `[sql] folders`.
    """
    allowed = None if may_use is None else {fold(name) for name in may_use}
    seen = {n: each for n, each in catalogs.items() if allowed is None or fold(n) in allowed}
    folders = tuple(str(folder) for folder in config.sql.folders)
    means = SessionResources(
        AccessRules(FileScope.FOLDERS if folders else FileScope.NONE, folders=folders),
        spark=spark_runner(config, shared.engine, seen.values()),
        limits=DuckDBLimits(f"{share.memory_bytes}B", share.threads, share.spill_bytes),
        settings=_settings(config),
        engine=_child_engine(processes, share, config.limits.message_bytes),
    )
    opened = Session(seen, means, search_path=SearchPath(catalog))
    try:
        for outcome in run(opened, text):
            yield from (report.as_row() for report in _reports(outcome))
    finally:
        opened.close()


def _child_engine(
    processes: StatementProcesses, share: StatementShare, message_bytes: int
) -> ChildEngine:
    """Return the DuckDB of one call of `run`: a process with a limit of memory.

    One row of a result may be as long as one that a client can send.
    """
    limits = replace(ANSWER_LIMITS, unpacked_bytes=message_bytes + MIB * 4)
    arrow = ArrowInput(
        partial(read_stream, limits=limits), partial(read_schema, title="the schema of the query")
    )
    return ChildEngine(processes, ChildLimits(share.memory_bytes, message_bytes), arrow)


def _reports(outcome: StatementResult) -> Iterator[Report]:
    """Yield one report; of EXPLAIN one for each line of its text.

    Other rows are counted, and forgotten: a client reads tables itself.
    """
    report, rows = outcome.report, 0
    for batch in outcome.batches:
        rows += batch.num_rows
        if report is not None and report.statement == EXPLAIN:
            for line in batch.to_pylist():
                yield replace(report, note=f"{line['what']}: {line['text']}")
    if report is None:
        yield Report("SELECT", rows_produced=rows)
    elif report.statement != EXPLAIN:
        yield report


def sql(
    statements: str,
    config: Config | Path | str | None = None,
    *,
    settings: Mapping[str, str] | None = None,
    exact_hugeint: bool = False,
) -> pa.Table:
    """Run statements and return the rows of the last one, or a row that reports what it did.

    Each call opens the catalogs again. For several calls use `with jetbridge.session(...)`.

    HUGEINT, the type of every sum of integers, and UHUGEINT become decimal128(38, 0), also in
    lists, structs, maps and unions.

    Args:
        statements: One or more statements in DuckDB's SQL, separated by `;`.
        config: A configuration, or the path of a TOML file. None: the default configuration, with
            `lake` in ./jetbridge-data and `memory`.
        settings: Values of settings, as SET takes them.
        exact_hugeint: Keep the extension type of DuckDB for HUGEINT and UHUGEINT. Its values are
            16 bytes: `int.from_bytes(value, "little", signed=True)`, without `signed` for UHUGEINT.

    Raises:
        ConfigError: The configuration is not valid.
        ServerError: A statement failed; the statements before it stay. A HUGEINT of 39 digits does
            not fit into decimal128 and raises BadRequest, which is a ServerError.

    Examples:
        >>> jetbridge.sql("SELECT sum(i) AS total FROM range(10) t(i)").to_pylist()
        [{'total': Decimal('45')}]
    """
    with session(config, settings=settings) as opened:
        return opened.sql(statements, exact_hugeint=exact_hugeint)


@contextmanager
def session(
    config: Config | Path | str | None = None, *, settings: Mapping[str, str] | None = None
) -> Iterator["Statements"]:
    """Open the catalogs of a configuration for a block, and run statements over them.

    Settings, secrets, attached catalogs and a transaction last until the block ends.

    Args:
        config: A configuration, or the path of a TOML file. None: the default configuration, with
            `lake` in ./jetbridge-data and `memory`.
        settings: Values of settings, as SET takes them.

    Raises:
        ConfigError: The configuration is not valid.
        ServerError: A catalog cannot be opened, or a setting is not allowed.

    Examples:
        >>> with jetbridge.session(settings={"engine": "duckdb"}) as session:
        ...     created = session.sql("CREATE SCHEMA memory.s; CREATE TABLE memory.s.t (a INT)")
        ...     inserted = session.sql("INSERT INTO memory.s.t VALUES (1)")
        ...     session.sql("FROM memory.s.t").to_pylist()
        [{'a': 1}]
    """
    if not isinstance(config, Config):
        config = load_config(Path(config) if config else None)
    with open_session(config) as opened:
        for name, value in (settings or {}).items():
            opened.change_setting(name, value)
        yield Statements(opened)


@dataclass(frozen=True)
class Statements:
    """Run statements in one session; `jetbridge.session` gives one.

    Attributes:
        session: The session of the pipeline, for `interrupt`.
    """

    session: Session

    def run(self, statements: str, *, exact_hugeint: bool = False) -> Iterator[StatementResult]:
        """Run statements and yield the result of each; read its rows before the next one.

        Args:
            statements: One or more statements, separated by `;`. The whole text is checked first.
            exact_hugeint: As for `jetbridge.sql`.

        Raises:
            ServerError: A statement failed; the statements before it stay.
        """
        outcomes = run(self.session, statements)
        return outcomes if exact_hugeint else map(_with_decimals, outcomes)

    def sql(self, statements: str, *, exact_hugeint: bool = False) -> pa.Table:
        """Run statements and return the rows of the last one, as `jetbridge.sql` does.

        Args:
            statements: One or more statements, separated by `;`. The whole text is checked first.
            exact_hugeint: As for `jetbridge.sql`.

        Raises:
            ServerError: A statement failed; the statements before it stay.
        """
        answer = pa.table({})
        for outcome in self.run(statements, exact_hugeint=exact_hugeint):
            answer = outcome.table()
        return answer


def _with_decimals(outcome: StatementResult) -> StatementResult:
    """Return the result with decimals for HUGEINT and UHUGEINT in its rows."""
    if outcome.schema is None:
        return outcome
    schema = decimal_schema(outcome.schema)
    # Someone who takes the error for one of the statement would write its rows twice.
    note = "" if outcome.report is None else f"; the {outcome.report.statement} itself was done"
    batches = (decimal_batch(batch, schema, note) for batch in outcome.batches)
    return replace(outcome, schema=schema, batches=batches)
