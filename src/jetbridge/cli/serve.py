"""`jetbridge serve`: run until told to stop."""

import logging
import os
import resource
import signal
import threading
from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

from jetbridge.app.compose import App, SharedResources, build_app
from jetbridge.app.run_function import Execute
from jetbridge.app.statement_memory import StatementMemory
from jetbridge.catalog import Catalog
from jetbridge.cli.exits import USAGE_ERROR
from jetbridge.cli.terminal import print_error, say
from jetbridge.config import Config, ConfigError, load_config
from jetbridge.errors import BadRequest, ServerError, Unavailable
from jetbridge.pipeline.settings import byte_count
from jetbridge.runtime.temporary_folders import remove_all

log = logging.getLogger(__name__)


FLAGS = ("host", "port")
# The system may give a signal to another thread; Python sees it when this one wakes.
WAKE_SECONDS = 0.2
OPEN_FILES = 65_536


def run(options: Namespace) -> int:
    given = {name: getattr(options, name) for name in FLAGS}
    try:
        flags = {name: value for name, value in given.items() if value is not None}
        config = load_config(options.config, flags, warehouse=options.warehouse)
    except ConfigError as error:
        print_error(str(error))
        return USAGE_ERROR
    return serve_until_signal(config, verbose=options.verbose)


def serve_until_signal(config: Config, *, verbose: bool = False) -> int:
    stop = _stop_on_signals()
    _allow_many_connections()
    try:
        app = build_app(config, verbose=verbose, statements=statements_for_clients)
    except ServerError as error:
        log.debug("could not start", exc_info=error)
        print_error(str(error))
        return USAGE_ERROR if isinstance(error, BadRequest) else 1
    if not _listens(app, config):
        return 1
    if not stop.is_set():
        app.start_background()
    while not stop.wait(WAKE_SECONDS):
        pass
    log.info("stopping: running calls have %g seconds", config.server.drain_seconds)
    app.stop(config.server.drain_seconds)
    remove_all()
    logging.shutdown()
    # Python would wait for the threads of calls that were cut, however long they go on.
    os._exit(0)


def statements_for_clients(
    config: Config, shared: SharedResources, catalogs: Mapping[str, Catalog]
) -> Execute:
    """What it needs takes half a second to load, so it is loaded when a client wants it."""
    limit = byte_count("sql.memory_limit", config.sql.memory_limit)
    memory = StatementMemory(limit, config.limits, len(config.credentials.tokens))

    def execute(
        text: str, catalog: str, may_use: frozenset[str] | None, owner: str
    ) -> Iterable[dict[str, Any]]:
        from jetbridge.app.sessions import client_reports  # noqa: PLC0415

        with memory.reserve(owner) as share:
            yield from client_reports(config, shared, catalogs, text, catalog, may_use, share)

    return execute


def _allow_many_connections() -> None:
    """Each one is an open file, and idle ones of strangers must not take those of others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listens(app: App, config: Config) -> bool:
    try:
        app.server.start()
    except Unavailable as error:
        log.debug("could not start", exc_info=error)
        address = f"{config.server.host}:{config.server.port}"
        print_error(
            f"cannot listen on {address}: the port is in use, or the address is not one of this "
            "machine; choose another with --port (0: a free one)"
        )
        return False
    say(f"listening on {app.server.location}")
    return True


def _stop_on_signals() -> threading.Event:
    """Set by the first SIGTERM or SIGINT; a second one ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return stop
