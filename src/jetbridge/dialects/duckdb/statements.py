"""DuckDB SQL that statements of the pipeline are made into."""

from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.dialects.quoting import identifier, literal

ROWID = "rowid"
# Names for what a statement works on, beside those of its own.
TARGET = "jetbridge_target"
CHANGED = "jetbridge_changed"
ANSWERS = "jetbridge_answers"


def read_spool(files: Sequence[str], columns: Sequence[tuple[str, str, str]]) -> str:
    """The rows of Parquet files; of each column its name there, its type and its own name."""
    listed = ", ".join(literal(file) for file in files)
    made = ", ".join(
        f"CAST({identifier(there)} AS {kind}) AS {identifier(name)}"
        for there, kind, name in columns
    )
    return f"SELECT {made} FROM read_parquet([{listed}])"


def cast_to_target(query: str, given: Sequence[str], columns: Sequence[tuple[str, str]]) -> str:
    """The rows of a query with other names, as the types of the columns they go to."""
    names = ", ".join(identifier(name) for name in given)
    return f"SELECT {_casts(columns)} FROM ({query}) AS q({names})"


def _casts(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(
        f"CAST({identifier(name)} AS {kind}) AS {identifier(name)}" for name, kind in columns
    )


def rename_columns(query: str, alias: str, names: Sequence[str]) -> str:
    listed = ", ".join(map(identifier, names))
    return f"FROM ({query}) AS {identifier(alias)}({listed})"


def select_expression(text: str) -> str:
    return f"SELECT ({text})"


def values(rows: Sequence[Sequence[str]]) -> str:
    """Rows of expressions."""
    return "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


def select_nulls(columns: Sequence[tuple[str, str]]) -> str:
    """A row of nothing, to learn what DuckDB makes of types."""
    listed = ", ".join(f"{null_of_type(kind)} AS {identifier(name)}" for name, kind in columns)
    return f"SELECT {listed}"


def select_all(path: Sequence[str]) -> str:
    return f"SELECT * FROM {_dotted(path)}"


def changed_rows(
    target: Sequence[str],
    alias: str,
    columns: Sequence[tuple[str, str, str]],
    sources: str,
    condition: str,
) -> str:
    """The rows that UPDATE or DELETE means, by their ids, with new values.

    `columns` are names, expressions and types.
    """
    made = "".join(
        f", CAST({expression} AS {kind}) AS {identifier(name)}"
        for name, expression, kind in columns
    )
    listed = f"{_dotted(target)} AS {identifier(alias)}"
    others = f", {sources}" if sources else ""
    where = f" WHERE {condition}" if condition else ""
    rowid = f"{identifier(alias)}.{ROWID}"
    return f"SELECT {rowid} AS {ROWID}{made} FROM {listed}{others}{where}"


def column(alias: str, name: str) -> str:
    return f"{identifier(alias)}.{identifier(name)}"


def select_returning(listed: str, path: Sequence[str], alias: str) -> str:
    """RETURNING, over the rows that were changed."""
    return f"SELECT {listed} FROM {_dotted(path)} AS {identifier(alias)}"


def one_row_per_id(query: str) -> str:
    """One row for each id: several rows of another table may match it."""
    return f"SELECT DISTINCT ON ({ROWID}) * FROM ({query}) AS q"


def with_null_columns(name: str, columns: Sequence[tuple[str, str, bool]]) -> str:
    """All columns: those that are there, and NULL of their types for the others."""
    items = [
        identifier(column) if there else f"CAST(NULL AS {kind}) AS {identifier(column)}"
        for column, kind, there in columns
    ]
    return f"SELECT {', '.join(items)} FROM {identifier(name)}"


def select_columns(query: str, names: Sequence[str]) -> str:
    return f"SELECT {', '.join(map(identifier, names))} FROM ({query}) AS q"


def create_table(path: Sequence[str], columns: Sequence[tuple[str, str, bool]]) -> str:
    """`columns` are names, types, and whether each is NOT NULL; for people to read."""
    lines = ", ".join(
        f"{identifier(name)} {kind}{' NOT NULL' if required else ''}"
        for name, kind, required in columns
    )
    return f"CREATE TABLE {_dotted(path)} ({lines})"


@dataclass(frozen=True)
class MergeSides:
    """The two tables of a MERGE INTO, what they are called, and when rows of them match."""

    target: Sequence[str]
    target_alias: str
    source: Sequence[str]
    source_alias: str
    condition: str

    def named_target(self) -> str:
        return f"{_dotted(self.target)} AS {identifier(self.target_alias)}"

    def named_source(self) -> str:
        return f"{_dotted(self.source)} AS {identifier(self.source_alias)}"


def merge_part(
    made: Sequence[tuple[str, str]],
    sides: MergeSides,
    case: str,
    condition: str,
    earlier: Sequence[str],
) -> str:
    """The rows of one WHEN clause that no earlier clause of its case has taken."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in made)
    target, source, match = sides.named_target(), sides.named_source(), sides.condition
    rows = {
        "MATCHED": f"{target} JOIN {source} ON {match} WHERE TRUE",
        "NOT MATCHED": f"{source} WHERE NOT EXISTS (SELECT 1 FROM {target} WHERE {match})",
        "NOT MATCHED BY SOURCE": (
            f"{target} WHERE NOT EXISTS (SELECT 1 FROM {source} WHERE {match})"
        ),
    }[case]
    taken = "".join(f" AND NOT coalesce(({each}), FALSE)" for each in earlier)
    wanted = f" AND ({condition})" if condition else ""
    return f"SELECT {listed} FROM {rows}{taken}{wanted}"


def union_all(parts: Sequence[str]) -> str:
    return " UNION ALL ".join(f"({part})" for part in parts)


def null_of_type(kind: str) -> str:
    return cast_to_type("NULL", kind)


def error_expression(message: str, more: str) -> str:
    """An error as soon as a row gets there."""
    said = f"{literal(message + ': ')} || ({more})" if more else literal(message)
    return f"CAST(error({said}) AS VARCHAR)"


def cast_to_type(expression: str, kind: str) -> str:
    return f"CAST({expression} AS {kind})"


def _dotted(path: Sequence[str]) -> str:
    return ".".join(map(identifier, path))
