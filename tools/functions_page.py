"""Writes docs/reference/functions.md from the lists of functions; a unit test compares them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from jetbridge.duckdb_engine import functions
from jetbridge.duckdb_engine.functions import Size

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/functions.md"

INTRODUCTION = """\
# Functions

Which functions of DuckDB 1.5.5 may be called for clients of the server. Each function of DuckDB is
on one of these lists; any other one is refused with its name. `jetbridge sql` and `jetbridge.sql`
run with your own rights and may call all of them; expressions that are stored in a table obey the
first list there, too.

This page is made by `python tools/functions_page.py`.

## Stored expressions

A CHECK, a DEFAULT and the USING of ALTER COLUMN may call these functions and nothing else. They
contain no subquery, aggregate, window function or lambda. A client evaluates a DEFAULT itself,
with its own rights, so all of them are held to this list, and so are filters that a scan pushes
down.

What an expression needs for one row is bounded before it is evaluated:

- It has at most 10,000 characters, 200 levels and 5,000 parts.
- Where a function could make much of little, its other arguments are constants: see the groups.
- Rows are evaluated in slices, so that an expression needs about 32 MB at a time. A row that is too
  long for that alone (above 96 MB of intermediate values) is refused with `RESOURCE_EXHAUSTED`.
- The same holds for time that grows with the square of a row's length: about a second for one row.
- It ends after 30 seconds, and when the caller is gone.
- A cast to a type with more than 10,000 values (`INTEGER[1000][1000]`), and to VARIANT, is refused.

A table may have an expression that an earlier version accepted and these rules refuse. Statements
that evaluate it then fail, with its name, until you drop or replace it; a DEFAULT of a lake table
is left out of what clients get.
"""
GROUPS = {
    Size.FIXED: "Numbers, dates and truths, as short as that for all arguments",
    Size.PART: "Numbers and dates: the first of several arguments is a constant",
    Size.DATED: "Dates that are read from a string",
    Size.SAME: "As long as the arguments together",
    Size.DOUBLE: "Up to twice as long",
    Size.LONGER: "Up to eight times as long",
    Size.SORT: "Sorts, sets and the like: as long as the arguments, with more memory besides",
    Size.JSON: "JSON: up to eight times as long, with more memory besides",
    Size.JSON_FACT: "Facts about JSON, with more memory besides",
    Size.PIECES: "Lists of parts",
    Size.SEARCH: "Searches: if both arguments are columns, for rows of up to some 500 KB",
    Size.LIKE: "LIKE: the pattern is a constant, if it has `_`: two wildcards, 25 KB",
    Size.PATTERN: "Other patterns: constants, at most two wildcards, and then 25 KB",
    Size.REGEX: "Regular expressions: a constant of up to 1,000 characters",
    Size.REGEX_PIECES: "The same, with lists as results",
    Size.REGEX_REPLACE: "The same; what replaces a match is a constant",
    Size.REPLACE: "Both strings are constants",
    Size.SPLIT: "The separator is a constant",
    Size.SEPARATED: "The separator is a constant",
    Size.PATH: "The JSON path is a constant without `..`",
    Size.REPEAT: "The number is a constant up to 100,000",
    Size.PAD: "All arguments but the first are constants; numbers are at most 100,000",
    Size.COUNT: "All arguments are constants up to 100,000",
    Size.FORMAT: "The format is a constant; its widths are at most 1,000",
}

RUN_LIMITS = """\
They may call all of the above without its limits on arguments, and what follows. A cast to VARIANT,
and to an ARRAY of more than a million values, is refused.

What makes much of little is bounded before a statement runs. DuckDB does not count such strings
and lists in `sql.memory_limit`, and computes 2,048 rows at once:

- `repeat`, `lpad`, `rpad`, `bar`, `to_base` and `bitstring` need a length that is a constant of at
  most 100,000, `list_resize` and `array_resize` one of at most 5,000. `least(n, 100000)` counts as
  a constant: write `repeat(x, least(n, 100000))`.
- `range` and `generate_series` as lists need constant bounds and at most 5,000 values, and at most
  1,000,000 directly in `unnest(...)`. In FROM they have no limit.
- `format` and `printf` need a constant format; its widths are at most 1,000.
- Constants make at most 128 KiB in one value, and 256 KiB in all values of a row, also through
  lambdas, subqueries, WITH and aliases. A value has at most 1,000 times the bytes of the row:
  for more, cut it first: `repeat(left(x, 10), 2000)`.
- `levenshtein`, `damerau_levenshtein`, `jaro_similarity` and their like compare strings of at most
  1,000 characters: `levenshtein(left(a, 1000), left(b, 1000))`.
- The lambda of `list_reduce` uses its first parameter only once.
- Without brackets `user`, `current_user`, `current_schema` and the like are columns of that name,
  or else constants that tell nothing of the server.
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
    """In lines of about a hundred characters."""
    lines = [""]
    for name in sorted(names):
        mark = "``" if "`" in name else "`"
        if len(lines[-1]) + len(name) > 96:  # noqa: PLR2004
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{mark}{name}{mark}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
