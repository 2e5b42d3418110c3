"""Makes one attempt to start Spark, up to an application that answers."""

import importlib.util
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from jetbridge.errors import ServerError, Unavailable
from jetbridge.runtime.temporary_folders import TemporaryFolder
from jetbridge.spark.application import SparkApplication, refuse_a_second
from jetbridge.spark.errors import java_message
from jetbridge.spark.jars import Jars, choose_jars, fetching, needed_jars
from jetbridge.spark.jvm import FetchFailed, Jvm, Launch, find_java
from jetbridge.spark.settings import (
    catalog_settings,
    complete,
    is_local,
    log4j_properties,
    mask_secrets,
    with_java_options,
)

log = logging.getLogger(__name__)

START_SECONDS = 180.0
FETCH_SECONDS = 900.0
STOPPING = "Spark is stopping"
FOLDERS = ("local", "tmp", "warehouse")


@dataclass(frozen=True)
class StartRequest:
    """Say what to start; `scratch` is an existing folder, or None for the system's usual one."""

    settings: Mapping[str, str]
    catalogs: Mapping[str, Mapping[str, str]]
    log_file: Path
    scratch: Path | None
    verbose: bool


@dataclass(eq=False)
class StartAttempt:
    """Start Spark once; `result` gets the application, or the ServerError that says what failed."""

    order: StartRequest
    began: float = field(default_factory=time.monotonic)
    result: Future[SparkApplication] = field(default_factory=Future)
    ended: float = 0.0
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _jvm: Jvm | None = None
    _folder: TemporaryFolder | None = None

    def open(self) -> SparkApplication:
        """Start Spark and return the application; the caller puts the outcome into `result`."""
        if importlib.util.find_spec("pyspark") is None:
            raise Unavailable("Spark is not installed: pip install 'jetbridge[lake]'")
        refuse_a_second()
        java = find_java()
        folder = self._make_folder()
        order = self.order
        with fetching(_jars(order)):
            # Again: another process may have fetched them while this one waited.
            jars = _jars(order)
            settings = _settings(order, jars, folder.path)
            warn_open(settings)
            log.debug("starting Spark with Java %d: %s", java.version, mask_secrets(settings))
            launch = Launch(java, settings, folder.path, order.log_file, (folder.lock,))
            self._jvm = Jvm(launch)
            if self._cancelled.is_set():
                self._jvm.kill()
                raise Unavailable(STOPPING)
            return self._connect(self._jvm, jars)

    def fail(self, error: Exception) -> None:
        """Clean up, and set the error for all calls that wait."""
        failure = error if isinstance(error, ServerError) else self._explain(error)
        log.log(logging.DEBUG if self._cancelled.is_set() else logging.WARNING, "%s", failure)
        self._clear()
        self.ended = time.monotonic()
        self.result.set_exception(failure)

    def _explain(self, error: Exception) -> ServerError:
        log.debug("Spark did not start", exc_info=error)
        reason = STOPPING if self._cancelled.is_set() else java_message(error)
        return Unavailable(f"Spark did not start: {reason}; see {self.order.log_file}")

    def _connect(self, jvm: Jvm, jars: Jars) -> SparkApplication:
        seconds = FETCH_SECONDS if jars.packages else START_SECONDS
        if jars.packages:
            log.info("fetching %s into %s", ", ".join(jars.packages), jars.ivy)
        catalogs = self.order.catalogs.items()
        settings: dict[str, str] = {}
        for name, properties in catalogs:
            settings |= catalog_settings(name, properties)
        try:
            jvm.await_gateway(seconds)
            # The jars are on its class path, and none of their code has run yet.
            jars.check_fetched_jars()
            return SparkApplication(jvm, settings, seconds)
        except FetchFailed:
            raise jars.fetch_error() from None

    def _make_folder(self) -> TemporaryFolder:
        try:
            self.order.log_file.parent.mkdir(parents=True, exist_ok=True)
            self._folder = folder = TemporaryFolder("spark", self.order.scratch)
            for name in FOLDERS:
                (folder.path / name).mkdir()
            text = log4j_properties(self.order.log_file, verbose=self.order.verbose)
            (folder.path / "log4j2.properties").write_text(text)
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f"Spark cannot use {error.filename}: {reason}") from None
        return folder

    def cancel(self) -> None:
        """Make a start that is under way fail soon."""
        self._cancelled.set()
        if self._jvm and not self.result.done():
            self._jvm.kill()

    def kill(self) -> None:
        """Kill the JVM; whoever waits for its end sees it."""
        if self._jvm:
            self._jvm.kill()

    def application(self) -> SparkApplication | None:
        """Return the application, or None while it starts or if the start failed."""
        if not self.result.done() or self.result.exception() is not None:
            return None
        return self.result.result()

    def has_failed(self) -> bool:
        """Return whether the start failed."""
        return self.result.done() and self.result.exception() is not None

    def runs(self) -> bool:
        """Return whether the application is up and its JVM runs."""
        return bool(self.application() and self._jvm and self._jvm.runs())

    def death(self, seconds: float | None = None) -> str:
        """Wait for the end of the JVM and return how it ended; empty if it still runs."""
        if self._jvm is None or not self._jvm.wait(seconds):
            return ""
        return self._jvm.exit_reason()

    def close(self) -> None:
        """Stop the application and remove its folder."""
        application = self.application()
        if application:
            application.close()
        self._clear()

    def _clear(self) -> None:
        if self._jvm:
            self._jvm.end()
        if self._folder:
            self._folder.remove()


def warn_open(settings: Mapping[str, str]) -> None:
    """Log a warning if a cluster accepts connections without a secret.

    Then everyone who reaches a port of it can run code there. The operator sets the secret.
    """
    if not is_local(settings) and settings.get("spark.authenticate", "").lower() != "true":
        log.warning(
            "everyone who reaches the driver or a worker of Spark can run code there: set "
            "spark.authenticate and spark.authenticate.secret, here and on the cluster"
        )


def _jars(order: StartRequest) -> Jars:
    return choose_jars(order.settings, needed_jars(order.catalogs.values()))


def _settings(order: StartRequest, jars: Jars, folder: Path) -> dict[str, str]:
    settings = {**complete(order.settings, folder), **jars.settings}
    return with_java_options(settings, folder, folder / "log4j2.properties")
