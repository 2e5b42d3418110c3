"""The composition root: the one module that may import everything."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from jetbridge.app.run_function import Execute, with_run_function
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import Catalog
from jetbridge.config import CatalogConfig, Config, LakeConfig, MssqlConfig
from jetbridge.config.seal_keys import keep_seal_key, reading
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError
from jetbridge.errors import BadRequest, FailedPrecondition, ServerError, Unavailable
from jetbridge.runtime.temporary_folders import start_sweep
from jetbridge.service import Server
from jetbridge.service.limits import Limits, Openness, Token
from jetbridge.spark import SparkEngine

if TYPE_CHECKING:
    from jetbridge.backends.lake import LakeCatalog
    from jetbridge.backends.mssql.catalog import MssqlCatalog

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8815
SPARK_LOG = Path("logs", "spark.log")
# An orderly end of Spark takes about one; it has nothing left to do by then.
SPARK_END_SECONDS = 5.0


@dataclass(frozen=True)
class SharedResources:
    """What the catalogs of one server share; where one of them needs Spark there is an engine."""

    limits: Limits
    engine: SparkEngine | None


def _memory(_: str, __: CatalogConfig, shared: SharedResources) -> MemoryCatalog:
    limits = shared.limits
    return MemoryCatalog(
        total_history_bytes=limits.history_bytes,
        spill_bytes=limits.spill_bytes,
        staged_bytes=limits.staged_bytes,
    )


def _lake(name: str, config: CatalogConfig, shared: SharedResources) -> "LakeCatalog":
    lake, engine = cast(LakeConfig, config), cast(SparkEngine, shared.engine)
    folder = local_folder(lake.warehouse)
    reader = _early_reader(folder) if folder and not lake.properties else None
    with _needing(name, "lake"):
        # Here, because it takes a second to load, and the extra `lake` brings what it needs.
        from jetbridge.backends.lake import LakeCatalog  # noqa: PLC0415
        from jetbridge.backends.lake.lake import LakeOptions  # noqa: PLC0415
    options = LakeOptions(
        str(folder) if folder else lake.warehouse.rstrip("/"),
        enforce_keys_rows=lake.enforce_keys_rows,
        staged_bytes=shared.limits.staged_bytes,
        spill_bytes=shared.limits.spill_bytes,
    )
    try:
        return LakeCatalog(
            name, options.warehouse, engine, lake.properties, options=options, reader=reader
        )
    except (BadRequest, Unavailable) as error:
        raise type(error)(f"catalog {name!r}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        problem = f"the warehouse {options.warehouse} cannot be used: {reason}"
        raise Unavailable(f"catalog {name!r}: {problem}") from error


def _mssql(name: str, config: CatalogConfig, shared: SharedResources) -> "MssqlCatalog":
    given = cast(MssqlConfig, config)
    with _needing(name, "mssql"):
        # Here, because the extra `mssql` brings the driver.
        from jetbridge.backends.mssql.catalog import MssqlCatalog, SpoolOptions  # noqa: PLC0415
    # Without the extra `lake` there is no Spark, and one connection loads everything.
    engine = shared.engine if find_spec("pyspark") else None
    options = SpoolOptions(
        spool=given.spool,
        shared=engine is not None and not engine.is_local,
        staged_bytes=shared.limits.staged_bytes,
    )
    return MssqlCatalog(
        name, given.address, settings=given.settings, engine=engine, options=options
    )


@contextmanager
def _needing(name: str, extra: str) -> Iterator[None]:
    """Imports of what comes with an extra; raises FailedPrecondition with how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package == "jetbridge":
            raise
        raise FailedPrecondition(
            f"catalog {name!r} needs {package}, which is not installed: run "
            f"pip install 'jetbridge[{extra}]', or name other catalogs in a file for --config"
        ) from error
    except ImportError as error:
        raise FailedPrecondition(
            f"catalog {name!r}: a package of 'jetbridge[{extra}]' cannot be loaded: {error}; "
            "run jetbridge doctor, which says what is missing"
        ) from error


def _early_reader(folder: Path) -> LakeReader:
    """It is opened while the rest of the lake is loaded: so the first scan comes sooner."""
    reader = LakeReader([str(folder)])

    def open_it() -> None:
        # What is wrong here, the first scan says as well.
        with suppress(ServerError, QueryError):
            reader.query("SELECT 1")

    # A process that ends while DuckDB loads its extensions would be aborted, so Python has to wait
    # for the thread, also where a daemon starts it: without `daemon` it would be one, too.
    threading.Thread(target=open_it, name="lake-reader", daemon=False).start()
    return reader


BACKENDS: Mapping[str, Callable[[str, CatalogConfig, SharedResources], Catalog]] = {
    "memory": _memory,
    "lake": _lake,
    "mssql": _mssql,
}


# Makes what runs the SQL of clients over these catalogs.
OpenStatements = Callable[[Config, SharedResources, Mapping[str, Catalog]], Execute]


@dataclass(frozen=True)
class App:
    """A server, its catalogs, and the Spark that they share, if any. Nothing is started yet."""

    server: Server
    engine: SparkEngine | None
    lakes: Sequence["LakeCatalog"] = ()
    catalogs: Sequence[Catalog] = ()

    def start_background(self) -> None:
        """What clears up after crashes, and Spark; for after the server listens.

        Without a lake Spark waits: other catalogs need it for large loads only.
        """
        start_sweep()
        if self.engine and self.lakes:
            self.engine.start()
        for lake in self.lakes:
            lake.start_sweeper()

    def stop(self, grace: float) -> None:
        """First the calls, which may need Spark for `grace` seconds yet, then the rest."""
        self.server.stop(grace)
        if self.engine:
            self.engine.stop(SPARK_END_SECONDS)
        for catalog in self.catalogs:
            close_catalog(catalog)


def close_catalog(catalog: Catalog) -> None:
    """If it is one that has something to close."""
    close = getattr(catalog, "close", None)
    if callable(close):
        close()


def open_catalogs(config: Config, shared: SharedResources) -> dict[str, Catalog]:
    """All of them; raises what `build_app` raises."""
    return {name: BACKENDS[each.type](name, each, shared) for name, each in config.catalogs.items()}


def build_app(
    config: Config, *, verbose: bool = False, statements: OpenStatements | None = None
) -> App:
    """Everything of a checked configuration; `verbose` also makes Spark's own log so.

    `statements` gives what runs SQL for clients; without it, or with `clients = false`
    in `[sql]`, they are not offered `run`.
    Raises BadRequest, FailedPrecondition or Unavailable if a catalog cannot be opened.
    """
    engine = new_engine(config, verbose)
    shared = SharedResources(config.limits, engine)
    catalogs = open_catalogs(config, shared)
    offered = statements if config.sql.clients else None
    execute = offered(config, shared, catalogs) if offered else None
    server = Server(
        {name: with_run_function(each, name, execute) for name, each in catalogs.items()}
        if execute
        else catalogs,
        host=config.server.host,
        port=config.server.port,
        tokens=config.credentials.tokens,
        tls=config.credentials.tls,
        limits=config.limits,
        transaction_seconds=config.server.transaction_seconds,
        seal_keys=seal_keys(config),
        openness=Openness(
            config.server.open_handshake,
            config.server.open_health,
            config.server.open_reflection,
        ),
    )
    lakes = [
        cast("LakeCatalog", catalogs[name])
        for name, each in config.catalogs.items()
        if isinstance(each, LakeConfig)
    ]
    return App(server, engine, lakes, list(catalogs.values()))


def seal_keys(config: Config) -> Callable[[], Sequence[bytes]] | None:
    """Those of the file that is named, else of one that is kept with the tables.

    Tables in memory do not outlive the server, and no more do the tickets for them.
    """
    path = config.server.seal_key_file
    if path is None and any(each.type != "memory" for each in config.catalogs.values()):
        path = keep_seal_key(_kept_on_this_machine(config))
    return reading(path) if path else None


def _kept_on_this_machine(config: Config) -> Path:
    """The folder of the first lake that is here."""
    for each in config.catalogs.values():
        folder = local_folder(each.warehouse) if isinstance(each, LakeConfig) else None
        if folder and folder.is_dir():
            return folder
    return config.data_folder


def open_lake(
    config: Config, name: str, *, verbose: bool = False
) -> tuple["LakeCatalog", SparkEngine]:
    """One lake of the configuration, without a server; its Spark is for the caller to stop."""
    engine = cast(SparkEngine, new_engine(config, verbose))
    return _lake(name, config.catalogs[name], SharedResources(config.limits, engine)), engine


def new_engine(config: Config, verbose: bool) -> SparkEngine | None:
    """For the lakes of a configuration, and for large loads elsewhere; not started yet."""
    catalogs = config.catalogs.values()
    lakes = [each for each in catalogs if isinstance(each, LakeConfig)]
    if not lakes and not any(isinstance(each, MssqlConfig) for each in catalogs):
        return None
    log_file = _spark_log(lakes[0] if lakes else None)
    return SparkEngine(config.spark, log_file=log_file, verbose=verbose)


def engine_for_attach(config: Config, verbose: bool) -> SparkEngine:
    """For a lake that may be attached where there is none yet."""
    return SparkEngine(config.spark, log_file=_spark_log(None), verbose=verbose)


def _spark_log(lake: LakeConfig | None) -> Path:
    """With the tables if they are on this machine, so that it is found."""
    folder = local_folder(lake.warehouse) if lake else None
    if folder:
        return folder / ".jetbridge" / SPARK_LOG
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache.absolute() / "jetbridge" / SPARK_LOG


def local_folder(warehouse: str) -> Path | None:
    """None if it is not on this machine."""
    parts = urlsplit(warehouse)
    if parts.scheme not in ("", "file"):
        return None
    return Path(parts.path if parts.scheme else warehouse).expanduser().absolute()


def serve(
    catalogs: Mapping[str, Catalog],
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    tokens: Sequence[Token] = (),
    tls: tuple[bytes, bytes] | None = None,
    limits: Limits | None = None,
) -> Server:
    """Starts a server of these catalogs, by name; `with serve(...) as server:` also stops it.

    Port 0 picks a free one; `server.location` tells which. `tls` is certificate and key, in PEM.
    A host that others can reach needs tokens, and names must be printable ASCII: else ValueError.
    """
    server = Server(
        catalogs, host=host, port=port, tokens=tokens, tls=tls, limits=limits or Limits()
    )
    server.start()
    return server
