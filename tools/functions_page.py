"""Writes docs/reference/functions.md from the lists of functions; a unit test compares them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from jetbridge.duckdb_engine import functions
from jetbridge.duckdb_engine.functions import Size

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/functions.md"

INTRODUCTION = """\
# Functions

This page lists the functions of DuckDB 1.5.5 that clients of the server may call. A function that
is not on the list for its purpose is refused, with its name. `jetbridge sql` and `jetbridge.sql`
run with your own rights and may call all functions. Expressions that they store in a table may call
only those of the first list.

`python tools/functions_page.py` writes this page.

## Stored expressions

A CHECK, a DEFAULT and the USING of ALTER COLUMN may call only the functions of this section. They
cannot contain a subquery, an aggregate, a window function or a lambda. A client evaluates a DEFAULT
with its own rights, so the list holds for all of them. It also holds for the filters that a scan
pushes down.

The server limits what an expression needs for one row before it evaluates it:

- An expression has at most 10,000 characters, 200 levels and 5,000 parts.
- If a function can return far more than it gets, its other arguments must be constants: see the
  groups.
- Rows are evaluated in slices, so that an expression needs about 32 MB at a time. A row that needs
  more than 96 MB of intermediate values is refused with `RESOURCE_EXHAUSTED`.
- If the time grows with the square of a row's length, a row may need about a second.
- An expression ends after 30 seconds, and when the caller disconnects.
- A cast to a type with more than 10,000 values (`INTEGER[1000][1000]`), and to VARIANT, is refused.

A table may have an expression that an earlier version of jetbridge accepted and these rules refuse.
Statements that evaluate it fail, with its name, until you drop or replace it. Clients do not get
such a DEFAULT of a lake table.
"""
GROUPS = {
    Size.FIXED: "Results of a fixed size: numbers, dates, BOOLEANs, digests",
    Size.PART: "Parts of dates: the first of several arguments is a constant",
    Size.DATED: "Dates from a string",
    Size.SAME: "Results as long as the arguments together",
    Size.DOUBLE: "Results up to twice as long as the arguments",
    Size.LONGER: "Results up to eight times as long as the arguments",
    Size.SORT: "Sorts and sets: results as long as the arguments, but more memory",
    Size.JSON: "JSON: results up to eight times as long as the arguments, and more memory",
    Size.JSON_FACT: "Properties of JSON: short results, but more memory",
    Size.PIECES: "Lists of parts",
    Size.SEARCH: "Searches: if both arguments are columns, for rows of up to about 500 KB",
    Size.LIKE: "LIKE: a pattern with `_` is a constant of at most two wildcards (two: up to 25 KB)",
    Size.PATTERN: "Other patterns: constants of at most two wildcards (two: up to 25 KB)",
    Size.REGEX: "Regular expressions: a constant of at most 1,000 characters",
    Size.REGEX_PIECES: "Regular expressions with lists as results: the same limits",
    Size.REGEX_REPLACE: "Regular expressions that replace: the replacement is a constant, too",
    Size.REPLACE: "Replacements: both strings are constants",
    Size.SPLIT: "Splits: the separator is a constant",
    Size.SEPARATED: "Joins with a separator, which is a constant",
    Size.PATH: "JSON paths: a constant without `..`",
    Size.REPEAT: "Repetitions: the number is a constant of at most 100,000",
    Size.PAD: "Padding: all arguments but the first are constants; numbers are at most 100,000",
    Size.COUNT: "Series: all arguments are constants of at most 100,000",
    Size.FORMAT: "Formats: a constant; its widths are at most 1,000",
}

RUN_LIMITS = """\
A statement of `run` may call all functions above, without their limits on arguments, and the
functions of this section. A cast to VARIANT, and to an ARRAY of more than a million values, is
refused.

Each call of `run` has a process of its own, whose memory the system limits: see
[what calls of `run` share](configuration.md#what-calls-of-run-share). Values that need more end the
statement with RESOURCE_EXHAUSTED. One row of a result, or of a table that DuckDB copies, has at
most `limits.message_bytes`.

`user`, `current_user`, `current_schema` and similar names without brackets are columns, if there
are columns with these names. Otherwise they are constants that reveal nothing about the server.
"""


def page() -> str:
    parts = [INTRODUCTION]
    for size, title in GROUPS.items():
        parts += [
            f"### {title}\n",
            listed(n for n, each in functions.SIZES.items() if each is size),
        ]
    parts += [
        "### What changes from call to call: in DEFAULT and USING only\n",
        listed(functions.CHANGING | functions.UNLISTED_CHANGING),
        "## Statements of `run`\n",
        RUN_LIMITS,
        "### Aggregates, and functions of windows\n",
        listed(functions.AGGREGATES),
        "### Others\n",
        listed(functions.RUN | functions.UNLISTED_RUN),
        "The second argument of "
        + ", ".join(f"`{name}`" for name in sorted(functions.JSON_TYPED_FUNCTIONS))
        + "\nis a string.\n",
        "### Table functions\n",
        listed(functions.ROW_TABLE_FUNCTIONS),
        "### Table functions that read files, in `[sql] folders` only\n",
        listed(functions.FILE_TABLE_FUNCTIONS),
        "## Refused\n",
        *refused("function", functions.REFUSED_FUNCTIONS),
        *refused("table function", functions.REFUSED_TABLE_FUNCTIONS),
        "### Each table function reads files that cannot be judged beforehand\n",
        listed(functions.REMOTE_FILE_TABLE_FUNCTIONS),
    ]
    return "\n".join(parts)


def refused(kind: str, reasons: Mapping[str, str]) -> Iterable[str]:
    for reason in dict.fromkeys(reasons.values()):
        yield f"### Each {kind} {reason}\n"
        yield listed(name for name, each in reasons.items() if each == reason)


def listed(names: Iterable[str]) -> str:
    """Return the names in lines of about a hundred characters."""
    lines = [""]
    for name in sorted(names):
        mark = "``" if "`" in name else "`"
        if len(lines[-1]) + len(name) > 96:  # noqa: PLR2004
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{mark}{name}{mark}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
