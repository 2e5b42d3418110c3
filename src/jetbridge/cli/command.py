"""Parses the arguments, and imports the module of the command that runs.

`--help` does not wait for grpc then, and `doctor` works where a package is missing.
"""

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jetbridge import __version__
from jetbridge.cli.terminal import INTERRUPTED, set_up_logging

ABOUT = "One SQL front door for DuckDB: attach to it over Arrow Flight with the Airport extension."
EXAMPLES = """\
examples:
  jetbridge serve                           serve a lake in ./jetbridge-data on 127.0.0.1:8815
  jetbridge serve --port 0                  pick a free port and print it
  jetbridge serve --config jetbridge.toml   serve the catalogs of a configuration
  jetbridge sql "FROM lake.shop.orders"     run SQL over all catalogs, without a server
  jetbridge optimize lake.shop.orders       compact a table of the lake
  jetbridge doctor                          check the installation

then, in DuckDB:
  INSTALL airport FROM community; LOAD airport;
  ATTACH 'lake' AS l (TYPE AIRPORT, LOCATION 'grpc://127.0.0.1:8815');
  CREATE SCHEMA l.s;
  CREATE TABLE l.s.t AS SELECT 42 AS answer;
"""
SERVE_EXAMPLES = """\
Without a configuration it serves two catalogs: 'lake', Iceberg tables in ./jetbridge-data, and
'memory', whose tables are lost when it stops. If the extra 'lake' is not installed, it serves
'memory' only. It prints 'listening on grpc://HOST:PORT' when it accepts calls. The log goes to
standard error, and the log of Spark to DIR/.jetbridge/logs/spark.log. Scans run at once. Writes
wait for Spark to start. After SIGTERM or Ctrl-C it accepts no new calls, gives running calls
server.drain_seconds to finish, and exits with code 0.

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
Rows go to standard output, reports and progress to standard error. With --format json, rows and
reports go to standard output, one JSON object per line; a report is {"report": {...}}. Exit code 0:
all statements ran; 1: a statement failed, earlier statements stay; 2: wrong usage. Without a
configuration, the catalog is 'lake', Iceberg tables in ./jetbridge-data, or 'memory' if the extra
'lake' is not installed.

examples:
  jetbridge sql "CREATE SCHEMA lake.shop; CREATE TABLE lake.shop.t AS FROM read_csv('t.csv')"
  jetbridge sql --format csv "SELECT * FROM lake.shop.t" > t.csv
  jetbridge sql "SELECT * FROM lake.shop.t AT (VERSION => 1)"
  jetbridge sql --engine spark "CREATE OR REPLACE TABLE lake.shop.u AS SELECT a, count(*) AS n
                                FROM lake.shop.t GROUP BY a"
  jetbridge sql "EXPLAIN SELECT ..."                    (types, the engine, and why)
  jetbridge sql - < statements.sql
"""
OPTIMIZE_ABOUT = """\
Compacts a lake table: joins small data files into larger ones, removes versions older than
--older-than, and removes files that no version needs. Other sessions can read and write the table
in the meantime. Afterwards, AT (VERSION => ...) cannot read the removed versions.
"""
OPTIMIZE_EXAMPLES = """\
Progress goes to standard error, and a comparison of before and after to standard output. A duration
is a number and a unit: 7d, 12h, 30m, 0s. Quote names with a dot or a quote as in SQL:
lake.shop."a.b". Exit code 0: success; 1: failure; 2: wrong usage.

examples:
  jetbridge optimize lake.shop.orders
  jetbridge optimize lake.shop.orders --older-than 12h --warehouse /data/lake
  jetbridge optimize lake.shop.orders --partition-by "day(ts), bucket(8, id)"
  jetbridge optimize lake.shop.orders --sort-by "id, ts DESC"
  jetbridge optimize lake.shop.orders --upgrade        (for a table that another engine created)
"""
WAREHOUSE = "folder of the lake (default ./jetbridge-data)"
MODULES = {
    "serve": "jetbridge.cli.serve",
    "sql": "jetbridge.cli.sql",
    "optimize": "jetbridge.cli.optimize",
    "doctor": "jetbridge.cli.doctor",
}
RAW = argparse.RawDescriptionHelpFormatter


def parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments of all commands."""
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
        help="compact a table of a lake",
        description=OPTIMIZE_ABOUT,
        epilog=OPTIMIZE_EXAMPLES,
        formatter_class=RAW,
    )
    _common(add)
    _optimize(add)
    _doctor(commands)
    return root


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, metavar="FILE", help="configuration file (TOML)")
    command.add_argument("-v", "--verbose", action="store_true", help="log debug messages")


def _sql(command: argparse.ArgumentParser) -> None:
    command.add_argument("statements", metavar="STATEMENTS", help="SQL; - reads standard input")
    command.add_argument("--warehouse", metavar="DIR", help=WAREHOUSE)
    formats = ("table", "json", "csv")
    command.add_argument(
        "--format", choices=formats, default="table", help="format of rows (default table)"
    )
    command.add_argument("--echo", action="store_true", help="print each statement before it runs")
    setting = "set a session setting, like SET; repeatable (SHOW settings lists all settings)"
    command.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=setting)
    engine = "engine for queries; auto chooses Spark for large tables (default auto)"
    command.add_argument("--engine", choices=("auto", "spark", "duckdb"), help=engine)
    dialect = "SQL dialect; spark: queries are Spark SQL and run unchanged (default duckdb)"
    command.add_argument("--dialect", choices=("duckdb", "spark"), help=dialect)


def _optimize(command: argparse.ArgumentParser) -> None:
    command.add_argument("table", metavar="CATALOG.SCHEMA.TABLE", help="table to optimize")
    command.add_argument("--warehouse", metavar="DIR", help=WAREHOUSE)
    older = "remove versions older than this; the newest version always stays (default 7d)"
    command.add_argument("--older-than", metavar="TIME", default="7d", help=older)
    upgrade = "upgrade a table of Iceberg format 1 or 2 to format 3, which UPDATE and DELETE need"
    command.add_argument("--upgrade", action="store_true", help=upgrade)
    partition = "partition the table, as in PARTITIONED BY of Spark; '' removes partitions"
    command.add_argument("--partition-by", metavar="LIST", help=partition)
    order = "sort the rows of each file by these columns; '' removes the sort order"
    command.add_argument("--sort-by", metavar="LIST", help=order)


def _doctor(commands: Any) -> None:
    about = "check what is installed and what is missing, with the remedy for each problem"
    command = commands.add_parser("doctor", help=about)
    _common(command)
    formats = ("text", "json")
    report = "format of the report (default text)"
    command.add_argument("--format", choices=formats, default="text", help=report)
    sweep = "only drop the staging tables that crashed loads have left in SQL Server"
    command.add_argument("--sweep", action="store_true", help=sweep)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
    set_up_logging(verbose=options.verbose)
    # gRPC prints its errors on standard error, too; it reads this variable at its import.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR" if options.verbose else "NONE")
    try:
        code: int = importlib.import_module(MODULES[options.command]).run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has ended. Python must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return code
