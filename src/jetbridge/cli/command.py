"""Arguments, and the way from each command to its module.

A command's module is imported when it runs: `--help` need not wait for grpc, and `doctor` must
work where a package is missing.
"""

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from jetbridge.observability import set_up_logging
from jetbridge.version import __version__

ABOUT = "One SQL front door for DuckDB: attach to it over Arrow Flight with the Airport extension."
EXAMPLES = """\
examples:
  jetbridge serve                           serve an in-memory catalog on 127.0.0.1:8815
  jetbridge serve --port 0                  pick a free port and print it
  jetbridge serve --config jetbridge.toml   serve what the file says
  jetbridge doctor                          what is installed, what is missing, how to get it

then, in DuckDB:
  INSTALL airport FROM community; LOAD airport;
  ATTACH 'memory' AS m (TYPE AIRPORT, LOCATION 'grpc://127.0.0.1:8815');
  CREATE SCHEMA m.s;
  CREATE TABLE m.s.t AS SELECT 42 AS answer;
"""
SERVE_EXAMPLES = """\
It prints one line, 'listening on grpc://HOST:PORT', when it accepts calls; the log goes to
standard error. SIGTERM or Ctrl-C: no new calls, running ones finish (server.drain_seconds), exit 0.

examples:
  jetbridge serve --port 0
  jetbridge serve --config jetbridge.toml --host 0.0.0.0    (the file must name a tokens_file)
"""
MODULES = {"serve": "jetbridge.cli.serve", "doctor": "jetbridge.cli.doctor"}


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    root = argparse.ArgumentParser(
        "jetbridge", description=ABOUT, epilog=EXAMPLES, formatter_class=raw
    )
    root.add_argument("--version", action="version", version=f"jetbridge {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add = commands.add_parser(
        "serve", help="run the server", epilog=SERVE_EXAMPLES, formatter_class=raw
    )
    _common(add)
    add.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    add.add_argument("--port", type=int, help="port to listen on, 0 for a free one (default 8815)")
    add.add_argument("--warehouse", type=Path, metavar="DIR", help="directory of the lake's tables")
    add = commands.add_parser("doctor", help="what is installed, what is missing, how to get it")
    _common(add)
    add.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    return root


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="a TOML file")
    command.add_argument("-v", "--verbose", action="store_true", help="log more")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    set_up_logging(verbose=options.verbose)
    # gRPC's own lines on standard error say what we say better; it reads this when imported.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR" if options.verbose else "NONE")
    try:
        outcome: int = importlib.import_module(MODULES[options.command]).run(options)
    except BrokenPipeError:
        # The reader (`| head`) has gone: nothing to say, also not when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return outcome
