"""One set of Iceberg catalog properties, for Spark and for PyIceberg.

`uri` decides which catalog it is: none or sqlite is a file in the warehouse, jdbc:postgresql a
database, http(s) a REST catalog, thrift a Hive metastore. Both engines then see the same tables.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import RESTError
from sqlalchemy.exc import SQLAlchemyError

from jetbridge.backends.lake.files import Files, local_path
from jetbridge.backends.lake.pointers import unreachable
from jetbridge.embedded.lake import LakeReader
from jetbridge.errors import BadRequest, Unavailable
from jetbridge.sql.quoting import literal

CATALOG_FILE = "catalog.db"
# How long a writer waits for the SQLite file when another process writes.
_BUSY_SECONDS = 20


@dataclass(frozen=True)
class Connection:
    catalog: IcebergCatalog
    reader: LakeReader
    files: Files
    warehouse: str
    spark_properties: Mapping[str, str]


def connected(name: str, warehouse: str, properties: Mapping[str, str]) -> Connection:
    """Raises Unavailable if the catalog does not answer."""
    folder = _prepared(warehouse)
    python, spark = both(folder, properties)
    try:
        catalog = load_catalog(name, **python)
    except SQLAlchemyError as error:
        raise unreachable(error) from error
    except (RESTError, OSError) as error:
        raise Unavailable(f"the catalog of lake {name!r} does not answer: {error}"[:450]) from error
    allowed = [folder, *properties.get("jetbridge.folders", "").split()]
    reader = LakeReader(allowed, secrets=_secrets(properties))
    return Connection(catalog, reader, Files(python), folder, spark)


def _prepared(warehouse: str) -> str:
    """The warehouse as an absolute location; a local one is made."""
    path = local_path(warehouse)
    if path is None:
        return warehouse.rstrip("/")
    folder = Path(path).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


def both(warehouse: str, properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The properties as PyIceberg and as Spark want them."""
    uri = properties.get("uri", "")
    given = {key: value for key, value in properties.items() if not key.startswith("jetbridge.")}
    python = {**given, "warehouse": warehouse}
    spark = {"cache-enabled": "false", **given, "warehouse": warehouse}
    if not uri or "sqlite:" in uri.split("/", 1)[0]:
        return _sqlite(uri, warehouse, python, spark)
    if uri.startswith(("jdbc:postgresql:", "postgresql")):
        return _postgres(uri, python, spark)
    if uri.startswith(("http:", "https:")):
        return {"type": "rest", **python}, {"type": "rest", **spark}
    if uri.startswith("thrift:"):
        return {"type": "hive", **python}, {"type": "hive", **spark}
    raise BadRequest(
        f"uri = {uri!r} is no catalog: it must begin with jdbc:sqlite:, jdbc:postgresql:, http:, "
        "https: or thrift:"
    )


def _sqlite(
    uri: str, warehouse: str, python: dict[str, str], spark: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    file = uri.removeprefix("jdbc:").removeprefix("sqlite:")
    if file.startswith("///"):
        file = file.removeprefix("//")[1:] if file.startswith("////") else file.removeprefix("///")
    if not file:
        if local_path(warehouse) is None:
            raise BadRequest("a warehouse in an object store needs a uri for its catalog")
        file = os.path.join(warehouse, CATALOG_FILE)
    python |= {"type": "sql", "uri": f"sqlite:///{file}?timeout={_BUSY_SECONDS}"}
    spark |= {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{file}?busy_timeout={_BUSY_SECONDS * 1000}",
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
    place = f"{host}:{parts.port or 5432}{parts.path}"
    query = f"?{parts.query}" if parts.query else ""
    login = quote(user, safe="") + (":" + quote(password, safe="") if password else "")
    at = f"{login}@" if user else ""
    python |= {"type": "sql", "uri": f"postgresql+psycopg2://{at}{place}{query}"}
    spark |= {
        "type": "jdbc",
        "uri": f"jdbc:postgresql://{place}{query}",
        "jdbc.schema-version": "V1",
    }
    spark |= {"jdbc.user": user} if user else {}
    spark |= {"jdbc.password": password} if password else {}
    return python, spark


def _secrets(properties: Mapping[str, str]) -> list[str]:
    """Access to an object store for the embedded DuckDB, from Iceberg's own property names."""
    names = {
        "s3.access-key-id": "KEY_ID",
        "s3.secret-access-key": "SECRET",
        "s3.session-token": "SESSION_TOKEN",
        "s3.region": "REGION",
        "client.region": "REGION",
    }
    given = {ours: properties[name] for name, ours in names.items() if name in properties}
    endpoint = properties.get("s3.endpoint")
    if endpoint:
        parsed = urlsplit(endpoint)
        given["ENDPOINT"] = parsed.netloc or parsed.path
        given["USE_SSL"] = "true" if parsed.scheme == "https" else "false"
    if properties.get("s3.path-style-access", "").lower() == "true":
        given["URL_STYLE"] = "path"
    if not given:
        return []
    listed = ", ".join(f"{name} {literal(value)}" for name, value in given.items())
    return [f"CREATE SECRET lake (TYPE s3, {listed})"]
