"""Describes the catalogs of type `lake`."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jetbridge.backends.lake.config import (
    LAKE_RULES,
    LakeConfig,
    config_for_attach,
    load_config,
)
from jetbridge.catalog.backend import Backend, SharedResources
from jetbridge.duckdb_engine.lake_reader import LakeReader, QueryError
from jetbridge.errors import BadRequest, ServerError, Unavailable

if TYPE_CHECKING:
    from jetbridge.backends.lake.catalog import LakeCatalog

PACKAGES = {
    "duckdb_extension_avro": "duckdb-extension-avro",
    "duckdb_extension_httpfs": "duckdb-extension-httpfs",
    "duckdb_extension_iceberg": "duckdb-extension-iceberg",
    "py4j": "py4j",
    "pyiceberg": "pyiceberg",
    "pyroaring": "pyroaring",
    "pyspark": "pyspark",
    "sqlalchemy": "sqlalchemy",
}


def open_catalog(name: str, config: LakeConfig, resources: SharedResources) -> "LakeCatalog":
    """Open a lake; raises ImportError, BadRequest, or Unavailable if its catalog does not answer.

    Spark is not started.
    """
    folder = config.local_folder()
    reader = open_reader_early(folder) if folder and not config.properties else None
    # PyIceberg takes a second to import, and comes with the extra `lake`.
    from jetbridge.backends.lake.catalog import LakeCatalog  # noqa: PLC0415
    from jetbridge.backends.lake.options import LakeOptions  # noqa: PLC0415

    options = LakeOptions(
        str(folder) if folder else config.warehouse.rstrip("/"),
        enforce_keys_rows=config.enforce_keys_rows,
        staged_bytes=resources.limits.staged_bytes,
        spill_bytes=resources.limits.spill_bytes,
    )
    try:
        return LakeCatalog(
            name,
            options.warehouse,
            resources.engine,
            config.properties,
            options=options,
            reader=reader,
        )
    except (BadRequest, Unavailable) as error:
        raise type(error)(f"catalog {name!r}: {error}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        problem = f"the warehouse {options.warehouse} cannot be used: {reason}"
        raise Unavailable(f"catalog {name!r}: {problem}") from error


def open_reader_early(folder: Path) -> LakeReader:
    """Return a reader that a thread opens while the rest of the lake loads.

    The first scan then begins sooner.
    """
    reader = LakeReader([str(folder)])

    def connect() -> None:
        # The first scan reports the error, too.
        with suppress(ServerError, QueryError):
            reader.query("SELECT 1")

    # Python must wait for this thread: a process that ends while DuckDB loads its extensions is
    # aborted. A thread that a daemon starts is a daemon itself unless `daemon` is set.
    threading.Thread(target=connect, name="lake-reader", daemon=False).start()
    return reader


BACKEND = Backend(
    kind="lake",
    extra="lake",
    packages=PACKAGES,
    keys={name: getattr(LakeConfig, name) for name in LAKE_RULES},
    load_config=load_config,
    config_for_attach=config_for_attach,
    open=open_catalog,
    uses_spark="for writes",
)
