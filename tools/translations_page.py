"""Writes docs/reference/translations.md from the table of translations; a unit test compares."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import ANY, EXACT, FLAT, FLOATS, INTEGERS, NUMBERS
from jetbridge.pipeline.translate.entries.missing import MISSING
from jetbridge.pipeline.translate.entries.table import AREAS, ENTRIES

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/translations.md"

INTRODUCTION = """\
# Translations

A query runs on Spark if all its functions, operators and casts stand in this table; else it runs in
the embedded DuckDB. Each entry is compared with DuckDB over the edge values of every type that it
takes: the same values, NULLs, errors and types. Dates and timestamps are compared from year 1 to
year 9999, in the zone UTC.

A HUGEINT is what DuckDB gives for a sum of integers; Spark holds its 38 digits, and raises for
more. Where the remark says so, the last digit of a double may differ from DuckDB's.

This page is made by `python tools/translations_page.py`.
"""
GROUPS = {
    ANY: "any",
    FLAT: "flat types",
    NUMBERS: "numbers",
    EXACT: "integers, HUGEINT, DECIMAL",
    INTEGERS: "integers",
    FLOATS: "FLOAT, DOUBLE",
}


def page() -> str:
    parts = [INTRODUCTION, f"The table has {len(ENTRIES)} entries."]
    for area, entries in AREAS.items():
        rows: dict[tuple[str, str, str], None] = {}
        for entry in entries:
            takes = " × ".join(_kinds(at, entry) for at in range(len(entry.takes)))
            rows[(f"`{_escaped(entry.duckdb)}`", takes, entry.remark)] = None
        parts += [f"\n## {area}\n", *_table(("DuckDB", "arguments", "remarks"), rows)]
    missing = [(_escaped(name), reason) for name, reason in MISSING.items()]
    parts += ["\n## Not in the table\n", *_table(("what", "because"), missing), ""]
    return "\n".join(parts)


def _kinds(at: int, entry: Entry) -> str:
    if at in entry.constants:
        return "constant"
    kinds = entry.takes[at]
    return GROUPS.get(kinds) or ", ".join(sorted(kinds))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page())
