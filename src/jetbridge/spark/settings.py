"""Completes the settings of Spark: our defaults, the user's settings over them, and its log.

Spark writes its log to a file, never to the terminal.
"""

import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
LOOPBACK = "127.0.0.1"
# On one machine, more partitions only cost time; Spark's default of 200 is for clusters.
MOST_LOCAL_PARTITIONS = 8
WORKER_DAEMON = "jetbridge.spark.worker_daemon"
# The name of a Unix socket has at most 107 bytes, of which Spark's own part has 42.
_LONGEST_SOCKET_FOLDER = 107 - 42
HIDDEN = "***"
# Replaces ${...} in statements by values of the environment and of settings.
SUBSTITUTE = "spark.sql.variable.substitute"
# Settings that cannot be changed: the value, and what would happen with another one.
FIXED = {
    SUBSTITUTE: ("false", "statements could read the environment and the settings of the server"),
    "spark.sql.files.ignoreMissingFiles": ("false", "rows would be lost without an error"),
    "spark.sql.files.ignoreCorruptFiles": ("false", "rows would be lost without an error"),
}
SECRET = re.compile(r"password|secret|token|key|credential|authorization", re.IGNORECASE)
# Secrets in a connection string.
SECRET_IN_URI = re.compile(r"(?i)(://[^/\s:@]+:|[?;&](?:password|token|secret)=)[^@;&\s]+")


def is_local(settings: Mapping[str, str]) -> bool:
    """Return whether driver and executors run on this machine."""
    return settings.get("spark.master", "local").startswith("local")


def complete(user_settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return all settings; Spark's own files go to `folder`. `FIXED` wins over the user's."""
    settings = {
        "spark.app.name": "jetbridge",
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        # Spark hides these in its own log and event log, keys and headers of catalogs included.
        "spark.redaction.regex": f"(?i){SECRET.pattern}|uri$",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        # Other programs read spools; for them a time in Spark's own INT96 has no zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.python.daemon.module": WORKER_DAEMON,
        **(_local_settings(folder) if is_local(user_settings) else {"spark.speculation": "true"}),
        **user_settings,
    }
    settings["spark.sql.extensions"] = _with_iceberg(user_settings.get("spark.sql.extensions", ""))
    return {**settings, **{name: value for name, (value, _) in FIXED.items()}}


def _local_settings(folder: Path) -> dict[str, str]:
    cores = os.cpu_count() or 1
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        # Other users of this machine can connect, and whoever connects can run code.
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": str(min(2 * cores, MOST_LOCAL_PARTITIONS)),
        **_socket_settings(folder / "tmp"),
    }


def _socket_settings(folder: Path) -> dict[str, str]:
    """Return settings for Unix sockets between Java and the Python workers, if their names fit.

    The folder must belong to the user alone: whoever can open the socket can run code.
    """
    if len(os.fsencode(folder)) > _LONGEST_SOCKET_FOLDER:
        return {}
    name = "spark.python.unix.domain.socket"
    return {f"{name}.enabled": "true", f"{name}.dir": str(folder)}


def _with_iceberg(extensions: str) -> str:
    names = [name.strip() for name in extensions.split(",") if name.strip()]
    return ",".join(names if ICEBERG_EXTENSIONS in names else [ICEBERG_EXTENSIONS, *names])


def with_java_options(settings: Mapping[str, str], folder: Path, log4j: Path) -> dict[str, str]:
    """Return settings with options for the driver's JVM; the user's own come last and win."""
    name = "spark.driver.extraJavaOptions"
    ours = (
        _quote(f"-Dlog4j2.configurationFile={log4j.as_uri()}"),
        _quote(f"-Djava.io.tmpdir={folder / 'tmp'}"),
        _quote(f"-Dderby.system.home={folder}"),
        # A driver that ran out of memory does not recover; a new one starts instead.
        "-XX:+ExitOnOutOfMemoryError",
    )
    return {**settings, name: " ".join((*ours, settings.get(name, ""))).strip()}


def _quote(option: str) -> str:
    """Return one option as Spark's launcher reads it from a line of options."""
    escape = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escape}"'


def worker_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the Python of Spark's tasks: on this machine, the one that runs now."""
    python = settings.get("spark.pyspark.python") or environment.get("PYSPARK_PYTHON")
    if python:
        return python
    return sys.executable if is_local(settings) else "python3"


def catalog_settings(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by which Spark has an Iceberg catalog."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: ICEBERG_CATALOG,
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }


def mask_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings for a log, without secrets."""
    return {
        name: HIDDEN if SECRET.search(name) else SECRET_IN_URI.sub(rf"\g<1>{HIDDEN}", value)
        for name, value in settings.items()
    }


def properties_text(settings: Mapping[str, str]) -> str:
    """Return settings as a Java properties file."""
    return "".join(f"{escape(name)}={escape(value)}\n" for name, value in settings.items())


def escape(text: str) -> str:
    """Return a text for a properties file: all but plain letters and digits as \\uXXXX.

    No other rules of the format apply then.
    """
    units = text.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(
        chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\u{code:04x}"
        for code in codes
    )


# The file itself and two older ones.
TEMPLATE = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file

appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {pattern}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.charset = UTF-8
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}}{{UTC}}Z %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.fileIndex = min
appender.file.strategy.max = 2

# Spark applies the level of this logger to all others (Logging.initializeLogging).
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
# It warns at every start that it runs without native code, which is normal.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def log4j_properties(log_file: Path, *, verbose: bool = False) -> str:
    """Return a log4j2 configuration that logs to a file: three files of 10 MB each."""
    # log4j looks for ${...} in every value, and for %i and its like in the pattern.
    file = str(log_file).replace("${", "$${")
    level = "info" if verbose else "warn"
    pattern = file.replace("%", "%%")
    return TEMPLATE.format(level=level, file=escape(file), pattern=escape(pattern))
