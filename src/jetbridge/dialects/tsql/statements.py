"""Renders T-SQL: names, constants and statements."""

from collections.abc import Sequence

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.errors import BadRequest

LONGEST_NAME = 128
# Names of extended properties: MS_Description, which SQL Server's tools show, and our own.
DESCRIPTION = "MS_Description"
TAG_PREFIX = "jetbridge.tag."


def bracket(name: str) -> str:
    """Return a name in brackets; raises BadRequest for a name that SQL Server does not support."""
    if not name or "\0" in name:
        raise BadRequest(f"the name {name!r} is empty or contains a NUL character")
    # SQL Server counts UTF-16 code units.
    try:
        units = len(name.encode("utf-16-le")) // 2
    except UnicodeEncodeError:
        raise BadRequest(f"{ascii(name)} is not valid Unicode text") from None
    if units > LONGEST_NAME:
        raise BadRequest(
            f"the name {name[:40]}… is longer than the {LONGEST_NAME} characters of SQL Server"
        )
    return "[" + name.replace("]", "]]") + "]"


def text(value: str) -> str:
    """Return a Unicode constant. A NUL ends the string for some tools, but not for the server."""
    return "N'" + value.replace("'", "''") + "'"


def path(schema: str, name: str) -> str:
    return f"{bracket(schema)}.{bracket(name)}"


def columns(definitions: Sequence[tuple[str, str, bool]]) -> str:
    """Return columns for CREATE TABLE, from name, type and whether the column is NOT NULL."""
    return ", ".join(
        f"{bracket(name)} {sql_type} {'NOT NULL' if required else 'NULL'}"
        for name, sql_type, required in definitions
    )


def create_table(
    schema: str, name: str, definitions: Sequence[tuple[str, str, bool]], *more: str
) -> str:
    """Create a table; `more` are complete constraints and indexes."""
    inner = ", ".join([columns(definitions), *more])
    return f"CREATE TABLE {path(schema, name)} ({inner})"


def drop_table(schema: str, name: str) -> str:
    return f"DROP TABLE {path(schema, name)}"


def rename_table(schema: str, name: str, new: str) -> str:
    bracket(new)
    return f"EXEC sp_rename {text(path(schema, name))}, {text(new)}, N'OBJECT'"


def create_schema(name: str) -> str:
    return f"CREATE SCHEMA {bracket(name)}"


def add_schema_property(schema: str, name: str, value: str) -> str:
    """Return the call that adds an extended property to a schema."""
    return (
        f"EXEC sp_addextendedproperty @name = {text(name)}, @value = {text(value)}, "
        f"@level0type = N'SCHEMA', @level0name = {text(schema)}"
    )


def drop_schema(name: str) -> str:
    return f"DROP SCHEMA {bracket(name)}"


def select(schema: str, name: str, items: Sequence[str], where: str = "") -> str:
    """Select items from a table; without items, count its rows."""
    listed = ", ".join(items) or "COUNT_BIG(*)"
    return f"SELECT {listed} FROM {path(schema, name)}{where and ' WHERE ' + where}"


def as_text(name: str) -> str:
    """Return a column as a string, for a type that drivers do not support."""
    return f"CONVERT(nvarchar(max), {bracket(name)}) AS {bracket(name)}"


def between(name: str, from_one: bool, to_one: bool) -> str:
    """Return a condition for a range of a column without its upper end; both ends are
    parameters.
    """
    low = f"{bracket(name)} >= ?" if from_one else ""
    high = f"{bracket(name)} < ?" if to_one else ""
    return " AND ".join(end for end in (low, high) if end)


def select_bounds(schema: str, name: str, column: str) -> str:
    key = bracket(column)
    return f"SELECT MIN({key}), MAX({key}) FROM {path(schema, name)}"


# DuckDB queries that write values as T-SQL constants, and keys as strings.
_QUOTED = "'''' || {} || ''''"
_TIMESTAMP = "strftime({}, '%Y-%m-%dT%H:%M:%S.%f')"
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
    "datetime2": _QUOTED.format(_TIMESTAMP),
    "datetimeoffset": _QUOTED.format(f"{_TIMESTAMP} || '+00:00'"),
}


def constants(data: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return a query of one string for each row, such as `(1, N'a', NULL)`.

    `columns` are names and T-SQL types.
    """
    parts = [_constant(name, sql_type.partition("(")[0]) for name, sql_type in columns]
    row = " || ', ' || ".join(parts)
    return f"SELECT '(' || {row} || ')' AS v FROM {data}"


def _constant(name: str, sql_type: str) -> str:
    column = identifier(name)
    text = _CONSTANTS.get(sql_type, "CAST({} AS VARCHAR)").format(column)
    return f"CASE WHEN {column} IS NULL THEN 'NULL' ELSE {text} END"


def pack(data: str, names: Sequence[str]) -> str:
    """Return a query of one JSON list of strings for each row."""
    items = ", ".join(f"CAST({identifier(name)} AS VARCHAR)" for name in names)
    return f"SELECT CAST(to_json([{items}]) AS VARCHAR) AS id FROM {data}"


def unpack(data: str, name: str, columns: Sequence[tuple[str, str]]) -> str:
    """Return a query that reads lists of `pack`; `columns` are names and DuckDB's types.

    The query fails for a string that is not such a list.
    """
    items = ", ".join(
        f"CAST(list_extract(l, {index + 1}) AS {kind}) AS {identifier(column)}"
        for index, (column, kind) in enumerate(columns)
    )
    kind = literal('["VARCHAR"]')
    lists = f"SELECT from_json(CAST({identifier(name)} AS JSON), {kind}) AS l FROM {data}"
    length = f"CASE WHEN len(l) = {len(columns)} THEN l ELSE error('not a row id') END AS l"
    return f"SELECT {items} FROM (SELECT {length} FROM ({lists}))"


# For the reads of one transaction; END_SNAPSHOT restores the connection's settings.
# A statement that fails must not end the transaction, and with it the snapshot.
BEGIN_SNAPSHOT = "SET XACT_ABORT OFF; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION"
END_SNAPSHOT = "IF @@TRANCOUNT > 0 ROLLBACK; SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
SNAPSHOTS = "SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()"
# Babelfish is PostgreSQL with a part of T-SQL. The property is NULL on SQL Server.
BABELFISH = "SELECT CONVERT(int, SERVERPROPERTY(N'Babelfish'))"
ROW_COUNT = "SELECT SUM(rows) FROM sys.partitions WHERE object_id = ? AND index_id IN (0, 1)"
# NOLOCK: an open CREATE TABLE of another session must not block the listing. The listing may then
# contain the table too early; if it is rolled back, the version changes again.
#
# The fixed roles have these ids; a server that is not Microsoft's uses ids above them.
SCHEMAS = """
SELECT name FROM sys.schemas WITH (NOLOCK)
WHERE schema_id NOT BETWEEN 16384 AND 16399
    AND name NOT IN (N'sys', N'INFORMATION_SCHEMA', N'guest')
ORDER BY name
"""
# Class 3: schemas.
SCHEMA_PROPERTIES = f"""
SELECT s.name, p.name, CONVERT(nvarchar(max), p.value)
FROM sys.extended_properties p WITH (NOLOCK)
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = p.major_id
WHERE p.class = 3 AND p.minor_id = 0
    AND (p.name = {text(DESCRIPTION)} OR p.name LIKE {text(TAG_PREFIX + "%")})
"""
# Changes with most changes of tables; the number of objects also shows that the last was dropped.
# Schemas are not objects, so their names, comments and tags are part of it.
_OF_SCHEMAS = "(SELECT SUM(CONVERT(bigint, CHECKSUM(name))) FROM sys.schemas WITH (NOLOCK))"
_OF_PROPERTIES = """(
    SELECT SUM(CONVERT(bigint, CHECKSUM(major_id, name, CONVERT(nvarchar(4000), value))))
    FROM sys.extended_properties WITH (NOLOCK) WHERE class = 3)"""
VERSION = f"""
SELECT CONVERT(nvarchar(33), MAX(modify_date), 126), COUNT(*), {_OF_SCHEMAS}, {_OF_PROPERTIES}
FROM sys.objects WITH (NOLOCK) WHERE is_ms_shipped = 0
"""
# For a server without dates of changes: sums over names and types of all columns.
VERSION_BY_COLUMNS = f"""
SELECT {_OF_SCHEMAS}, CONVERT(nvarchar(33), MAX(o.create_date), 126), COUNT(*), SUM(CONVERT(bigint,
    CHECKSUM(o.name, c.name, c.system_type_id, c.max_length, c.precision, c.scale, c.is_nullable)))
FROM sys.objects o WITH (NOLOCK) LEFT JOIN sys.columns c WITH (NOLOCK) ON c.object_id = o.object_id
WHERE o.is_ms_shipped = 0
"""
_COLUMNS = """
SELECT o.object_id, o.name, o.type, CONVERT(nvarchar(33), o.create_date, 126), c.name,
    COALESCE(b.name, u.name), c.max_length, c.precision, c.scale, c.is_nullable, c.is_identity,
    CASE WHEN c.is_computed = 1 OR c.generated_always_type <> 0 THEN 1 ELSE 0 END,
    d.definition, c.collation_name
FROM sys.objects o WITH (NOLOCK)
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = o.schema_id
JOIN sys.columns c WITH (NOLOCK) ON c.object_id = o.object_id
LEFT JOIN sys.types b WITH (NOLOCK) ON b.user_type_id = c.system_type_id
LEFT JOIN sys.types u WITH (NOLOCK) ON u.user_type_id = c.user_type_id
LEFT JOIN sys.default_constraints d WITH (NOLOCK) ON d.object_id = c.default_object_id
WHERE o.type IN ('U', 'V') AND o.is_ms_shipped = 0 AND c.is_hidden = 0 AND s.name = ?{one}
ORDER BY o.name, o.object_id, c.column_id
"""
COLUMNS = _COLUMNS.format(one="")
COLUMNS_OF_ONE = _COLUMNS.format(one=" AND LOWER(o.name) = LOWER(?)")
_NAMES = """
SELECT TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS
WHERE TABLE_SCHEMA = ?{one} ORDER BY TABLE_NAME, ORDINAL_POSITION
"""
NAMES = _NAMES.format(one="")
NAMES_OF_ONE = _NAMES.format(one=" AND LOWER(TABLE_NAME) = LOWER(?)")
# The index of a key has the key's name. The id in sys.key_constraints differs between servers.
_KEYS = """
SELECT o.object_id, x.name, CASE WHEN x.is_primary_key = 1 THEN 'PK' ELSE 'UQ' END, c.name
FROM sys.indexes x WITH (NOLOCK)
JOIN sys.objects o WITH (NOLOCK) ON o.object_id = x.object_id
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = o.schema_id
JOIN sys.index_columns i WITH (NOLOCK) ON i.object_id = x.object_id AND i.index_id = x.index_id
JOIN sys.columns c WITH (NOLOCK) ON c.object_id = x.object_id AND c.column_id = i.column_id
WHERE (x.is_primary_key = 1 OR x.is_unique_constraint = 1) AND i.key_ordinal > 0 AND s.name = ?{one}
ORDER BY o.object_id, x.index_id, i.key_ordinal
"""
KEYS = _KEYS.format(one="")
KEYS_OF_ONE = _KEYS.format(one=" AND LOWER(o.name) = LOWER(?)")
_CHECKS = """
SELECT o.object_id, k.definition
FROM sys.check_constraints k WITH (NOLOCK)
JOIN sys.objects o WITH (NOLOCK) ON o.object_id = k.parent_object_id
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = o.schema_id
WHERE k.is_disabled = 0 AND s.name = ?{one}
ORDER BY o.object_id, k.object_id
"""
CHECKS = _CHECKS.format(one="")
CHECKS_OF_ONE = _CHECKS.format(one=" AND LOWER(o.name) = LOWER(?)")
