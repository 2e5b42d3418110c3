"""Finds a Java, and runs the JVM of Spark's driver in it, until this process ends.

PySpark could start the JVM, but it would inherit our terminal, wait forever when the start fails,
and fork in a way that is not safe beside the threads of gRPC. PySpark supports a JVM that someone
else has started: PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET say where it is.
"""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jetbridge.errors import Unavailable
from jetbridge.spark.settings import LOOPBACK, is_local, properties_text, worker_python

log = logging.getLogger(__name__)

# Spark 4.1 runs on these (https://spark.apache.org/docs/4.1.0/); the first is the recommended one.
JAVA_VERSIONS = (17, 21)
# Where Debian, Ubuntu and Fedora install Java.
JAVA_FOLDER = Path("/usr/lib/jvm")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_SECONDS = 20.0
ALLOWED_JAVA = " or ".join(map(str, JAVA_VERSIONS))
JAVA_REMEDY = (
    f"install it with `apt-get install openjdk-{JAVA_VERSIONS[0]}-jre-headless` (Debian, Ubuntu), "
    f"elsewhere install any Java {ALLOWED_JAVA} and set JAVA_HOME to its folder"
)


@dataclass(frozen=True)
class Java:
    """Describe a Java on this machine; `home` is the value for JAVA_HOME."""

    home: Path
    version: int


def find_java() -> Java:
    """Return a Java of a version that Spark supports; raises Unavailable, which names the others.

    JAVA_HOME comes first, then PATH, then the usual folder.
    """
    others: list[str] = []
    homes: set[Path] = set()
    for home in _homes():
        if home in homes:
            continue
        homes.add(home)
        version = java_version(home)
        if version in JAVA_VERSIONS:
            return Java(home, version)
        if version is not None:
            others.append(f"Java {version} in {home}")
    listed = f" (found {', '.join(others)})" if others else ""
    raise Unavailable(
        f"Spark needs Java {ALLOWED_JAVA}, which this machine lacks{listed}: {JAVA_REMEDY}"
    )


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder, or None if none works there."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(text: str) -> int | None:
    """Return the major version that `java -version` prints: Java 8 calls itself 1.8."""
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def _homes() -> Iterator[Path]:
    """Yield the folders in which there may be a Java."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home).resolve()
    path = shutil.which("java")
    if path:
        # Debian's /usr/bin/java is a link to a link to the home's bin/java.
        yield Path(path).resolve().parent.parent
    if JAVA_FOLDER.is_dir():
        yield from (path.resolve() for path in sorted(JAVA_FOLDER.iterdir()) if path.is_dir())


POLL_SECONDS = 0.05
# The JVM is killed if it has not ended by itself after this.
END_SECONDS = 10.0
TAIL_BYTES = 16_384
# Variables that would change the JVM, or how PySpark connects to it.
REMOVED_VARIABLES = (
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_REMOTE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_API_MODE",
)
# Strings in the output, and their meaning.
REASONS = (
    ("Could not reserve enough space", "there is not enough memory for spark.driver.memory"),
    ("Cannot allocate memory", "there is not enough memory for spark.driver.memory"),
    ("Invalid maximum heap size", "spark.driver.memory is not valid"),
    ("UnsupportedClassVersionError", "a jar is made for a newer Java"),
    ("No space left on device", "the disk is full"),
)
UNRESOLVED = ("unresolved dependenc", "Server access error", "download failed")
# Exit codes: -XX:+ExitOnOutOfMemoryError, and SparkExitCode.OOM.
OUT_OF_MEMORY = (3, 52)

_environment_lock = threading.Lock()


class FetchFailed(Exception):
    """Report that Ivy could not fetch the jars."""


@dataclass(frozen=True)
class Launch:
    """Say how a JVM is started. `folder` is its own folder and its working directory.

    It inherits `descriptors`: the lock of its folder is held until it has ended, too.
    """

    java: Java
    settings: Mapping[str, str]
    folder: Path
    log_file: Path
    descriptors: tuple[int, ...] = ()


class Jvm:
    """Run a JVM. It is launched by the constructor, and answers when `connect` returns."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._address = launch.folder / "gateway"
        self._properties = launch.folder / "spark.properties"
        self._write_properties()
        with launch.log_file.open("ab") as output:
            self._output_starts = output.tell()
            self._process = subprocess.Popen(  # noqa: S603 - PySpark's own script
                self._command(),
                # Its gateway ends with this pipe, and so with our process, even if that is killed.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                cwd=launch.folder,
                pass_fds=launch.descriptors,
                # Ctrl-C must not reach it: running statements need Spark while the server drains.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """Return the number of the process."""
        return self._process.pid

    def _write_properties(self) -> None:
        """Write the settings to a file: every user can read a command line."""
        descriptor = os.open(self._properties, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(properties_text(self._launch.settings))

    def _command(self) -> list[str]:
        submit = str(spark_home() / "bin" / "spark-submit")
        # Spark's own defaults (SPARK_CONF_DIR) apply to all other settings.
        files = ["--properties-file", str(self._properties), "--load-spark-defaults"]
        return [submit, *files, "pyspark-shell"]

    def _environment(self) -> dict[str, str]:
        settings = self._launch.settings
        ours = {
            "JAVA_HOME": str(self._launch.java.home),
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONNECT_MODE": "0",
            "PYSPARK_PYTHON": worker_python(settings, os.environ),
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address),
        }
        environment = {k: v for k, v in os.environ.items() if k not in REMOVED_VARIABLES} | ours
        if is_local(settings):
            # Otherwise it resolves the host name, which may fail.
            environment.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        return environment

    def connect(self, seconds: float) -> Any:
        """Wait until the JVM listens, and return the py4j gateway to it; raises Unavailable."""
        self.await_gateway(seconds)
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - the extra `lake`

        # The port and the length of the secret, four bytes each, then the secret.
        content = self._address.read_bytes()
        port, secret = int.from_bytes(content[:4]), content[8:].decode()
        for file_with_secrets in (self._address, self._properties):
            file_with_secrets.unlink(missing_ok=True)
        with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            return launch_gateway()  # type: ignore[no-untyped-call]

    def await_gateway(self, seconds: float) -> None:
        """Wait until the JVM listens; raises Unavailable or FetchFailed if it does not."""
        deadline = time.monotonic() + seconds
        # The gateway renames the finished file, so a file that exists is complete.
        while not self._address.exists():
            if self._process.poll() is not None:
                raise self._start_error()
            if time.monotonic() > deadline:
                self.kill()
                raise Unavailable(
                    f"Spark did not start within {seconds:g} s; see {self._launch.log_file}"
                )
            time.sleep(POLL_SECONDS)

    def _start_error(self) -> Exception:
        text = self._output()
        if any(sign in text for sign in UNRESOLVED):
            return FetchFailed()
        reason = next((meaning for sign, meaning in REASONS if sign in text), None)
        if reason is None:
            lines = [
                line.strip() for line in text.splitlines() if "rror" in line or "xception" in line
            ]
            reason = lines[0][:200] if lines else self.exit_reason()
        return Unavailable(f"Spark did not start: {reason}; see {self._launch.log_file}")

    def _output(self) -> str:
        """Return the end of what this JVM has printed; the file also holds its log."""
        with suppress(OSError), self._launch.log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(min(self._output_starts, end), end - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
        return ""

    def runs(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end of the process, at most so many seconds; return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.runs()

    def exit_reason(self) -> str:
        """Return a phrase for the log: a signal, an exit code, or lack of memory."""
        code = self._process.poll()
        if code in OUT_OF_MEMORY:
            return "out of memory: raise the setting spark.driver.memory"
        if code is not None and code < 0:
            return f"killed by signal {-code}"
        return f"exit code {code}"

    def end(self) -> None:
        """Let the JVM end by itself, then kill it; return when the process has ended."""
        self._close_pipe()
        if not self.wait(END_SECONDS):
            self.kill()

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.wait()
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def spark_home() -> Path:
    """Return the folder of the Spark inside PySpark; raises Unavailable if there is none.

    A SPARK_HOME of another version would not fit.
    """
    # An import takes half a second, which the JVM need not wait for.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Unavailable("Spark is not installed: pip install 'jetbridge[lake]'")
    return Path(spec.origin).resolve().parent


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables for a block: PySpark reads the address of a running JVM only from there."""
    with _environment_lock:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
