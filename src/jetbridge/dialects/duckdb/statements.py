"""Renders the DuckDB SQL that statements of the pipeline run."""

from collections.abc import Sequence
from dataclasses import dataclass

from jetbridge.dialects.quoting import identifier, literal

ROWID = "rowid"
# Names for what a statement works on, beside those of its own.
TARGET = "jetbridge_target"
CHANGED = "jetbridge_changed"
ANSWERS = "jetbridge_answers"


def read_spool(files: Sequence[str], columns: Sequence[tuple[str, str, str]]) -> str:
    """Select the rows of Parquet files; `columns` are the name in the file, the type and the
    name.
    """
    listed = ", ".join(literal(file) for file in files)
    casts = ", ".join(
        f"CAST({identifier(file_name)} AS {data_type}) AS {identifier(name)}"
        for file_name, data_type, name in columns
    )
    return f"SELECT {casts} FROM read_parquet([{listed}])"


def cast_to_target(
    query: str, query_names: Sequence[str], columns: Sequence[tuple[str, str]]
) -> str:
    """Select the rows of a query with other names, as the types of the target's columns."""
    names = ", ".join(identifier(name) for name in query_names)
    return f"SELECT {_casts(columns)} FROM ({query}) AS q({names})"


def _casts(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(
        f"CAST({identifier(name)} AS {data_type}) AS {identifier(name)}"
        for name, data_type in columns
    )


def rename_columns(query: str, alias: str, names: Sequence[str]) -> str:
    listed = ", ".join(map(identifier, names))
    return f"FROM ({query}) AS {identifier(alias)}({listed})"


def select_expression(text: str) -> str:
    return f"SELECT ({text})"


def values(rows: Sequence[Sequence[str]]) -> str:
    """Return VALUES of rows of expressions."""
    return "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


def select_nulls(columns: Sequence[tuple[str, str]]) -> str:
    """Select one row of NULL, from which DuckDB resolves the types."""
    listed = ", ".join(
        f"{null_of_type(data_type)} AS {identifier(name)}" for name, data_type in columns
    )
    return f"SELECT {listed}"


def select_all(path: Sequence[str]) -> str:
    return f"SELECT * FROM {_join_path(path)}"


def select_changes(
    target: Sequence[str],
    alias: str,
    columns: Sequence[tuple[str, str, str]],
    sources: str,
    condition: str,
) -> str:
    """Select the ids and new values of the rows that UPDATE or DELETE changes.

    `columns` are names, expressions and types.
    """
    casts = "".join(
        f", CAST({expression} AS {data_type}) AS {identifier(name)}"
        for name, expression, data_type in columns
    )
    listed = f"{_join_path(target)} AS {identifier(alias)}"
    others = f", {sources}" if sources else ""
    where = f" WHERE {condition}" if condition else ""
    rowid = f"{identifier(alias)}.{ROWID}"
    return f"SELECT {rowid} AS {ROWID}{casts} FROM {listed}{others}{where}"


def column(alias: str, name: str) -> str:
    return f"{identifier(alias)}.{identifier(name)}"


def select_returning(listed: str, path: Sequence[str], alias: str) -> str:
    """Select what RETURNING lists, from the rows that were changed."""
    return f"SELECT {listed} FROM {_join_path(path)} AS {identifier(alias)}"


def one_row_per_id(query: str) -> str:
    """Keep one row for each id, because several rows of another table may match it."""
    return f"SELECT DISTINCT ON ({ROWID}) * FROM ({query}) AS q"


def with_null_columns(name: str, columns: Sequence[tuple[str, str, bool]]) -> str:
    """Select all columns of a table; those that the relation does not have are NULL."""
    items = [
        identifier(column) if exists else f"CAST(NULL AS {data_type}) AS {identifier(column)}"
        for column, data_type, exists in columns
    ]
    return f"SELECT {', '.join(items)} FROM {identifier(name)}"


def select_columns(query: str, names: Sequence[str]) -> str:
    return f"SELECT {', '.join(map(identifier, names))} FROM ({query}) AS q"


def create_table(path: Sequence[str], columns: Sequence[tuple[str, str, bool]]) -> str:
    """Return a CREATE TABLE for people to read; `columns` are names, types and NOT NULL."""
    lines = ", ".join(
        f"{identifier(name)} {data_type}{' NOT NULL' if required else ''}"
        for name, data_type, required in columns
    )
    return f"CREATE TABLE {_join_path(path)} ({lines})"


@dataclass(frozen=True)
class MergeSides:
    """Hold the two tables of a MERGE INTO, their aliases, and the condition that matches their
    rows.
    """

    target: Sequence[str]
    target_alias: str
    source: Sequence[str]
    source_alias: str
    condition: str

    def target_item(self) -> str:
        return f"{_join_path(self.target)} AS {identifier(self.target_alias)}"

    def source_item(self) -> str:
        return f"{_join_path(self.source)} AS {identifier(self.source_alias)}"


def merge_part(
    outputs: Sequence[tuple[str, str]],
    sides: MergeSides,
    case: str,
    condition: str,
    earlier: Sequence[str],
) -> str:
    """Select the rows of one WHEN clause that no earlier clause of its case matches."""
    listed = ", ".join(f"{expression} AS {identifier(name)}" for name, expression in outputs)
    target, source, match = sides.target_item(), sides.source_item(), sides.condition
    rows = {
        "MATCHED": f"{target} JOIN {source} ON {match} WHERE TRUE",
        "NOT MATCHED": f"{source} WHERE NOT EXISTS (SELECT 1 FROM {target} WHERE {match})",
        "NOT MATCHED BY SOURCE": (
            f"{target} WHERE NOT EXISTS (SELECT 1 FROM {source} WHERE {match})"
        ),
    }[case]
    taken = "".join(f" AND NOT coalesce(({clause}), FALSE)" for clause in earlier)
    matching = f" AND ({condition})" if condition else ""
    return f"SELECT {listed} FROM {rows}{taken}{matching}"


def union_all(parts: Sequence[str]) -> str:
    return " UNION ALL ".join(f"({part})" for part in parts)


def null_of_type(data_type: str) -> str:
    return cast_to_type("NULL", data_type)


def error_expression(message: str, more: str) -> str:
    """Return an expression that raises an error when a row reaches it."""
    message_sql = f"{literal(message + ': ')} || ({more})" if more else literal(message)
    return f"CAST(error({message_sql}) AS VARCHAR)"


def cast_to_type(expression: str, data_type: str) -> str:
    return f"CAST({expression} AS {data_type})"


def _join_path(path: Sequence[str]) -> str:
    return ".".join(map(identifier, path))
