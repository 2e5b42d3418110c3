"""`python -m standins.tds --port 0 [--tls required]`: the server in a process of its own.

It says where it listens, then obeys what `control` knows on its standard input, until that ends.
"""

import argparse
import contextlib
import importlib
import sys
from typing import Any, cast

from standins.tds.control import obey
from standins.tds.server import Server
from standins.tds.values import Engine
from standins.tds.wire.prelogin import Encryption

_ENGINE = "standins.tds.engine:DuckEngine"


def _engine(name: str, databases: list[str]) -> Engine:
    module, _, maker = name.partition(":")
    options = {"databases": tuple(databases)} if databases else {}
    made: Engine = getattr(importlib.import_module(module), maker)(**options)
    return made


def _closing(engine: Engine) -> contextlib.AbstractContextManager[Any]:
    """Not every engine has something to close."""
    close = getattr(engine, "close", None)
    return contextlib.nullcontext() if close is None else contextlib.closing(cast(Any, engine))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="standins.tds", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tls", type=Encryption, choices=list(Encryption), default="login")
    parser.add_argument("--engine", default=_ENGINE, help="module:callable that makes the engine")
    parser.add_argument("--database", action="append", default=[], help="one that is there")
    given = parser.parse_args()
    engine = _engine(given.engine, given.database)
    with _closing(engine), Server(engine, given.port, Encryption(given.tls)) as server:
        _say(f"listening on 127.0.0.1:{server.port}")
        obey(server, sys.stdin, _say)


if __name__ == "__main__":
    main()
