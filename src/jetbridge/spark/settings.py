"""What Spark is told: our defaults, the user's own settings above them."""

import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
LOOPBACK = "127.0.0.1"
# More partitions than this only cost time on one machine; Spark's default of 200 is for clusters.
MOST_LOCAL_PARTITIONS = 8
HIDDEN = "***"
# Spark would put values of the environment and of settings into the text of every statement.
SUBSTITUTE = "spark.sql.variable.substitute"
# What nobody may change, since statements would read secrets or lose rows: the value, and why.
FIXED = {
    SUBSTITUTE: ("false", "statements could read the environment and the settings of the server"),
    "spark.sql.files.ignoreMissingFiles": ("false", "rows would be lost without an error"),
    "spark.sql.files.ignoreCorruptFiles": ("false", "rows would be lost without an error"),
}
SECRET = re.compile(r"password|secret|token|key|credential|authorization", re.IGNORECASE)
# What a connection string may carry.
SECRET_IN_URI = re.compile(r"(?i)(://[^/\s:@]+:|[?;&](?:password|token|secret)=)[^@;&\s]+")


def is_local(settings: Mapping[str, str]) -> bool:
    """Whether driver and executors share this machine."""
    return settings.get("spark.master", "local").startswith("local")


def complete(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """All settings; Spark's own files go to `folder`, and what the user gave stands, but FIXED."""
    settings = {
        "spark.app.name": "jetbridge",
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        # What Spark hides in its own log and event log: keys and headers of catalogs, too.
        "spark.redaction.regex": f"(?i){SECRET.pattern}|uri$",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # Spools are read by others, to whom a time as Spark's own INT96 has no zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(_local_settings(folder) if is_local(given) else {"spark.speculation": "true"}),
        **given,
    }
    settings["spark.sql.extensions"] = _with_iceberg(given.get("spark.sql.extensions", ""))
    return {**settings, **{name: value for name, (value, _) in FIXED.items()}}


def _local_settings(folder: Path) -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        # Others on this machine can connect, too; what they could say is as good as code.
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": str(min(2 * cores, MOST_LOCAL_PARTITIONS)),
    }


def _with_iceberg(extensions: str) -> str:
    names = [each.strip() for each in extensions.split(",") if each.strip()]
    return ",".join(names if ICEBERG_EXTENSIONS in names else [ICEBERG_EXTENSIONS, *names])


def with_java_options(settings: Mapping[str, str], folder: Path, log4j: Path) -> dict[str, str]:
    """The options of the driver's JVM: ours first, so that the user's win."""
    name = "spark.driver.extraJavaOptions"
    ours = (
        _quoted(f"-Dlog4j2.configurationFile={log4j.as_uri()}"),
        _quoted(f"-Djava.io.tmpdir={folder / 'tmp'}"),
        _quoted(f"-Dderby.system.home={folder}"),
        # A driver without memory is broken for good; a new one is not.
        "-XX:+ExitOnOutOfMemoryError",
    )
    return {**settings, name: " ".join((*ours, settings.get(name, ""))).strip()}


def _quoted(option: str) -> str:
    """One option in the way Spark's launcher takes a line of options apart."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def worker_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The Python of Spark's tasks: on this machine, ours."""
    given = settings.get("spark.pyspark.python") or environment.get("PYSPARK_PYTHON")
    if given:
        return given
    return sys.executable if is_local(settings) else "python3"


def catalog_settings(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """An Iceberg catalog as Spark wants it."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: ICEBERG_CATALOG,
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for a log: no secret among them."""
    return {
        name: HIDDEN if SECRET.search(name) else SECRET_IN_URI.sub(rf"\g<1>{HIDDEN}", value)
        for name, value in settings.items()
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """The settings as a Java properties file."""
    return "".join(f"{escaped(name)}={escaped(value)}\n" for name, value in settings.items())


def escaped(text: str) -> str:
    """For a properties file: all but plain letters and digits as \\uXXXX, which needs no rules."""
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}"
        for code in codes
    )
