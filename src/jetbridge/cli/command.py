"""Arguments, and the way from each command to its module.

A command's module is imported when it runs: `--help` need not wait for grpc, and `doctor` must
work where a package is missing.
"""

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

from jetbridge.cli.exits import INTERRUPTED
from jetbridge.cli.logs import set_up_logging
from jetbridge.version import __version__

ABOUT = "One SQL front door for DuckDB: attach to it over Arrow Flight with the Airport extension."
EXAMPLES = """\
examples:
  jetbridge serve                           serve a lake in ./jetbridge-data on 127.0.0.1:8815
  jetbridge serve --port 0                  pick a free port and print it
  jetbridge serve --config jetbridge.toml   serve what the file says
  jetbridge sql "FROM lake.shop.orders"     run SQL over all catalogs, without a server
  jetbridge optimize lake.shop.orders       make a table of the lake small and quick again
  jetbridge doctor                          what is installed, what is missing, how to get it

then, in DuckDB:
  INSTALL airport FROM community; LOAD airport;
  ATTACH 'lake' AS l (TYPE AIRPORT, LOCATION 'grpc://127.0.0.1:8815');
  CREATE SCHEMA l.s;
  CREATE TABLE l.s.t AS SELECT 42 AS answer;
"""
SERVE_EXAMPLES = """\
Without a configuration it serves two catalogs: 'lake', Iceberg tables in ./jetbridge-data, and
'memory', tables that are gone when it stops. If the extra 'lake' is not installed, it serves
'memory' only. It prints one line, 'listening on grpc://HOST:PORT', when it accepts calls; the log
goes to standard error, that of Spark to DIR/.jetbridge/logs/spark.log. Scans are answered at once;
Spark starts meanwhile, and writes wait for it. SIGTERM or Ctrl-C: no new calls, running ones finish
(server.drain_seconds), exit 0.

examples:
  jetbridge serve --port 0
  jetbridge serve --warehouse /data/lake
  jetbridge serve --config jetbridge.toml --host 0.0.0.0    (the file must name a tokens_file)
"""
SQL_ABOUT = """\
Runs statements of DuckDB's SQL over all catalogs of the configuration: queries, CREATE TABLE AS,
INSERT, UPDATE, DELETE, MERGE INTO, CREATE, DROP, ALTER, BEGIN ... COMMIT, ATTACH, CREATE SECRET,
SET, SHOW, DESCRIBE, EXPLAIN. Tables are named CATALOG.SCHEMA.TABLE; files are read with
read_parquet(...), read_csv(...) and read_json(...).
"""
SQL_EXAMPLES = """\
Rows go to standard output, reports and progress to standard error; with --format json both go to
standard output, one JSON object a line, a report as {"report": {...}}. Exit code 0: all ran; 1: a
statement failed, those before it stay; 2: wrong usage. Without a configuration it works on 'lake',
Iceberg tables in ./jetbridge-data, or on 'memory' if the extra 'lake' is not installed.

examples:
  jetbridge sql "CREATE SCHEMA lake.shop; CREATE TABLE lake.shop.t AS FROM read_csv('t.csv')"
  jetbridge sql --format csv "SELECT * FROM lake.shop.t" > t.csv
  jetbridge sql "SELECT * FROM lake.shop.t AT (VERSION => 1)"
  jetbridge sql --engine spark "CREATE OR REPLACE TABLE lake.shop.u AS SELECT a, count(*) AS n
                                FROM lake.shop.t GROUP BY a"
  jetbridge sql "EXPLAIN SELECT ..."                    (planned types, the engine and why)
  jetbridge sql - < statements.sql
"""
OPTIMIZE_ABOUT = """\
Rewrites the small files of a table of a lake as few large ones, forgets old versions, and removes
files that no version needs. Others may read and write the table meanwhile. AT (VERSION => ...)
reaches no further back than --older-than afterwards.
"""
OPTIMIZE_EXAMPLES = """\
Progress goes to standard error; a table of what was there before and after, to standard output.
Durations are a number and a unit: 7d, 12h, 30m, 0s. Names that hold a dot or a quote are written
as in SQL: lake.shop."a.b". Exit code 0: done; 1: it failed; 2: wrong usage.

examples:
  jetbridge optimize lake.shop.orders
  jetbridge optimize lake.shop.orders --older-than 12h --warehouse /data/lake
  jetbridge optimize lake.shop.orders --partition-by "day(ts), bucket(8, id)"
  jetbridge optimize lake.shop.orders --sort-by "id, ts DESC"
  jetbridge optimize lake.shop.orders --upgrade        (a table that another engine made)
"""
WAREHOUSE = "folder of the lake's tables (default ./jetbridge-data)"
MODULES = {
    "serve": "jetbridge.cli.serve",
    "sql": "jetbridge.cli.sql",
    "optimize": "jetbridge.cli.optimize",
    "doctor": "jetbridge.cli.doctor",
}
RAW = argparse.RawDescriptionHelpFormatter


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        "jetbridge", description=ABOUT, epilog=EXAMPLES, formatter_class=RAW
    )
    root.add_argument("--version", action="version", version=f"jetbridge {__version__}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add = commands.add_parser(
        "serve", help="run the server", epilog=SERVE_EXAMPLES, formatter_class=RAW
    )
    _common(add)
    add.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    add.add_argument("--port", type=int, help="port to listen on, 0 for a free one (default 8815)")
    add.add_argument("--warehouse", metavar="DIR", help=WAREHOUSE)
    add = commands.add_parser(
        "sql",
        help="run SQL over all catalogs, without a server",
        description=SQL_ABOUT,
        epilog=SQL_EXAMPLES,
        formatter_class=RAW,
    )
    _common(add)
    _sql(add)
    add = commands.add_parser(
        "optimize",
        help="make a table of a lake small and quick again",
        description=OPTIMIZE_ABOUT,
        epilog=OPTIMIZE_EXAMPLES,
        formatter_class=RAW,
    )
    _common(add)
    _optimize(add)
    add = commands.add_parser("doctor", help="what is installed, what is missing, how to get it")
    _common(add)
    add.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    sweep = "instead, drop what crashed loads have left in the SQL Servers of the configuration"
    add.add_argument("--sweep", action="store_true", help=sweep)
    return root


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="a TOML file")
    command.add_argument("-v", "--verbose", action="store_true", help="log more")


def _sql(command: argparse.ArgumentParser) -> None:
    command.add_argument("statements", metavar="STATEMENTS", help="SQL; - reads standard input")
    command.add_argument("--warehouse", metavar="DIR", help=WAREHOUSE)
    formats = ("table", "json", "csv")
    command.add_argument("--format", choices=formats, default="table", help="default: table")
    command.add_argument("--echo", action="store_true", help="show each statement before it runs")
    setting = "a setting, as SET does; may be given several times (SHOW settings lists them)"
    command.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=setting)
    engine = "who runs queries: auto takes Spark for large tables (default auto)"
    command.add_argument("--engine", choices=("auto", "spark", "duckdb"), help=engine)
    dialect = "spark: queries are Spark SQL, unchanged (default duckdb)"
    command.add_argument("--dialect", choices=("duckdb", "spark"), help=dialect)


def _optimize(command: argparse.ArgumentParser) -> None:
    command.add_argument("table", metavar="CATALOG.SCHEMA.TABLE", help="the table")
    command.add_argument("--warehouse", metavar="DIR", help=WAREHOUSE)
    older = "forget versions older than this; the newest always stays (default 7d)"
    command.add_argument("--older-than", metavar="TIME", default="7d", help=older)
    upgrade = "bring a table of Iceberg format 1 or 2 to format 3, which UPDATE and DELETE need"
    command.add_argument("--upgrade", action="store_true", help=upgrade)
    partition = "part the files by these, as in Spark's PARTITIONED BY; '' for not at all"
    command.add_argument("--partition-by", metavar="LIST", help=partition)
    order = "keep the rows of a file in this order; '' for none"
    command.add_argument("--sort-by", metavar="LIST", help=order)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    set_up_logging(verbose=options.verbose)
    # gRPC's own lines on standard error say what we say better; it reads this when imported.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR" if options.verbose else "NONE")
    try:
        outcome: int = importlib.import_module(MODULES[options.command]).run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone: nothing to say, also not when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return outcome
