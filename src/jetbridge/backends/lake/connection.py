"""Connects Spark and PyIceberg to one Iceberg catalog, with one set of properties.

`uri` decides which catalog it is: none or sqlite is a file in the warehouse, jdbc:postgresql a
database, http(s) a REST catalog, thrift a Hive metastore. Both engines then see the same tables.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog

from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.metadata.pointers import catalog_errors
from jetbridge.catalog import Reach
from jetbridge.dialects.quoting import identifier, literal
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import BadRequest
from jetbridge.spark.jars import files_of

CATALOG_FILE = "catalog.db"
# Our own properties: how many seconds a statement waits for a SQLite file that another process has
# locked, and folders with files of tables besides the warehouse.
BUSY_SECONDS = "jetbridge.busy-seconds"
FOLDERS = "jetbridge.folders"
_BUSY_SECONDS = "20"
_FORBIDDEN = frozenset("%?#*[]{}\n")
# Clients must name a region, also for a server that is not Amazon's.
_ANY_REGION = "us-east-1"
_MOST_BUSY_SECONDS = 3601
# Codes of PostgreSQL for connections that a restart has cut, besides those that Iceberg has:
# https://www.postgresql.org/docs/current/errcodes-appendix.html
_RESTARTED = "57P01,57P02,57P03"


@dataclass(frozen=True)
class IcebergConnection:
    """Hold a catalog, and what reads and writes of its files need."""

    catalog: IcebergCatalog
    reader: LakeReader
    files: Files
    warehouse: str
    spark_properties: Mapping[str, str] = field(repr=False)
    reach: Reach


def connect(name: str, warehouse: str, properties: Mapping[str, str]) -> IcebergConnection:
    """Connect to a catalog; raises BadRequest, or Unavailable if it does not answer."""
    folders = [_prepare(folder) for folder in properties.get(FOLDERS, "").split()]
    if _is_name(warehouse, properties):
        if not folders:
            raise BadRequest(
                f"lake {name!r}: warehouse {warehouse!r} is a name, so only its catalog has the "
                f"folder of its tables; name that folder in {FOLDERS}, too"
            )
        python, spark = both(warehouse, properties)
    else:
        folders = [_prepare(warehouse), *folders]
        python, spark = both(folders[0], properties)
    with catalog_errors():
        catalog = load_catalog(name, **python)
    reach = Reach(folders, _secrets(name, folders, python))
    reader = LakeReader(reach.folders, secrets=reach.secrets)
    return IcebergConnection(catalog, reader, Files(python), folders[0], spark, reach)


def _is_name(warehouse: str, properties: Mapping[str, str]) -> bool:
    """Return whether the warehouse is a name, as a REST catalog may have it."""
    is_rest = properties.get("uri", "").startswith(("http:", "https:"))
    return is_rest and "/" not in warehouse


def _prepare(warehouse: str) -> str:
    """Return the warehouse as an absolute location; a local folder is created."""
    path = local_path(warehouse)
    if path is None:
        return warehouse.rstrip("/")
    folder = Path(path).expanduser().absolute()
    forbidden = _FORBIDDEN.intersection(str(folder))
    if forbidden:
        raise BadRequest(
            f"the folder {folder} cannot hold a lake: {' '.join(sorted(forbidden))} in its name "
            "means something else to Spark or to SQLite; choose another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def both(warehouse: str, properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the properties for PyIceberg and for Spark."""
    uri = properties.get("uri", "")
    others = {key: value for key, value in properties.items() if not key.startswith("jetbridge.")}
    python = {**others, "warehouse": warehouse}
    spark = {"cache-enabled": "false", **others, "warehouse": warehouse}
    files = files_of(warehouse)
    if files:
        python, spark = _s3(python, {**files, **spark})
    if not uri or "sqlite:" in uri.split("/", 1)[0]:
        file = _sqlite_file(uri, warehouse)
        return _sqlite(file, properties.get(BUSY_SECONDS, _BUSY_SECONDS), python, spark)
    if uri.startswith(("jdbc:postgresql:", "postgresql")):
        return _postgres(uri, python, spark)
    if uri.startswith(("http:", "https:")):
        return {"type": "rest", **python}, {"type": "rest", **spark}
    if uri.startswith("thrift:"):
        return {"type": "hive", **python}, {"type": "hive", **spark}
    raise BadRequest(
        f"uri = {uri!r} is not a catalog: it must begin with jdbc:sqlite:, jdbc:postgresql:, "
        "http:, https: or thrift:"
    )


def _s3(python: dict[str, str], spark: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Add the region, which PyIceberg and Iceberg's Java library name differently."""
    region = spark.get("client.region") or python.get("s3.region")
    if region is None and "s3.endpoint" in python:
        region = _ANY_REGION
    if region is None:
        return python, spark
    return {**python, "s3.region": region}, {**spark, "client.region": region}


def _sqlite_file(uri: str, warehouse: str) -> str:
    file = uri.removeprefix("jdbc:").removeprefix("sqlite:")
    if file.startswith("///"):
        file = file.removeprefix("//")[1:] if file.startswith("////") else file.removeprefix("///")
    if not file:
        if local_path(warehouse) is None:
            raise BadRequest("a warehouse in an object store needs a uri for its catalog")
        file = os.path.join(warehouse, CATALOG_FILE)
    # Absolute, because Spark works in a folder of its own.
    return os.path.abspath(os.path.expanduser(file))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _MOST_BUSY_SECONDS:
        raise BadRequest(f"{BUSY_SECONDS} = {text!r} must be a number of seconds, at most an hour")
    return seconds


def _sqlite(
    file: str, busy: str, python: dict[str, str], spark: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    seconds = _seconds(busy)
    python |= {"type": "sql", "uri": f"sqlite:///{file}?timeout={seconds}"}
    spark |= {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{file}?busy_timeout={int(seconds * 1000)}",
        "jdbc.schema-version": "V1",
    }
    return python, spark


def _postgres(
    uri: str, python: dict[str, str], spark: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    parts = urlsplit(uri.removeprefix("jdbc:"))
    user = parts.username or python.get("jdbc.user", "")
    password = parts.password or python.get("jdbc.password", "")
    host = parts.hostname or "localhost"
    address = f"{host}:{parts.port or 5432}{parts.path}"
    query = f"?{parts.query}" if parts.query else ""
    login = quote(user, safe="") + (":" + quote(password, safe="") if password else "")
    at = f"{login}@" if user else ""
    python |= {"type": "sql", "uri": f"postgresql+psycopg2://{at}{address}{query}"}
    python.setdefault("pool_pre_ping", "true")  # the database may have restarted
    spark |= {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{address}{query}",
        "jdbc.schema-version": "V1",
        "retryable_status_codes": _RESTARTED,
    }
    spark |= {"jdbc.user": user} if user else {}
    spark |= {"jdbc.password": password} if password else {}
    return python, spark


def _secrets(name: str, folders: Sequence[str], properties: Mapping[str, str]) -> list[str]:
    """Return the secret with which DuckDB reads an object store, from Iceberg's properties."""
    options = {
        "s3.access-key-id": "KEY_ID",
        "s3.secret-access-key": "SECRET",
        "s3.session-token": "SESSION_TOKEN",
        "s3.region": "REGION",
        "client.region": "REGION",
    }
    values = {name: properties[key] for key, name in options.items() if key in properties}
    endpoint = properties.get("s3.endpoint")
    if endpoint:
        parsed = urlsplit(endpoint)
        values["ENDPOINT"] = parsed.netloc or parsed.path
        values["USE_SSL"] = "true" if parsed.scheme == "https" else "false"
    if properties.get("s3.path-style-access", "").lower() == "true":
        values["URL_STYLE"] = "path"
    if not values:
        return []
    listed = ", ".join(f"{option} {literal(value)}" for option, value in values.items())
    scope = ", ".join(literal(folder) for folder in folders)
    return [f"CREATE SECRET {identifier(name)} (TYPE s3, SCOPE [{scope}], {listed})"]
