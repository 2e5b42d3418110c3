"""Runs `jetbridge serve`: the server, until SIGTERM or Ctrl-C."""

import logging
import os
import resource
import signal
import threading
from argparse import Namespace
from contextlib import suppress
from types import FrameType

from jetbridge.app.compose import build_application
from jetbridge.app.configuration import load_config
from jetbridge.cli.terminal import USAGE_ERROR, print_error, say
from jetbridge.config import Config, ConfigError
from jetbridge.errors import BadRequest, ServerError, Unavailable
from jetbridge.runtime.temporary_folders import remove_all
from jetbridge.service import Server

log = logging.getLogger(__name__)


FLAGS = ("host", "port")
# The system may deliver a signal to another thread; Python sees it when this one wakes.
WAKE_SECONDS = 0.2
OPEN_FILES = 65_536


def run(options: Namespace) -> int:
    """Serve the catalogs of the configuration; return an exit code if it is not valid."""
    flags = {name: getattr(options, name) for name in FLAGS}
    try:
        flags = {name: value for name, value in flags.items() if value is not None}
        config = load_config(options.config, flags, warehouse=options.warehouse)
    except ConfigError as error:
        print_error(str(error))
        return USAGE_ERROR
    return serve_until_signal(config, verbose=options.verbose)


def serve_until_signal(config: Config, *, verbose: bool = False) -> int:
    """Serve the catalogs of a configuration; return an exit code if the server cannot start.

    After a signal the process ends with exit code 0.
    """
    stop = _stop_on_signals()
    _allow_many_connections()
    try:
        application = build_application(config, verbose=verbose)
        server = application.server
    except ServerError as error:
        log.debug("could not start", exc_info=error)
        print_error(str(error))
        return USAGE_ERROR if isinstance(error, BadRequest) else 1
    if not _listens(server, config):
        return 1
    if not stop.is_set():
        application.start_background()
    while not stop.wait(WAKE_SECONDS):
        pass
    log.info("stopping: running calls have %g seconds", config.server.drain_seconds)
    application.close(config.server.drain_seconds)
    remove_all()
    logging.shutdown()
    # Python would wait for the threads of calls that were cancelled, however long they run.
    os._exit(0)


def _allow_many_connections() -> None:
    """Raise the limit of open files: each connection is one, also an idle one of a stranger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _listens(server: Server, config: Config) -> bool:
    """Start the server; return whether it listens, and print why if it does not."""
    try:
        server.start()
    except Unavailable as error:
        log.debug("could not start", exc_info=error)
        address = f"{config.server.host}:{config.server.port}"
        print_error(
            f"cannot listen on {address}: the port is in use, or the address is not one of this "
            "machine; choose another with --port (0: a free one)"
        )
        return False
    say(f"listening on {server.location}")
    return True


def _stop_on_signals() -> threading.Event:
    """Return an event that the first SIGTERM or SIGINT sets; a second one ends the process."""
    stop = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
