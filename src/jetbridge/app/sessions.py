"""Opens and closes sessions without a server: those of `jetbridge sql` and of programs."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from jetbridge.app.compose import Application, close_catalog, open_application, open_catalog
from jetbridge.app.configuration import BACKENDS, CatalogSettings, IgnoredSettings, load_config
from jetbridge.app.statement_memory import StatementShare
from jetbridge.catalog import CanSpool, Catalog, SpoolFolder, supports
from jetbridge.catalog.backend import AttachRequest, SharedResources
from jetbridge.catalog.identifiers import fold
from jetbridge.config import Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.duckdb_engine.child.remote import ArrowInput, ChildEngine, ChildLimits
from jetbridge.errors import BadRequest, FailedPrecondition
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
from jetbridge.wire.arrow_input import read_stream
from jetbridge.wire.limits import ANSWER_LIMITS, MIB
from jetbridge.wire.schemas import read_schema
from jetbridge.wire.wide_integers import decimal_batch, decimal_schema

# The type of a location that no backend is sure to recognize: the path of a folder.
DEFAULT_TYPE = "lake"


def config_for_attach(statement: Attach, find_secret: FindSecret) -> tuple[str, object]:
    """Return the type and the configuration of the catalog of an ATTACH; raises BadRequest."""
    options, location = statement.options, statement.location
    recognitions = {
        catalog_type: backend.recognizes(location) for catalog_type, backend in BACKENDS.items()
    }
    certain = (
        catalog_type for catalog_type, recognition in recognitions.items() if recognition == "yes"
    )
    catalog_type = options["type"].lower() if "type" in options else next(certain, DEFAULT_TYPE)
    if catalog_type not in BACKENDS:
        raise BadRequest(f"TYPE {catalog_type} is not one of {', '.join(BACKENDS)}")
    others = (name for name, recognition in recognitions.items() if recognition != "no")
    request = AttachRequest(
        statement.alias,
        location,
        options,
        find_secret(options.get("secret"), catalog_type),
        tuple(other for other in others if other != catalog_type),
    )
    return catalog_type, BACKENDS[catalog_type].config_for_attach(request)


def open_for_attach(
    statement: Attach, find_secret: FindSecret, resources: SharedResources
) -> Catalog:
    """Open the catalog of an ATTACH; raises BadRequest, FailedPrecondition or Unavailable."""
    catalog_type, config = config_for_attach(statement, find_secret)
    return open_catalog(statement.alias, catalog_type, config, resources)


def parse_secret(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the content of a secret; raises BadRequest, which shows no value.

    If no backend of this type has secrets, the error comes from one that has.
    """
    secret_type = options.get("type", "").lower()
    parsers = {name: backend.parse_secret for name, backend in BACKENDS.items()}
    parse = parsers.get(secret_type) or next(parse for parse in parsers.values() if parse)
    return parse(options)


def spark_runner(
    config: Config, engine: SparkEngine | None, catalogs: Iterable[Catalog]
) -> SparkRunner | None:
    """Return what runs queries on Spark, or None without Spark.

    Rows go into a folder that a catalog owns, or else, on a cluster, to a location that a catalog
    writes. Otherwise they go into a folder that a catalog names, or the temporary directory.
    """
    if engine is None:
        return None
    on_cluster = not is_local(config.spark)
    folders = [c.spool_folder() for c in catalogs if supports(c, CanSpool)]
    folder = _choose([folder for folder in folders if folder is not None], on_cluster=on_cluster)
    location = folder.location if folder else ""
    if folder and folder.prefix:
        return SparkRunner(engine, location, folder.prefix, folder.spool)
    prefix = _temporary_prefix(location, shared=on_cluster)
    return SparkRunner(engine, location or tempfile.gettempdir(), prefix)


def _choose(folders: list[SpoolFolder], *, on_cluster: bool) -> SpoolFolder | None:
    owned = [folder for folder in folders if folder.prefix and folder.spool is None]
    with_spool = [folder for folder in folders if folder.spool is not None] if on_cluster else []
    named = [folder for folder in folders if folder.prefix is None]
    return next(iter([*owned, *with_spool, *named]), None)


def _temporary_prefix(folder: str, *, shared: bool) -> Callable[[], str]:
    """Return a function that returns the beginning of a name in a temporary folder of ours.

    The folder is created for the first rows. A later process removes it if this one is killed.
    """
    mode = 0o777 if shared else 0o700  # workers of a cluster may run as another user
    created: list[TemporaryFolder] = []

    def prefix() -> str:
        if not created:
            try:
                created.append(TemporaryFolder("spool", folder or None, mode=mode))
            except OSError as error:
                raise FailedPrecondition(
                    f"rows cannot be spooled in {folder or tempfile.gettempdir()}: "
                    f"{error.strerror or error}; choose another folder with `spool`"
                ) from error
        return f"{created[0].path.name}/rows"

    return prefix


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
                lambda attach, find_secret: open_for_attach(attach, find_secret, resources),
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
        values = values.with_change(name, getattr(config.sql, name))
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
    """Run the statements of a client of the server, and yield a report for each.

    They can use the catalogs that the client may use, and files in `[sql] folders` only.
    """
    allowed = None if may_use is None else {fold(name) for name in may_use}
    visible = {
        name: served
        for name, served in catalogs.items()
        if allowed is None or fold(name) in allowed
    }
    folders = tuple(str(folder) for folder in config.sql.folders)
    resources = SessionResources(
        AccessRules(FileScope.FOLDERS if folders else FileScope.NONE, folders=folders),
        spark=spark_runner(config, shared.engine, visible.values()),
        limits=DuckDBLimits(f"{share.memory_bytes}B", share.threads, share.spill_bytes),
        settings=_settings(config),
        engine=_child_engine(processes, share, config.limits.message_bytes),
    )
    opened = Session(visible, resources, search_path=SearchPath(catalog))
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
    # Otherwise the user might run the statement again and write its rows twice.
    note = "" if outcome.report is None else f"; the {outcome.report.statement} itself succeeded"
    batches = (decimal_batch(batch, schema, note) for batch in outcome.batches)
    return replace(outcome, schema=schema, batches=batches)
