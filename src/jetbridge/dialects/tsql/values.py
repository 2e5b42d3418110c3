"""Queries of DuckDB that write values as T-SQL constants, and keys as texts: rows by the batch."""

from collections.abc import Sequence

from jetbridge.dialects.quoting import identifier, literal

_QUOTED = "'''' || {} || ''''"
_MOMENT = "strftime({}, '%Y-%m-%dT%H:%M:%S.%f')"
_CONSTANTS = {
    "bit": "CASE WHEN {} THEN '1' ELSE '0' END",
    "real": "format('{{:.9e}}', {})",
    "float": "format('{{:.17e}}', {})",
    "varchar": "'N''' || replace({}, '''', '''''') || ''''",
    "nvarchar": "'N''' || replace({}, '''', '''''') || ''''",
    "varbinary": "'0x' || hex({})",
    "uniqueidentifier": _QUOTED.format("CAST({} AS VARCHAR)"),
    "date": _QUOTED.format("strftime({}, '%Y-%m-%d')"),
    "time": _QUOTED.format("CAST({} AS VARCHAR)"),
    "datetime2": _QUOTED.format(_MOMENT),
    "datetimeoffset": _QUOTED.format(f"{_MOMENT} || '+00:00'"),
}


def constants(data: str, columns: Sequence[tuple[str, str]]) -> str:
    """One text for each row of `data`, as `(1, N'a', NULL)`; columns are names and T-SQL types."""
    written = [_constant(name, kind.partition("(")[0]) for name, kind in columns]
    row = " || ', ' || ".join(written)
    return f"SELECT '(' || {row} || ')' AS v FROM {data}"


def _constant(name: str, kind: str) -> str:
    column = identifier(name)
    made = _CONSTANTS.get(kind, "CAST({} AS VARCHAR)").format(column)
    return f"CASE WHEN {column} IS NULL THEN 'NULL' ELSE {made} END"


def packed(data: str, names: Sequence[str]) -> str:
    """One JSON list of texts for each row of `data`."""
    items = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
    return f"SELECT CAST(to_json([{items}]) AS VARCHAR) AS id FROM {data}"


def unpacked(data: str, name: str, wanted: Sequence[tuple[str, str]]) -> str:
    """Names and DuckDB's types, from such lists; fails for a text that is none."""
    items = ", ".join(
        f"CAST(list_extract(l, {index + 1}) AS {kind}) AS {identifier(column)}"
        for index, (column, kind) in enumerate(wanted)
    )
    kind = literal('["VARCHAR"]')
    lists = f"SELECT from_json(CAST({identifier(name)} AS JSON), {kind}) AS l FROM {data}"
    length = f"CASE WHEN len(l) = {len(wanted)} THEN l ELSE error('not a row id') END AS l"
    return f"SELECT {items} FROM (SELECT {length} FROM ({lists}))"
