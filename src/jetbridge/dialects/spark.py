"""Renders Spark SQL for statements on tables of a lake."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from jetbridge.errors import BadRequest

Argument = str | int | datetime | Mapping[str, str]


def identifier(name: str) -> str:
    if "\0" in name:
        raise BadRequest(f"the name {name!r} contains a NUL character")
    return "`" + name.replace("`", "``") + "`"


def qualify(parts: Sequence[str]) -> str:
    return ".".join(identifier(part) for part in parts)


def rows_of(query: str) -> str:
    """Wrap a query, so that Spark runs no other statement in its text."""
    return f"SELECT * FROM (\n{query}\n)"


def insert(target: str, source: str, columns: Sequence[str]) -> str:
    listed = ", ".join(identifier(name) for name in columns)
    return f"INSERT INTO {target} ({listed}) SELECT {listed} FROM {identifier(source)}"


def merge_update(target: str, source: str, row_id: str, columns: Sequence[str]) -> str:
    """Update the rows that have the same id in the source."""
    assigned = ", ".join(f"t.{identifier(n)} = s.{identifier(n)}" for n in columns)
    return f"{_merge(target, source, row_id)} UPDATE SET {assigned}"


def merge_delete(target: str, source: str, row_id: str) -> str:
    return f"{_merge(target, source, row_id)} DELETE"


def merge_all(target: str, kept: str, deleted: str, row_id: str, columns: Sequence[str]) -> str:
    """Insert or update the rows of the view `kept`, and delete those of `deleted`; '' is no
    view.
    """
    key = identifier(row_id)
    names = [*(identifier(name) for name in columns), key]
    listed = ", ".join(names)
    sources = [
        f"SELECT {listed}, {stays} AS jetbridge_stays FROM {identifier(view)}"
        for view, stays in ((kept, "TRUE"), (deleted, "FALSE"))
        if view
    ]
    assigned = ", ".join(f"t.{name} = s.{name}" for name in names[:-1])
    new = ", ".join(names[:-1])
    values = ", ".join(f"s.{name}" for name in names[:-1])
    return (
        f"MERGE INTO {target} t USING ({' UNION ALL '.join(sources)}) s ON t.{key} = s.{key} "
        f"WHEN MATCHED AND NOT s.jetbridge_stays THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {assigned} "
        f"WHEN NOT MATCHED AND s.{key} IS NULL THEN INSERT ({new}) VALUES ({values})"
    )


def _merge(target: str, source: str, row_id: str) -> str:
    return (
        f"MERGE INTO {target} t USING {identifier(source)} s "
        f"ON t.{identifier(row_id)} = s.{identifier(row_id)} WHEN MATCHED THEN"
    )


def copy(table: Sequence[str], snapshot_id: int, columns: Sequence[tuple[str, str]]) -> str:
    """Select the rows of one Iceberg snapshot; `columns` are names and new names."""
    listed = ", ".join(f"{identifier(name)} AS {identifier(ours)}" for name, ours in columns)
    return f"SELECT {listed or '1 AS one'} FROM {qualify(table)} VERSION AS OF {snapshot_id:d}"


def literal(value: str | int | datetime) -> str:
    """Return a constant; Spark escapes with backslashes, and a timestamp has its zone."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime():
            return f"TIMESTAMP '{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f} UTC'"
    return str(value)


def call(catalog: str, procedure: str, table: Sequence[str], **arguments: Argument) -> str:
    """Call a procedure of Iceberg for one table; an argument may be a map."""
    named: dict[str, Argument] = {"table": qualify(table), **arguments}
    listed = ", ".join(f"{name} => {_argument(value)}" for name, value in named.items())
    return f"CALL {identifier(catalog)}.system.{identifier(procedure)}({listed})"


def _argument(value: Argument) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{literal(key)}, {literal(item)}" for key, item in value.items())
        return f"map({', '.join(pairs)})"
    return literal(value)


def files_by_kind(table: Sequence[str]) -> str:
    """Return a query for number, size and rows of the files of each kind in the current
    snapshot.
    """
    kinds = "content, file_format, spec_id, coalesce(sort_order_id, 0)"
    sums = "count(*), sum(file_size_in_bytes), sum(record_count)"
    return f"SELECT {kinds}, {sums} FROM {qualify([*table, 'files'])} GROUP BY {kinds}"


def count_manifests(table: Sequence[str]) -> str:
    return f"SELECT count(*) FROM {qualify([*table, 'manifests'])}"


def select_columns(
    table: Sequence[str], snapshot_id: int | None, columns: Sequence[tuple[str, str]]
) -> str:
    """Select columns of one snapshot, cast if they have a type; without a snapshot, no rows."""
    listed = ", ".join(
        f"{_as(name, data_type)} AS {identifier(name)}" for name, data_type in columns
    )
    at = " WHERE FALSE" if snapshot_id is None else f" VERSION AS OF {snapshot_id:d}"
    return f"SELECT {listed or '1 AS one'} FROM {qualify(table)}{at}"


def fill(target: str, columns: Sequence[tuple[str, str]], query: str) -> str:
    """Insert the rows of a query into a table; columns with a type are cast."""
    listed = ", ".join(identifier(name) for name, _ in columns)
    casts = ", ".join(_as(name, data_type) for name, data_type in columns)
    return f"INSERT INTO {target} ({listed}) SELECT {casts} FROM (\n{query}\n) AS q"


def insert_all(target: str, source: str) -> str:
    """Insert all rows of a view."""
    return f"INSERT INTO {target} SELECT * FROM {identifier(source)}"


def rename_columns(query: str, names: Sequence[str]) -> str:
    """Select the rows of a query with other column names."""
    return f"SELECT * FROM (\n{query}\n) AS q({', '.join(map(identifier, names))})"


def _as(name: str, data_type: str) -> str:
    return f"CAST({identifier(name)} AS {data_type})" if data_type else identifier(name)


def select_all(name: str) -> str:
    return f"SELECT * FROM {identifier(name)}"
