"""Writes docs/reference/types.md from the tables of the lake; a unit test compares them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jetbridge.backends.lake.types import KEPT

PAGE = Path(__file__).resolve().parent.parent / "docs/reference/types.md"

INTRODUCTION = """\
# Types

This page shows how the lake stores each DuckDB type in an Iceberg table (format 3). Spark,
PyIceberg and DuckDB's `iceberg_scan` read the same values there. Every value is read back equal, at
any depth of nesting. A value that cannot be stored is refused, with its column and row. The
`memory` backend stores every type unchanged.

A type that Iceberg does not have is stored as another one, with a note in the table property
`jetbridge.table`: Spark sees the type in the third column of the list, clients of jetbridge the
type in the first. If another engine changes the type of such a column, the note no longer applies,
and the column has its Iceberg type. If another engine writes into such a column, the values must be
readable as the type in the first column. Otherwise the table cannot be read through jetbridge.

`python tools/types_page.py` writes this page.
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
        "a name that is empty, has a dot or differs from another in case only is replaced there",
    ),
    ("`MAP(K, V)`", "`map<K, V>`", "`map<K, V>`", "yes", "a map with a duplicate key is refused"),
    (
        "`UNION(a T, …)`",
        "`struct<tag: string, a: T, …>`",
        "`struct<tag: string, a: T, …>`",
        "no",
        "`tag` is the name of the member that holds the value",
    ),
)
REFUSED = (
    ("decimals of more than 38 digits or with a negative scale", "DuckDB does not have them"),
    ("half floats, dense unions, structs without fields (Arrow)", "DuckDB cannot read them"),
    ("`VARIANT`", "DuckDB does not send it"),
)
OTHERS = (
    ("`time`", "`TIME`", "Spark cannot open a table with it"),
    ("`timestamp_ns`", "`TIMESTAMP_NS`", "Spark cannot open a table with it"),
    ("`fixed[n]`", "`BLOB`", ""),
    ("`timestamptz_ns`, `geography`, `unknown`", "refused", "DuckDB cannot read the table"),
    ("`variant`, `geometry`", "refused", "Arrow has no such type, or not every engine reads it"),
)
ALTERATIONS = """\
ALTER COLUMN … TYPE does not rewrite data files if the new type can hold every value of the old one:
integers to wider ones, FLOAT to DOUBLE, decimals to more digits before the decimal point,
TIMESTAMP_S and TIMESTAMP_MS to finer ones, JSON to VARCHAR, ARRAY to LIST, and any of these inside
others. Other changes rewrite the table.
"""


def page() -> str:
    return "\n".join(
        [
            INTRODUCTION,
            "## Flat types",
            *_table(("DuckDB", "Iceberg", "Spark", "native", "remarks"), _flat()),
            "\n## Nested types",
            *_table(("DuckDB", "Iceberg", "Spark", "native", "remarks"), NESTED),
            "\n## Not supported",
            *_table(("type", "reason"), REFUSED),
            "\n## Tables of other engines",
            "The native types of the tables above, and these:\n",
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
