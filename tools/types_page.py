"""Writes docs/reference/types.md from the tables of the lake; a unit test compares them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jetbridge.backends.lake.types import KEPT

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/types.md"

INTRODUCTION = """\
# Types

What a column of each DuckDB type is in a table of the lake (Iceberg format 3), in which Spark,
PyIceberg and DuckDB's `iceberg_scan` read the same values. Every value comes back equal, at any
depth of nesting; one that cannot be kept is refused, with its column and row. The `memory` backend
keeps every type as it is.

A type that Iceberg does not have is kept in another one, with a note in the property
`jetbridge.table` of the table: Spark sees the type in the third column of the list, clients of
jetbridge that in the first. If another engine changes the type of such a column, the note no longer
counts, and the column is what Iceberg says. What another engine writes into such a column has to
be readable as the type in the first column, else nobody can read the table through jetbridge.

This page is made by `python tools/types_page.py`.
"""
SPARK = {
    "long": "bigint",
    "uuid": "string",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
NESTED = (
    ("`T[]`", "`list<T>`", "`array<T>`", "yes", ""),
    ("`T[n]`", "`list<T>`", "`array<T>`", "no", "`n` is at least 1"),
    (
        "`STRUCT(a T, …)`",
        "`struct<a: T, …>`",
        "`struct<a: T, …>`",
        "yes",
        "a name that is empty, has a dot or differs from another in case only is another one there",
    ),
    ("`MAP(K, V)`", "`map<K, V>`", "`map<K, V>`", "yes", "a map that has a key twice is refused"),
    (
        "`UNION(a T, …)`",
        "`struct<tag: string, a: T, …>`",
        "`struct<tag: string, a: T, …>`",
        "no",
        "`tag` is the name of the member that has the value",
    ),
)
REFUSED = (
    ("decimals of more than 38 digits or with a negative scale", "DuckDB has none"),
    ("half floats, dense unions, structs without fields (Arrow)", "DuckDB reads none"),
    ("`VARIANT`", "DuckDB does not send it"),
)
OTHERS = (
    ("`time`", "`TIME`", "Spark cannot open a table that has it"),
    ("`timestamp_ns`", "`TIMESTAMP_NS`", "Spark cannot open a table that has it"),
    ("`fixed[n]`", "`BLOB`", ""),
    ("`timestamptz_ns`, `geography`, `unknown`", "refused", "DuckDB cannot read the table"),
    ("`variant`, `geometry`", "refused", "Arrow has no such type, or not every engine reads it"),
)
ALTERATIONS = """\
ALTER COLUMN … TYPE leaves the files as they are where the new type holds every value of the old
one: integers to wider ones, FLOAT to DOUBLE, decimals to more digits before the point, TIMESTAMP_S
and TIMESTAMP_MS to finer ones, JSON to VARCHAR, ARRAY to LIST, and any of these inside others.
Other changes write the table anew.
"""


def page() -> str:
    return "\n".join(
        [
            INTRODUCTION,
            "## Flat types",
            *_table(("DuckDB", "Iceberg", "Spark", "native", "remarks"), _flat()),
            "\n## Nested types",
            *_table(("DuckDB", "Iceberg", "Spark", "native", "remarks"), NESTED),
            "\n## Not kept",
            *_table(("type", "because"), REFUSED),
            "\n## Tables of other engines",
            "Their types are those of the tables above that are native, and:\n",
            *_table(("Iceberg", "DuckDB", "remarks"), OTHERS),
            "\n## Changes of a type",
            ALTERATIONS,
        ]
    )


def _flat() -> Sequence[Sequence[str]]:
    rows = []
    for name, kept in KEPT.items():
        iceberg = kept.iceberg.format(digits="p,s")
        duckdb = "DECIMAL(p,s)" if name == "DECIMAL" else name
        native = "no" if kept.read else "yes"
        spark = SPARK.get(iceberg, iceberg)
        rows.append((f"`{duckdb}`", f"`{iceberg}`", f"`{spark}`", native, kept.remark))
    return rows


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


if __name__ == "__main__":
    PAGE.write_text(page())
