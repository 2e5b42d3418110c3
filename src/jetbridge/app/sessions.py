"""Statements without a server: what `jetbridge sql` and programs open, and close again."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from jetbridge.app.attach import catalog_config_for_attach, parse_secret
from jetbridge.app.compose import (
    BACKENDS,
    SPARK_END_SECONDS,
    SharedResources,
    close_catalog,
    engine_for_attach,
    local_folder,
    new_engine,
    open_catalogs,
)
from jetbridge.app.statement_memory import StatementShare
from jetbridge.backends.mssql.settings import IGNORED_SETTINGS, SETTINGS, MssqlSettings
from jetbridge.catalog import Catalog
from jetbridge.catalog.identifiers import fold
from jetbridge.catalog.settings import Setting
from jetbridge.config import Config, MssqlConfig, load_config
from jetbridge.errors import FailedPrecondition
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.commands.show import EXPLAIN
from jetbridge.pipeline.name_resolution import SearchPath
from jetbridge.pipeline.parsing.statements import Attach
from jetbridge.pipeline.query.planner_databases import DuckDBLimits
from jetbridge.pipeline.query.run_on_spark import SparkRunner
from jetbridge.pipeline.report import ProgressListener, Report, StatementResult, ignore_progress
from jetbridge.pipeline.run import run
from jetbridge.pipeline.secrets import FindSecret
from jetbridge.pipeline.session import AttachSupport, Session, SessionResources
from jetbridge.pipeline.settings import SettingValues
from jetbridge.runtime.temporary_folders import TemporaryFolder, start_sweep
from jetbridge.spark import SparkEngine
from jetbridge.spark.settings import is_local
from jetbridge.wire.wide_integers import decimal_batch, decimal_schema

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from jetbridge.backends.lake import LakeCatalog


@contextmanager
def open_session(
    config: Config, *, verbose: bool = False, watch: ProgressListener = ignore_progress
) -> Iterator[Session]:
    """Statements over all catalogs of a configuration, without a server.

    Spark begins to start when a lake is there, since whatever is written to it needs Spark.
    """
    start_sweep()
    engine = new_engine(config, verbose) or engine_for_attach(config, verbose)
    shared = SharedResources(config.limits, engine)
    catalogs = open_catalogs(config, shared)
    session = Session(catalogs, _means(config, shared, catalogs), listener=watch)
    try:
        yield session
    finally:
        session.close()
        _sweep(engine, catalogs.values())
        engine.stop(SPARK_END_SECONDS)
        for catalog in catalogs.values():
            close_catalog(catalog)


def _sweep(engine: SparkEngine, catalogs: Iterable[Catalog]) -> None:
    """What crashes have left behind goes when Spark, which that needs, is there anyway."""
    if not engine.alive():
        return
    for lake in map(_as_lake, catalogs):
        if lake is not None:
            try:
                lake.sweep()
            except Exception as error:  # noqa: BLE001 - the statements are done; there is a next time
                log.warning("the lake was not swept: %s", str(error)[:300])


def _settings(config: Config) -> SettingValues:
    values = SettingValues(_catalog_settings(config), IGNORED_SETTINGS)
    for name in ("engine", "spark_from"):
        values = values.changed(name, getattr(config.sql, name))
    return values


def _means(
    config: Config, shared: SharedResources, catalogs: Mapping[str, Catalog]
) -> SessionResources:
    def opened(statement: Attach, find_secret: FindSecret) -> Catalog:
        given = catalog_config_for_attach(statement, find_secret)
        return BACKENDS[given.type](statement.alias, given, shared)

    files = FileScope.ALL if config.sql.files else FileScope.NONE
    return SessionResources(
        AccessRules(files, trusted=True),
        spark=_runner(config, shared.engine, catalogs.values()),
        limits=DuckDBLimits(config.sql.memory_limit),
        attach=AttachSupport(opened, close_catalog, parse_secret),
        settings=_settings(config),
    )


def _catalog_settings(config: Config) -> dict[str, Setting]:
    """Those of SQL Server; at first they are what the configuration says, if it says one thing."""
    given = [each.settings for each in config.catalogs.values() if isinstance(each, MssqlConfig)]
    same = given[0] if given and all(each == given[0] for each in given) else MssqlSettings()
    first = {f"mssql_{name}": value for name, value in vars(same).items()}
    return {name: replace(each, default=first[name]) for name, each in SETTINGS.items()}


def _runner(
    config: Config, engine: SparkEngine | None, catalogs: Iterable[Catalog]
) -> SparkRunner | None:
    """Its spools lie in the first warehouse that is a folder; on a cluster else in any other one.

    Without a lake they lie in `spool`.
    """
    if engine is None:
        return None
    lakes = [lake for lake in map(_as_lake, catalogs) if lake is not None]
    folders = [(lake, local_folder(lake.lake.staging_folder())) for lake in lakes]
    for lake, folder in folders:
        if folder is not None:
            return SparkRunner(engine, str(folder), lake.lake.prefix)
    if lakes and not is_local(config.spark):
        first = lakes[0]
        place, prefix = first.lake.staging_folder(), first.lake.prefix
        return SparkRunner(engine, place, prefix, first.spooled)
    given = [each.spool for each in config.catalogs.values() if isinstance(each, MssqlConfig)]
    spool = next(filter(None, given), "")
    shared = not is_local(config.spark)
    return SparkRunner(engine, spool or tempfile.gettempdir(), _owned(spool, shared=shared))


def _owned(spool: str, *, shared: bool) -> Callable[[], str]:
    """Spools are in a folder with an owner, made for the first: a killed process leaves none."""
    mode = 0o777 if shared else 0o700  # workers of a cluster may be of another user
    made: list[TemporaryFolder] = []

    def prefix() -> str:
        if not made:
            try:
                made.append(TemporaryFolder("spool", spool or None, mode=mode))
            except OSError as error:
                raise FailedPrecondition(
                    f"rows cannot be spooled in {spool or tempfile.gettempdir()}: "
                    f"{error.strerror or error}; choose another folder with `spool`"
                ) from error
        return f"{made[0].path.name}/rows"

    return prefix


def _as_lake(catalog: Catalog) -> "LakeCatalog | None":
    return cast("LakeCatalog", catalog) if hasattr(catalog, "start_sweeper") else None


def client_reports(
    config: Config,
    shared: SharedResources,
    catalogs: Mapping[str, Catalog],
    text: str,
    catalog: str,
    may_use: frozenset[str] | None,
    share: StatementShare,
) -> Iterator[dict[str, Any]]:
    """Runs the statements of a client of the server; a report for each.

    They see the catalogs that the client may use, and no files but those in `[sql] folders`.
    """
    allowed = None if may_use is None else {fold(name) for name in may_use}
    seen = {n: each for n, each in catalogs.items() if allowed is None or fold(n) in allowed}
    folders = tuple(str(folder) for folder in config.sql.folders)
    means = SessionResources(
        AccessRules(FileScope.FOLDERS if folders else FileScope.NONE, folders=folders),
        spark=_runner(config, shared.engine, seen.values()),
        limits=DuckDBLimits(f"{share.memory_bytes}B", share.threads, share.spill_bytes),
        settings=_settings(config),
    )
    opened = Session(seen, means, search_path=SearchPath(catalog))
    try:
        for outcome in run(opened, text):
            yield from (report.as_row() for report in _reports(outcome))
    finally:
        opened.close()


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

    `config` is a file or a configuration. For several calls use `with jetbridge.session(...)`.

    HUGEINT, the type of every sum of integers, and UHUGEINT become decimal128(38, 0), also in
    lists, structs, maps and unions. A value of 39 digits does not fit and raises BadRequest.
    `exact_hugeint`: keep the extension type of DuckDB, whose values are 16 bytes:
    `int.from_bytes(value, "little", signed=True)`, without `signed` for UHUGEINT.
    """
    with session(config, settings=settings) as opened:
        return opened.sql(statements, exact_hugeint=exact_hugeint)


@contextmanager
def session(
    config: Config | Path | str | None = None, *, settings: Mapping[str, str] | None = None
) -> Iterator["Statements"]:
    """`run` gives one outcome for each statement, `sql` the rows of the last one."""
    given = config if isinstance(config, Config) else load_config(Path(config) if config else None)
    with open_session(given) as opened:
        for name, value in (settings or {}).items():
            opened.change_setting(name, value)
        yield Statements(opened)


@dataclass(frozen=True)
class Statements:
    """A session for programs."""

    session: Session

    def run(self, statements: str, *, exact_hugeint: bool = False) -> Iterator[StatementResult]:
        """Run statements and yield the outcome of each; read its rows before the next one.

        `exact_hugeint` is that of `jetbridge.sql`.
        """
        outcomes = run(self.session, statements)
        return outcomes if exact_hugeint else map(_with_decimals, outcomes)

    def sql(self, statements: str, *, exact_hugeint: bool = False) -> pa.Table:
        """Run statements and return the rows of the last one, as `jetbridge.sql` does."""
        answer = pa.table({})
        for outcome in self.run(statements, exact_hugeint=exact_hugeint):
            answer = outcome.table()
        return answer


def _with_decimals(outcome: StatementResult) -> StatementResult:
    """Return the outcome with decimals for HUGEINT and UHUGEINT in its rows."""
    if outcome.schema is None:
        return outcome
    schema = decimal_schema(outcome.schema)
    # Someone who takes the error for one of the statement would write its rows twice.
    note = "" if outcome.report is None else f"; the {outcome.report.statement} itself was done"
    batches = (decimal_batch(batch, schema, note) for batch in outcome.batches)
    return replace(outcome, schema=schema, batches=batches)
