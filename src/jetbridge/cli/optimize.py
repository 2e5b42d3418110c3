"""Runs `jetbridge optimize`: compacts one table of a lake."""

import logging
import re
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta

from jetbridge.app.compose import KIND, OptimizeRequest, optimize_table
from jetbridge.app.configuration import load_config
from jetbridge.catalog.identifiers import fold, split_identifier
from jetbridge.cli.terminal import INTERRUPTED, USAGE_ERROR, UsageError, note, print_error, say
from jetbridge.config import Config, ConfigError
from jetbridge.errors import BadRequest, ServerError

UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
DURATION = re.compile(r"(\d{1,6})([dhms])")
HEADINGS = ("", "before", "after")


def run(options: Namespace) -> int:
    """Optimize the table; return the exit code."""
    log = logging.getLogger("jetbridge")
    if not options.verbose:
        # The error is printed at the end, as one line.
        log.setLevel(logging.CRITICAL)
    try:
        age = duration(options.older_than)
        config = load_config(options.config, warehouse=options.warehouse, notify=note)
        catalog, schema, table = find_table(options.table, config)
        _optimize(config, (catalog, schema, table), age, options)
    except (ConfigError, UsageError, BadRequest) as error:
        print_error(str(error))
        return USAGE_ERROR
    except ServerError as error:
        log.debug("it failed", exc_info=error)
        print_error(str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _optimize(
    config: Config, name: tuple[str, str, str], age: timedelta, options: Namespace
) -> None:
    request = OptimizeRequest(
        *name,
        older_than=age,
        upgrade=options.upgrade,
        partition_by=options.partition_by,
        sort_by=options.sort_by,
    )
    rows = optimize_table(config, request, verbose=options.verbose, progress=note)
    for line in draw_table([HEADINGS, *rows]):
        say(line)


def duration(text: str) -> timedelta:
    """Return the duration of a text such as `7d`, `12h`, `30m` or `0s`; raises UsageError."""
    match = DURATION.fullmatch(text)
    if match is None:
        allowed = "must be a number and a unit: 7d, 12h, 30m or 0s"
        raise UsageError(f"--older-than = {text!r}: {allowed}")
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def find_table(text: str, config: Config) -> tuple[str, str, str]:
    """Return catalog, schema and table of a dotted name; the schema may have several parts.

    Raises UsageError for another text, or a catalog that is not a lake.
    """
    parts = split_identifier(text)
    if len(parts) < len(HEADINGS):
        raise UsageError(f"{text!r} is not the name of a table: it must be CATALOG.SCHEMA.TABLE")
    known = {fold(name): name for name in config.catalogs}
    catalog = known.get(fold(parts[0]))
    if catalog is None:
        raise UsageError(f"there is no catalog {parts[0]!r}; known: {', '.join(config.catalogs)}")
    catalog_type = config.catalogs[catalog].type
    if catalog_type != KIND:
        raise UsageError(
            f"catalog {catalog!r} is of type {catalog_type!r}: only a lake can be optimized"
        )
    return catalog, ".".join(parts[1:-1]), parts[-1]


def draw_table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table: the first column to the left, numbers to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in texts
    ]
