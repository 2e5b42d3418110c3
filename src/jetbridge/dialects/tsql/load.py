"""Renders T-SQL of loads and changes: staging tables, the ledger, and how rows are published."""

from collections.abc import Sequence

from jetbridge.dialects.tsql.statements import bracket, path, text

NUMBER = "jetbridge_row"
ACTION = "jetbridge_action"
KEY = "jetbridge_key_"
TEMPORARY = "#jetbridge_rows"
_RETURNED = "#jetbridge_answer"
LEFTOVERS = """
SELECT s.name, t.name FROM sys.tables t WITH (NOLOCK)
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = t.schema_id
WHERE t.name LIKE N'jetbridge[_]%' ORDER BY s.name, t.name
"""
Columns = Sequence[tuple[str, str]]
_TOGETHER = 1000
OPEN_TRANSACTIONS = "SELECT @@TRANCOUNT"


def _names(columns: Sequence[str], of: str = "") -> str:
    return ", ".join(f"{of}{bracket(name)}" for name in columns)


def lock_run(run: str) -> str:
    """Return a query that locks the name of a load and answers 0 or 1 if it got the lock.

    The lock lasts as long as the connection.
    """
    return (
        "DECLARE @jetbridge int; "
        f"EXEC @jetbridge = sp_getapplock {text(run)}, N'Exclusive', N'Session', 0; "
        "SELECT @jetbridge"
    )


def unlock_run(run: str) -> str:
    return f"EXEC sp_releaseapplock {text(run)}, N'Session'"


def drop_if_exists(schema: str, name: str) -> str:
    table = path(schema, name)
    return f"IF OBJECT_ID({text(table)}, N'U') IS NOT NULL DROP TABLE {table}"


def find_table(schema: str, name: str) -> str:
    """Return a query with one row if the table exists."""
    return f"SELECT 1 WHERE OBJECT_ID({text(path(schema, name))}, N'U') IS NOT NULL"


def lock_first(schema: str, name: str) -> str:
    """Return a query that locks the table until the transaction ends; one row if it is not
    empty.
    """
    return f"SELECT TOP 1 1 FROM {path(schema, name)} WITH (TABLOCKX, HOLDLOCK)"


def create_ledger(schema: str, name: str) -> str:
    return (
        f"CREATE TABLE {path(schema, name)} "
        "([part] int NOT NULL PRIMARY KEY, [rows] bigint NOT NULL)"
    )


def note_part(ledger: str, part: int, rows: int) -> str:
    return f"INSERT INTO {ledger} ([part], [rows]) VALUES ({part}, {rows})"


def find_part(ledger: str, part: int) -> str:
    return f"SELECT [rows] FROM {ledger} WHERE [part] = {part}"


def begin_insert(table: str, columns: Sequence[str]) -> str:
    """Return the INSERT up to the rows of VALUES."""
    return f"INSERT INTO {table} ({_names(columns)}) VALUES "


def sum_ledger(ledger: str) -> str:
    return f"SELECT COUNT_BIG(*), COALESCE(SUM([rows]), 0) FROM {ledger}"


def lock_and_count(table: str) -> str:
    """Return a query that waits for open commits, locks the table and counts its rows.

    No other session can add a row before the transaction ends.
    """
    return f"SELECT COUNT_BIG(*) FROM {table} WITH (TABLOCKX, HOLDLOCK)"


def create_staging(name: str, columns: Columns) -> str:
    """Create a staging table. `columns` are names and T-SQL types.

    Strings compare by the collation of the database.
    """
    definitions = ", ".join(
        f"{bracket(column)} {_with_collation(sql_type)} NULL" for column, sql_type in columns
    )
    return f"CREATE TABLE {name} ({definitions})"


def _with_collation(sql_type: str) -> str:
    is_text = sql_type.startswith(("nvarchar", "varchar")) and "COLLATE" not in sql_type
    return f"{sql_type} COLLATE DATABASE_DEFAULT" if is_text else sql_type


def check_create_right(schema: str) -> str:
    """Return a query that answers 1 if the login may create a table in the schema."""
    right = f"HAS_PERMS_BY_NAME({text(bracket(schema))}, N'SCHEMA', N'ALTER')"
    return f"SELECT {right} & HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'CREATE TABLE')"


def select_code_page(collation: str) -> str:
    """Return a query for the code page of a collation, and its name; '' is the database's own."""
    default = "CONVERT(nvarchar(128), DATABASEPROPERTYEX(DB_NAME(), N'Collation'))"
    name = text(collation) if collation else default
    return f"SELECT CONVERT(int, COLLATIONPROPERTY({name}, N'CodePage')), {name}"


def drop_temporary(name: str) -> str:
    return f"DROP TABLE {name}"


def append(target: str, columns: Sequence[str], source: str) -> str:
    """Insert all rows of a staging table."""
    names = _names(columns)
    return f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}"


def append_defaults(target: str, rows: int) -> list[str]:
    """Insert rows of defaults, in batches that SQL Server compiles in reasonable time."""
    one = f"INSERT INTO {target} DEFAULT VALUES"
    return [";".join([one] * min(_TOGETHER, rows - at)) for at in range(0, rows, _TOGETHER)]


def identity_insert(target: str, *, on: bool) -> str:
    return f"SET IDENTITY_INSERT {target} {'ON' if on else 'OFF'}"


def append_returning(
    target: str, inserted: Sequence[str], source: str, returned: Sequence[tuple[str, str, bool]]
) -> list[str]:
    """Insert rows and return them as they are stored, in the order of their numbers.

    `returned` has columns, T-SQL types, and whether to return each as a string. INSERT cannot say
    which row became which, and a table with triggers does not support OUTPUT without INTO.
    """
    names = [name for name, _, _ in returned]
    definitions = [(NUMBER, "bigint"), *((name, sql_type) for name, sql_type, _ in returned)]
    stored = ", ".join(
        f"CONVERT(nvarchar(max), inserted.{bracket(name)})"
        if as_text
        else f"inserted.{bracket(name)}"
        for name, _, as_text in returned
    )
    new = (
        f"({_names(inserted)}) VALUES ({_names(inserted, 's.')})" if inserted else "DEFAULT VALUES"
    )
    return [
        create_staging(_RETURNED, definitions),
        f"MERGE INTO {target} AS t USING {source} AS s ON 1 = 0 WHEN NOT MATCHED THEN INSERT {new} "
        f"OUTPUT s.{bracket(NUMBER)}, {stored} INTO {_RETURNED} ({_names([NUMBER, *names])});",
        f"SELECT {_names(names)} FROM {_RETURNED} ORDER BY {bracket(NUMBER)}",
        drop_temporary(_RETURNED),
    ]


def append_returning_in_order(
    target: str, inserted: Sequence[str], source: str, returned: Sequence[tuple[str, str, bool]]
) -> list[str]:
    """Insert and return rows without MERGE, for Babelfish, which keeps their order.

    Its OUTPUT supports columns only, so the types are those of the target.
    """
    names = [name for name, _, _ in returned]
    definitions = ", ".join(
        f"{bracket(name)} {_with_collation(sql_type)} NULL" for name, sql_type, _ in returned
    )
    items_sql = ", ".join(
        AS_TEXT.format(bracket(name)) if as_text else bracket(name) for name, _, as_text in returned
    )
    new = f"({_names(inserted)}) " if inserted else ""
    rows = f"SELECT {_names(inserted)} FROM {source} ORDER BY {bracket(NUMBER)}"
    return [
        f"CREATE TABLE {_RETURNED} ({bracket(NUMBER)} bigint IDENTITY, {definitions})",
        f"INSERT INTO {target} {new}OUTPUT {_names(names, 'inserted.')} INTO {_RETURNED} "
        f"({_names(names)}) {rows if inserted else 'DEFAULT VALUES'}",
        f"SELECT {items_sql} FROM {_RETURNED} ORDER BY {bracket(NUMBER)}",
        drop_temporary(_RETURNED),
    ]


def key_name(index: int) -> str:
    return f"{KEY}{index}"


def _same_keys(keys: Columns) -> str:
    """Compare the keys of both tables. `keys` are columns of the target and, if needed, types.

    Staged values are converted to these types, because SQL Server scans the whole table if the
    types differ.
    """
    return " AND ".join(
        f"t.{bracket(name)} = {_as(sql_type, f's.{bracket(key_name(index))}')}"
        for index, (name, sql_type) in enumerate(keys)
    )


def _as(sql_type: str, value: str) -> str:
    return f"CONVERT({sql_type}, {value})" if sql_type else value


# A time as a string of six digits after the second, which is what DuckDB stores.
_MICROSECONDS = {
    "time": "LEFT(CONVERT(nvarchar(40), {}, 121), 15)",
    "datetime2": "LEFT(CONVERT(nvarchar(40), {}, 121), 26)",
    "datetimeoffset": "LEFT(CONVERT(nvarchar(40), SWITCHOFFSET({}, 0), 121), 26)",
}


def assign(name: str, sql_type: str = "") -> str:
    """Return `column = new value`.

    With a type, a time that is equal in microseconds keeps its seventh digit.
    """
    old, new = f"t.{bracket(name)}", f"s.{bracket(name)}"
    in_microseconds = _MICROSECONDS.get(sql_type)
    if in_microseconds is None:
        return f"{old} = {new}"
    same = f"{in_microseconds.format(old)} = {in_microseconds.format(new)}"
    return f"{old} = CASE WHEN {same} THEN {old} ELSE {new} END"


def update(target: str, changes: Sequence[str], keys: Columns, source: str) -> str:
    """Update rows by the keys in a staging table, and return how many."""
    new = ", ".join(changes)
    return (
        f"UPDATE t SET {new} FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)}; "
        "SELECT @@ROWCOUNT"
    )


def delete(target: str, keys: Columns, source: str) -> str:
    """Delete rows by the keys in a staging table, and return how many."""
    return (
        f"DELETE t FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)}; SELECT @@ROWCOUNT"
    )


def select_by_keys(target: str, items: Sequence[str], keys: Columns, source: str) -> str:
    """Return the rows with these keys, in the order of their numbers."""
    listed = ", ".join(items)
    return (
        f"SELECT {listed} FROM {source} AS s JOIN {target} AS t ON {_same_keys(keys)} "
        f"ORDER BY s.{bracket(NUMBER)}"
    )


def select_item(name: str, *, as_text: bool) -> str:
    """Return a column of the target, as it is or as a string."""
    column = f"t.{bracket(name)}"
    return f"CONVERT(nvarchar(max), {column}) AS {bracket(name)}" if as_text else column


def find_changed_value(target: str, columns: Columns, keys: Columns, source: str) -> str:
    """Return a row if a value differs in a column that is not assigned.

    `columns` are names, and the expressions by which they are compared.
    """
    differ = " OR ".join(
        _differ(compared.format(f"t.{bracket(name)}"), compared.format(f"s.{bracket(name)}"))
        for name, compared in columns
    )
    return (
        f"SELECT TOP 1 1 FROM {source} AS s JOIN {target} AS t ON {_same_keys(keys)} WHERE {differ}"
    )


def _differ(one: str, other: str) -> str:
    """Return a condition that is true if two values differ; NULL differs from other values."""
    return (
        f"({one} <> {other} OR ({one} IS NULL AND {other} IS NOT NULL) "
        f"OR ({one} IS NOT NULL AND {other} IS NULL))"
    )


AS_IT_IS = "{}"
AS_TEXT = "CONVERT(nvarchar(max), {})"
# Compares every byte, where a collation ignores case or trailing blanks.
BY_BYTES = f"CONVERT(varbinary(max), {AS_TEXT})"


def keep_last(keys: int, source: str) -> str:
    """Keep the last of several rows with the same key in a staging table."""
    names = [bracket(key_name(index)) for index in range(keys)]
    same = " AND ".join(f"o.{name} = s.{name}" for name in names)
    number = bracket(NUMBER)
    return (
        f"DELETE s FROM {source} AS s WHERE EXISTS "
        f"(SELECT 1 FROM {source} AS o WHERE {same} AND o.{number} > s.{number})"
    )


def merge(
    target: str,
    keys: Columns,
    changes: Sequence[str],
    inserted: Sequence[str],
    source: str,
) -> str:
    """Apply all actions of a staging table in one MERGE, and return how many rows it changed."""
    action = f"s.{bracket(ACTION)}"
    new = ", ".join(changes)
    listed = f"({_names(inserted)}) VALUES ({_names(inserted, 's.')})"
    new_row = listed if inserted else "DEFAULT VALUES"
    updates = f"WHEN MATCHED AND {action} = N'UPDATE' THEN UPDATE SET {new} " if new else ""
    return (
        f"MERGE INTO {target} AS t USING {source} AS s ON {_same_keys(keys)} "
        f"{updates}WHEN MATCHED AND {action} = N'DELETE' THEN DELETE "
        f"WHEN NOT MATCHED BY TARGET AND {action} = N'INSERT' THEN INSERT {new_row}; "
        "SELECT @@ROWCOUNT"
    )


def merge_in_parts(
    target: str,
    keys: Columns,
    changes: Sequence[str],
    inserted: Sequence[str],
    source: str,
) -> list[str]:
    """Apply the actions without MERGE, for Babelfish; each statement returns its number of rows."""
    action = f"s.{bracket(ACTION)}"
    joined = f"FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)} WHERE {action} ="
    new = ", ".join(changes)
    rows = f"SELECT {_names(inserted, 's.')} FROM {source} AS s WHERE {action} = N'INSERT'"
    statements = [f"DELETE t {joined} N'DELETE'"]
    statements += [f"UPDATE t SET {new} {joined} N'UPDATE'"] if new else []
    statements += [f"INSERT INTO {target} ({_names(inserted)}) {rows}"] if inserted else []
    return [f"{statement}; SELECT @@ROWCOUNT" for statement in statements]
