"""Iceberg's own REST catalog server, the one its project tests clients with, on a free port.

Its jar (200 MB) is fetched by Spark's Ivy on first use, and cached beside the jars of the lake.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jetbridge.spark.jars import FOLDER_VARIABLE, Jar, Jars, fetching, ivy_folder
from jetbridge.spark.jvm import find_java
from tests.helpers.lakes import engine
from tests.helpers.waiting import wait_until_it_succeeds
from tests.integration.catalogs.postgres import free_port

# The last release that was published as a jar.
SERVER = Jar("org.apache.iceberg", "iceberg-open-api", "1.10.0")
SECONDS = 120.0


def server_jar() -> Path:
    folders = [ivy_folder({}) / "jars", Path(os.environ.get(FOLDER_VARIABLE, "."))]
    found = [folder / name for folder in folders for name in SERVER.file_names]
    there = next((path for path in found if path.is_file()), None)
    return there or _fetched()


def _fetched() -> Path:
    folder = ivy_folder({})
    with fetching(Jars("fetch", {}, folder, (SERVER.coordinates,))), engine().session() as session:
        jvm = session.jvm
        output = jvm.java.io.ByteArrayOutputStream()
        said = jvm.java.io.PrintStream(output)
        maven, nothing = _scala(jvm.org.apache.spark.util, "MavenUtils"), _scala(jvm.scala, "None")
        path = jvm.scala.Option.apply(str(folder))
        settings = maven.buildIvySettings(nothing, path, True, said)
        no_exclusions = _scala(jvm.scala.collection.immutable, "Nil")
        found = maven.resolveMavenCoordinates(
            SERVER.coordinates, settings, nothing, False, no_exclusions, False, said
        )
        assert found.nonEmpty(), output.toString()
        return Path(found.head())


def _scala(package: Any, name: str) -> Any:
    """Return a Scala object, as Java sees it."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


@contextmanager
def running_rest_catalog(folder: Path) -> Iterator[str]:
    """Provide the address of a catalog whose tables are in the folder `warehouse`."""
    port = free_port()
    environment = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'rest.db'}",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": str(folder / "warehouse"),
        "CATALOG_IO__IMPL": "org.apache.iceberg.hadoop.HadoopFileIO",
        "CATALOG_REST_PORT": str(port),
    }
    log = folder / "rest.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [find_java().home / "bin" / "java", "-Xmx300m", "-jar", server_jar()],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
    try:
        _await(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(SECONDS)


def _await(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    def connect() -> None:
        assert process.poll() is None, log.read_text()
        socket.create_connection(("127.0.0.1", port)).close()

    wait_until_it_succeeds(connect, OSError, seconds=SECONDS)
