"""`jetbridge doctor`: what is installed, what is missing, how to get it."""

import importlib.metadata
import operator
import re
import shutil
import socket
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jetbridge.cli.output import say, say_json
from jetbridge.version import __version__

if TYPE_CHECKING:
    from jetbridge.config import Config

State = Literal["ok", "missing", "optional"]
OLDEST_PYTHON = (3, 11)
REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?\s*([^;]*)(?:;(.*))?$")
EXTRA = re.compile(r"extra\s*==\s*['\"](\w+)['\"]")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<": operator.lt,
}
SET_UP = "run `make setup`, or `pip install jetbridge`"


@dataclass(frozen=True)
class Finding:
    """`missing` means that it is needed; `optional` that nothing served so far needs it."""

    name: str
    state: State
    found: str
    remedy: str = ""


def run(options: Namespace) -> int:
    findings = list(examine(options.config))
    if options.format == "json":
        say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(_line(finding))
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def _line(finding: Finding) -> str:
    remedy = f": {finding.remedy}" if finding.remedy else ""
    return f"{finding.state:8}  {finding.name:24}  {finding.found}{remedy}"


def examine(config_file: Path | None) -> Iterator[Finding]:
    yield Finding("jetbridge", "ok", __version__)
    yield _python()
    for requirement in importlib.metadata.requires("jetbridge") or ():
        yield _package(requirement)
    yield _java()
    yield _temporary_directory()
    yield from _configuration(config_file)


def _configuration(config_file: Path | None) -> Iterator[Finding]:
    try:
        # Here, because it imports grpc, and to say that grpc is missing is what doctor is for.
        from jetbridge.config import ConfigError, load_config  # noqa: PLC0415
    except ImportError as error:
        yield Finding("configuration", "missing", f"cannot be checked: {error}", SET_UP)
        return
    try:
        config = load_config(config_file)
    except ConfigError as error:
        yield Finding("configuration", "missing", "not valid", str(error))
        return
    yield Finding("configuration", "ok", str(config_file or "the default one"))
    yield _port(config)


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", "missing", version, "install Python 3.11 or newer")
    return Finding("python", "ok", version)


def _package(requirement: str) -> Finding:
    """From the metadata of the distribution, so that this list cannot differ from the real one."""
    match = REQUIREMENT.match(requirement)
    if match is None:
        return Finding(requirement, "missing", "not understood", SET_UP)
    name, wanted, marker = match[1], match[2].strip(), match[3] or ""
    extra = EXTRA.search(marker)
    remedy = f"pip install 'jetbridge[{extra[1]}]'" if extra else f"needs {wanted}; {SET_UP}"
    state: State = "optional" if extra else "missing"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        later = "not needed yet; later" if extra else ""
        return Finding(name, state, "not installed", f"{later} {remedy}".strip())
    if not all(_satisfies(version, each) for each in wanted.split(",") if each):
        return Finding(name, state, f"{version}, not {wanted}", remedy)
    return Finding(name, "ok", version)


def _satisfies(version: str, condition: str) -> bool:
    """`condition` is one of ours: an operator below and a plain version."""
    sign = condition.strip().rstrip("0123456789.")
    return COMPARE[sign](_numbers(version), _numbers(condition))


def _numbers(version: str) -> tuple[int, ...]:
    """1.5.0 and 1.5 are one version."""
    numbers = [int(each) for each in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _java() -> Finding:
    path = shutil.which("java")
    if path is None:
        remedy = "not needed yet; for Spark later: apt-get install openjdk-17-jre-headless"
        return Finding("java", "optional", "not found", remedy)
    return Finding("java", "ok", path)


def _temporary_directory() -> Finding:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * 4096)
    except OSError as error:
        found = error.strerror or str(error)
        remedy = "large statements are staged there: free space, or set TMPDIR"
        return Finding("temporary directory", "missing", found, remedy)
    return Finding("temporary directory", "ok", tempfile.gettempdir())


def _port(config: "Config") -> Finding:
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        found = f"{host}:{port}: {error.strerror or error}"
        return Finding("port", "missing", found, "stop the other program, or set server.port")
    return Finding("port", "ok", f"{host}:{port} is free")
