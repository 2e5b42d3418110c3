"""Runs `jetbridge doctor`: what is installed, what is missing, how to get it."""

import ctypes
import importlib
import importlib.metadata
import importlib.util
import operator
import re
import socket
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jetbridge import __version__
from jetbridge.cli.terminal import USAGE_ERROR, print_error, say, say_json

if TYPE_CHECKING:
    from jetbridge.config import Config
    from jetbridge.spark.jars import Jars

State = Literal["ok", "missing", "optional"]
OLDEST_PYTHON = (3, 11)
REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?\s*([^;]*)(?:;(.*))?$")
EXTRA = re.compile(r"extra\s*==\s*['\"](\w+)['\"]")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<": operator.lt,
}
# Libraries that the driver of SQL Server needs and does not bring; it fails when it connects.
# https://github.com/microsoft/mssql-python#installation
DRIVER = ("mssql_python", "mssql_py_core")
LIBRARIES = {
    "libltdl.so.7": "libltdl7",
    "libkrb5.so.3": "libkrb5-3",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
}
SET_UP = "run `make setup`, or `pip install jetbridge`"


@dataclass(frozen=True)
class Finding:
    """Report one thing that was checked.

    `missing`: the configuration needs it. `optional`: nothing in the configuration needs it.
    """

    name: str
    state: State
    found: str
    remedy: str = ""


def run(options: Namespace) -> int:
    """Check the installation, or sweep; return the exit code."""
    if options.sweep:
        return _sweep(options.config)
    findings = list(examine(options.config))
    if options.format == "json":
        say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(_line(finding))
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def _sweep(config_file: Path | None) -> int:
    """Drop what crashed loads have left in catalogs that write without Spark.

    A lake is swept by its server, with Spark.
    """
    # Not at the top, for the same reason as in `_configuration`.
    from jetbridge.app.configuration import BACKENDS, load_config  # noqa: PLC0415
    from jetbridge.config import ConfigError  # noqa: PLC0415
    from jetbridge.errors import ServerError  # noqa: PLC0415

    try:
        config = load_config(config_file)
    except ConfigError as error:
        print_error(str(error))
        return USAGE_ERROR
    failed = False
    for name, catalog in config.catalogs.items():
        if BACKENDS[catalog.type].uses_spark == "for writes":
            continue
        try:
            _sweep_catalog(replace(config, catalogs={name: catalog}), name)
        except ServerError as error:
            print_error(f"catalog {name!r} was not swept: {error}")
            failed = True
    return int(failed)


def _sweep_catalog(config: "Config", name: str) -> None:
    from jetbridge.app.compose import open_application  # noqa: PLC0415
    from jetbridge.catalog import CanSweep, supports  # noqa: PLC0415

    with open_application(config, use_spark=False) as application:
        catalog = application.catalogs[name]
        if supports(catalog, CanSweep):
            _say_swept(name, catalog.sweep())


def _say_swept(name: str, tables: Sequence[str]) -> None:
    """Print what was dropped in one catalog."""
    for table in tables:
        say(f"{name}: dropped {table}")
    if not tables:
        say(f"{name}: there was nothing to drop")


def _line(finding: Finding) -> str:
    """Return a finding as one line of text."""
    remedy = f": {finding.remedy}" if finding.remedy else ""
    return f"{finding.state:8}  {finding.name:24}  {finding.found}{remedy}"


def examine(config_file: Path | None) -> Iterator[Finding]:
    """Yield the findings about this machine and a configuration."""
    yield Finding("jetbridge", "ok", __version__)
    yield _python()
    config, configuration = _configuration(config_file)
    used = {catalog.type for catalog in config.catalogs.values()} if config else set()
    for requirement in importlib.metadata.requires("jetbridge") or ():
        yield _package(requirement, used)
    yield from _driver("mssql" in used)
    catalogs = config.catalogs.values() if config else ()
    lakes = [catalog.iceberg_properties() for catalog in catalogs]
    yield from _spark(config.spark if config else {}, [lake for lake in lakes if lake is not None])
    yield _temporary_directory()
    yield configuration
    if config:
        yield _port(config)


def _configuration(config_file: Path | None) -> "tuple[Config | None, Finding]":
    """Load the configuration; return it, or None, and the finding about it."""
    try:
        # Not at the top: doctor must work, and tell what is missing, if a package is.
        from jetbridge.app.configuration import load_config  # noqa: PLC0415
        from jetbridge.config import ConfigError  # noqa: PLC0415
    except ImportError as error:
        return None, Finding("configuration", "missing", f"cannot be checked: {error}", SET_UP)
    notices: list[str] = []
    try:
        config = load_config(config_file, notify=notices.append)
    except ConfigError as error:
        return None, Finding("configuration", "missing", "not valid", str(error))
    title = str(config_file or "the default one")
    return config, Finding("configuration", "ok", title, "; ".join(notices))


def _python() -> Finding:
    """Check the version of Python."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", "missing", version, "install Python 3.11 or newer")
    return Finding("python", "ok", version)


def _package(requirement: str, used: Collection[str] = ()) -> Finding:
    """Check one requirement from the metadata of the distribution.

    `used` are the types of the catalogs of the configuration; each type has an extra of its name.
    """
    match = REQUIREMENT.match(requirement)
    if match is None:
        return Finding(requirement, "missing", "not understood", SET_UP)
    name, versions, marker = match[1], match[2].strip(), match[3] or ""
    extra = EXTRA.search(marker)
    remedy = f"pip install 'jetbridge[{extra[1]}]'" if extra else f"needs {versions}; {SET_UP}"
    state: State = "missing"
    if extra and extra[1] not in used:
        state, remedy = "optional", f"only catalogs of type {extra[1]} need it: {remedy}"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, state, "not installed", remedy)
    conditions = filter(None, versions.split(","))
    if not all(_satisfies(version, condition) for condition in conditions):
        return Finding(name, state, f"{version}, not {versions}", remedy)
    return Finding(name, "ok", version)


def _driver(used: bool) -> Iterator[Finding]:
    """Check whether the driver of SQL Server can be loaded, if it is installed."""
    name = "driver of SQL Server"
    state: State = "missing" if used else "optional"
    if not all(importlib.util.find_spec(module) for module in DRIVER):
        return
    missing = {lib: package for lib, package in LIBRARIES.items() if not _loads(lib)}
    if missing and sys.platform == "linux":
        remedy = f"apt-get install {' '.join(missing.values())} (Debian, Ubuntu)"
        yield Finding(name, state, f"no {', '.join(missing)}", remedy)
        return
    try:
        for module in DRIVER:
            importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - with any error the driver cannot be used
        reason = f"cannot be loaded: {' '.join(str(error).split())[:300]}"
        yield Finding(name, state, reason, "pip install --force-reinstall mssql-python")
        return
    yield Finding(name, "ok", "can be loaded")


def _loads(library: str) -> bool:
    """Return whether a shared library can be loaded."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _satisfies(version: str, condition: str) -> bool:
    """Return whether a version meets a condition: one of the operators in COMPARE and a version."""
    sign = condition.strip().rstrip("0123456789.")
    return COMPARE[sign](_numbers(version), _numbers(condition))


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without zeros at the end: 1.5.0 and 1.5 are the same."""
    numbers = [int(digits) for digits in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _spark(settings: Mapping[str, str], lakes: Sequence[Mapping[str, str]]) -> Iterator[Finding]:
    """Check Java and the jars of Spark; `lakes` are the properties of the lakes."""
    try:
        # Not at the top, for the same reason as the configuration.
        from jetbridge.errors import Unavailable  # noqa: PLC0415
        from jetbridge.spark.jars import choose_jars, needed_jars  # noqa: PLC0415
        from jetbridge.spark.jvm import ALLOWED_JAVA, JAVA_REMEDY, find_java  # noqa: PLC0415
    except ImportError:
        return
    try:
        java = find_java()
        yield Finding("java", "ok", f"{java.version} in {java.home}")
    except Unavailable:
        state: State = "missing" if lakes else "optional"
        yield Finding(
            "java", state, f"no Java {ALLOWED_JAVA}", f"only Spark needs it: {JAVA_REMEDY}"
        )
    try:
        needed = needed_jars(lakes)
        yield _jars(choose_jars(settings, needed), [jar.coordinates for jar in needed])
    except Unavailable as error:
        yield Finding("spark jars", "missing", "not complete", str(error))


def _jars(jars: "Jars", names: Sequence[str]) -> Finding:
    """Return the finding about the jars that were chosen."""
    source = {
        "given": "named by spark.jars",
        "folder": "found in the folder of JETBRIDGE_JARS",
        "cache": f"cached in {jars.ivy}",
        "fetch": f"Spark's first start will fetch {', '.join(names)} into {jars.ivy}",
    }[jars.source]
    remedy = "without a network, put these jars into a folder and name it in JETBRIDGE_JARS"
    return Finding("spark jars", "ok", source, remedy if jars.source == "fetch" else "")


def _temporary_directory() -> Finding:
    """Check that the temporary directory can be written."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 4096)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = "large statements are staged there: free space, or set TMPDIR"
        return Finding("temporary directory", "missing", reason, remedy)
    return Finding("temporary directory", "ok", tempfile.gettempdir())


def _port(config: "Config") -> Finding:
    """Check that the port of the server is free."""
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = f"{host}:{port}: {error.strerror or error}"
        return Finding("port", "missing", reason, "stop the other program, or set server.port")
    return Finding("port", "ok", f"{host}:{port} is free")
