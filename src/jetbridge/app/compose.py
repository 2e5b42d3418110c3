"""Opens a configuration: its catalogs, Spark, sessions and server, and closes them again."""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from jetbridge.app.configuration import BACKENDS, with_default_catalogs
from jetbridge.app.run_function import statements_for_clients, with_run_function
from jetbridge.catalog import CanClose, CanSweep, Catalog, supports
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import Config
from jetbridge.config.credentials import keep_seal_key, reading
from jetbridge.config.model import DEFAULT_HOST, DEFAULT_PORT, Limits, Openness, Token
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.errors import BadRequest, FailedPrecondition
from jetbridge.pipeline.report import ProgressListener, ignore_progress
from jetbridge.runtime.temporary_folders import start_sweep
from jetbridge.spark import SparkEngine

if TYPE_CHECKING:
    from jetbridge.pipeline.session import Session
    from jetbridge.service import Server

log = logging.getLogger(__name__)

SPARK_LOG = Path("logs", "spark.log")
# Spark ends in about one second; it has no work left by then.
SPARK_END_SECONDS = 5.0


class Application:
    """Hold the catalogs of a configuration, and the Spark that they share. Nothing is started.

    `open_application` makes one and closes it.
    """

    def __init__(
        self, config: Config, catalogs: Mapping[str, Catalog], resources: SharedResources
    ) -> None:
        self.config, self.catalogs, self.resources = config, catalogs, resources
        # In which statements of clients run.
        self._processes = StatementProcesses()

    @property
    def engine(self) -> SparkEngine | None:
        """Return the Spark of the catalogs, or None if none of them uses it."""
        engine: SparkEngine | None = self.resources.engine
        return engine

    @cached_property
    def server(self) -> "Server":
        """Return the server of the catalogs, which `Server.start` starts.

        Clients may call `run` unless `clients = false` in [sql].
        """
        from jetbridge.service import Server  # noqa: PLC0415 - sessions do not need grpc

        server = self.config.server
        return Server(
            self._catalogs_for_clients(),
            host=server.host,
            port=server.port,
            tokens=self.config.credentials.tokens,
            tls=self.config.credentials.tls,
            limits=self.config.limits,
            transaction_seconds=server.transaction_seconds,
            seal_keys=seal_keys(self.config),
            openness=Openness(server.open_handshake, server.open_health, server.open_reflection),
        )

    def _catalogs_for_clients(self) -> Mapping[str, Catalog]:
        if not self.config.sql.clients:
            return self.catalogs
        execute = statements_for_clients(
            self.config, self.resources, self.catalogs, self._processes
        )
        return {
            name: with_run_function(catalog, name, execute)
            for name, catalog in self.catalogs.items()
        }

    def session(self, watch: ProgressListener = ignore_progress) -> "Session":
        """Return a session of the local user over the catalogs; the caller closes it."""
        # The pipeline takes half a second to import, which a server need not wait for.
        from jetbridge.app.sessions import local_session  # noqa: PLC0415

        return local_session(self, watch)

    def start_background(self) -> None:
        """Start the removal of what crashes have left, and Spark if writes need it.

        A server calls this when it listens. Catalogs that use Spark for large loads only start it
        when the first one comes.
        """
        start_sweep()
        if self.config.sql.clients:
            threading.Thread(target=self._processes.start, name="run-start", daemon=True).start()
        kinds = {config.type for config in self.config.catalogs.values()}
        if self.engine and any(BACKENDS[kind].uses_spark == "for writes" for kind in kinds):
            self.engine.start()
        for catalog in self.catalogs.values():
            if supports(catalog, CanSweep):
                catalog.start_sweeper()

    def sweep(self) -> Sequence[str]:
        """Remove what crashes have left in catalogs that write with Spark; return what it was.

        Other catalogs sweep while they are used. A sweep that fails is logged: the next one tries
        again.
        """
        removed: list[str] = []
        for name, catalog in self.catalogs.items():
            backend = BACKENDS[self.config.catalogs[name].type]
            if backend.uses_spark == "for writes" and supports(catalog, CanSweep):
                try:
                    removed += catalog.sweep()
                except Exception as error:  # noqa: BLE001 - the next sweep tries again
                    log.warning("catalog %r was not swept: %s", name, str(error)[:300])
        return removed

    def close(self, grace: float = 0) -> None:
        """Stop the server, then Spark, and close the catalogs.

        Running calls have `grace` seconds to end; they may need Spark.
        """
        if "server" in vars(self):
            self.server.stop(grace)
        self._processes.close()
        if self.engine:
            self.engine.stop(SPARK_END_SECONDS)
        for catalog in self.catalogs.values():
            close_catalog(catalog)


@contextmanager
def open_application(
    config: Config, *, verbose: bool = False, use_spark: bool | None = None
) -> Iterator[Application]:
    """Open the catalogs of a configuration for a block; the parameters are `build_application`'s.

    Raises BadRequest, FailedPrecondition or Unavailable if a catalog cannot be opened.
    """
    application = build_application(config, verbose=verbose, use_spark=use_spark)
    try:
        yield application
    finally:
        application.close()


def build_application(
    config: Config, *, verbose: bool = False, use_spark: bool | None = None
) -> Application:
    """Open the catalogs of a configuration; the caller closes the application.

    `verbose` makes Spark log more. `use_spark` decides whether the catalogs have a Spark; None:
    they have one if one of them uses it. Raises what `open_application` raises.
    """
    config = replace(config, catalogs=with_default_catalogs(config))
    engine = None if use_spark is False else new_engine(config, verbose=verbose)
    if engine is None and use_spark:
        engine = SparkEngine(config.spark, log_file=_spark_log(config), verbose=verbose)
    resources = SharedResources(config.limits, engine)
    return Application(config, open_catalogs(config, resources), resources)


def open_catalogs(config: Config, resources: SharedResources) -> dict[str, Catalog]:
    """Open all catalogs of a configuration, by name; raises what `open_application` raises."""
    return {
        name: open_catalog(name, catalog.type, catalog, resources)
        for name, catalog in config.catalogs.items()
    }


def open_catalog(name: str, kind: str, config: object, resources: SharedResources) -> Catalog:
    """Open one catalog of a type; raises what `open_application` raises."""
    backend = BACKENDS[kind]
    with _explain_missing_package(name, backend.extra):
        return backend.open(name, config, resources)


def close_catalog(catalog: Catalog) -> None:
    """Close a catalog if it has something to close."""
    if supports(catalog, CanClose):
        catalog.close()


@contextmanager
def _explain_missing_package(name: str, extra: str) -> Iterator[None]:
    """Turn an ImportError of an extra into FailedPrecondition with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package == "jetbridge" or not extra:
            raise
        raise FailedPrecondition(
            f"catalog {name!r} needs {package}, which is not installed: run "
            f"pip install 'jetbridge[{extra}]', or configure other catalogs and pass the file "
            "with --config"
        ) from error
    except ImportError as error:
        raise FailedPrecondition(
            f"catalog {name!r}: a package of 'jetbridge[{extra}]' cannot be loaded: {error}; "
            "run jetbridge doctor, which says what is missing"
        ) from error


def seal_keys(config: Config) -> Callable[[], Sequence[bytes]] | None:
    """Return a function that reads the keys of the seals, or None for keys of this process alone.

    Without `server.seal_key_file` the key is in a file beside the tables. A server whose tables
    do not outlive it needs no file: its tickets end with it.
    """
    path = config.server.seal_key_file
    if path is None and any(BACKENDS[c.type].is_durable for c in config.catalogs.values()):
        path = keep_seal_key(_local_folder(config) or config.data_folder)
    return reading(path) if path else None


def _local_folder(config: Config) -> Path | None:
    """Return the folder of the first catalog that has one on this machine, if it exists."""
    folders = (catalog.local_folder() for catalog in config.catalogs.values())
    return next((folder for folder in folders if folder and folder.is_dir()), None)


def new_engine(config: Config, *, verbose: bool = False) -> SparkEngine | None:
    """Return the Spark that the catalogs share, not started, or None if none of them uses it."""
    kinds = {catalog.type for catalog in config.catalogs.values()}
    if all(BACKENDS[kind].uses_spark == "never" for kind in kinds):
        return None
    return SparkEngine(config.spark, log_file=_spark_log(config), verbose=verbose)


def _spark_log(config: Config) -> Path:
    """Return the file of Spark's log: beside the tables if they are on this machine."""
    folders = (catalog.local_folder() for catalog in config.catalogs.values())
    folder = next(filter(None, folders), None)
    if folder:
        return folder / ".jetbridge" / SPARK_LOG
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache.absolute() / "jetbridge" / SPARK_LOG


def serve(
    catalogs: Mapping[str, Catalog],
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    tokens: Sequence[Token] = (),
    tls: tuple[bytes, bytes] | None = None,
    limits: Limits | None = None,
) -> "Server":
    """Start a server of catalogs and return it; `with serve(...) as server:` also stops it.

    Args:
        catalogs: The catalogs by name, your own ones among them. Names are printable ASCII.
        host: The address to listen on. An address that others can reach needs tokens.
        port: The port to listen on; 0 picks a free one, which `server.location` tells.
        tokens: Who may call. Without tokens, everyone who reaches the server may.
        tls: The certificate and its key, in PEM.
        limits: Upper bounds for calls and statements; see `jetbridge.service.Limits`.

    Raises:
        ValueError: A name is not allowed, or the host needs tokens.
        Unavailable: The server cannot listen on the address.

    Examples:
        >>> from jetbridge.backends.memory import MemoryCatalog
        >>> with jetbridge.serve({"mine": MemoryCatalog()}, port=0) as server:
        ...     client = jetbridge.connect(server.location, "mine")
        ...     client.list_schemas()
        []
    """
    from jetbridge.service import Server  # noqa: PLC0415 - sessions do not need grpc

    server = Server(
        catalogs, host=host, port=port, tokens=tokens, tls=tls, limits=limits or Limits()
    )
    server.start()
    return server


# Catalogs of this type can be optimized.
KIND = "lake"


@dataclass(frozen=True)
class OptimizeRequest:
    """Name a table and what to do with it; None leaves the layout as it is."""

    catalog: str
    schema: str
    table: str
    older_than: timedelta
    upgrade: bool = False
    partition_by: str | None = None
    sort_by: str | None = None


def optimize_table(
    config: Config,
    request: OptimizeRequest,
    *,
    verbose: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Sequence[tuple[str, str, str]]:
    """Optimize a table and return what it consisted of, before and after.

    `progress` gets a line for each step. Raises BadRequest for another type of catalog, NotFound,
    FailedPrecondition if the extra `lake` is missing, and Unavailable.
    """
    config = replace(config, catalogs={request.catalog: config.catalogs[request.catalog]})
    with open_application(config, verbose=verbose) as application:
        # The extra `lake` brings what these need.
        from jetbridge.backends.lake.catalog import LakeCatalog  # noqa: PLC0415
        from jetbridge.backends.lake.maintenance.optimize import (  # noqa: PLC0415
            OptimizeOptions,
            optimize,
        )

        catalog = application.catalogs[request.catalog]
        if not isinstance(catalog, LakeCatalog):
            raise BadRequest(f"catalog {request.catalog!r} is not a lake, which optimize needs")
        catalog.load_schema(request.schema).load_table(request.table)
        progress("starting Spark")
        catalog.lake.warehouse.engine.start()
        options = OptimizeOptions(
            older_than=request.older_than,
            upgrade=request.upgrade,
            partition_by=request.partition_by,
            sort_by=request.sort_by,
        )
        return optimize(catalog.lake, request.schema, request.table, options, progress)
