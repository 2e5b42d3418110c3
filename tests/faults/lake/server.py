"""A lake's server as a process of its own, that also takes orders on its input.

    python -m tests.faults.lake.server CONFIG [--port N] [--busy-seconds N]

Each line of input is an order, a method of `Orders`, with its arguments. It is answered by one
line: JSON, or `error` and why. Clients are served beside it, as by `jetbridge serve`.
"""

import argparse
import json
import logging
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from jetbridge.app.compose import build_application
from jetbridge.app.configuration import load_config
from jetbridge.backends.lake import LakeCatalog, connection
from jetbridge.backends.lake.maintenance.optimize import optimize
from jetbridge.backends.lake.maintenance.sweeper import Grace
from jetbridge.config import Config
from jetbridge.service import Server

NAME = "lake"


def main() -> None:
    options = parsed()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    if options.busy_seconds:
        connection._BUSY_SECONDS = options.busy_seconds
    serve(load_config(options.config, {"port": options.port}))


def serve(config: Config) -> None:
    application = build_application(config)
    catalog, engine = application.catalogs[NAME], application.engine
    assert isinstance(catalog, LakeCatalog)
    assert engine is not None
    with Server({NAME: catalog}, port=config.server.port, limits=config.limits) as server:
        server.start()
        say(f"listening on {server.location}")
        engine.start()
        catalog.start_sweeper()
        for line in sys.stdin:
            say(answered(Orders(catalog), line))
    engine.stop()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--busy-seconds", type=int, default=0)
    return parser.parse_args()


class Orders:
    def __init__(self, catalog: LakeCatalog) -> None:
        self._catalog = catalog

    def partition(self, schema: str, table: str, by: str) -> object:
        return self._catalog.load_schema(schema).load_table(table).lay_out(by, None).info().version

    def optimize(self, schema: str, table: str) -> object:
        return optimize(self._catalog.lake, schema, table)

    def sweep(self) -> object:
        """Without the time that others may still need."""
        return vars(self._catalog.sweep(Grace(0.0, 0.0)))

    def limit(self, size: str = "") -> object:
        """A stand-in for a full disk where none can be mounted: larger files cannot be written."""
        most = int(size) if size else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        return most


def answered(orders: Orders, line: str) -> str:
    word, *about = line.split()
    run: Callable[..., object] = getattr(orders, word)
    try:
        return json.dumps(run(*about), default=str)
    except Exception as error:
        logging.exception("order %s", line)
        return f"error {type(error).__name__} {str(error)[:500]!r}"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
