"""T-SQL of loads and changes: staging tables, the ledger, and what publishes their rows."""

from collections.abc import Sequence

from jetbridge.dialects.tsql.statements import bracketed, path, text

NUMBER = "jetbridge_row"
ACTION = "jetbridge_action"
KEY = "jetbridge_key_"
TEMPORARY = "#jetbridge_rows"
_ANSWER = "#jetbridge_answer"
LEFTOVERS = """
SELECT s.name, t.name FROM sys.tables t WITH (NOLOCK)
JOIN sys.schemas s WITH (NOLOCK) ON s.schema_id = t.schema_id
WHERE t.name LIKE N'jetbridge[_]%' ORDER BY s.name, t.name
"""
Columns = Sequence[tuple[str, str]]
_TOGETHER = 1000
OPEN_TRANSACTIONS = "SELECT @@TRANCOUNT"


def _names(columns: Sequence[str], of: str = "") -> str:
    return ", ".join(f"{of}{bracketed(name)}" for name in columns)


def lock_run(run: str) -> str:
    """For as long as the connection lives; answers 0 or 1 if it was had."""
    return (
        "DECLARE @jetbridge int; "
        f"EXEC @jetbridge = sp_getapplock {text(run)}, N'Exclusive', N'Session', 0; "
        "SELECT @jetbridge"
    )


def unlock_run(run: str) -> str:
    return f"EXEC sp_releaseapplock {text(run)}, N'Session'"


def drop_if_exists(schema: str, name: str) -> str:
    place = path(schema, name)
    return f"IF OBJECT_ID({text(place)}, N'U') IS NOT NULL DROP TABLE {place}"


def find_table(schema: str, name: str) -> str:
    """A row if it is there."""
    return f"SELECT 1 WHERE OBJECT_ID({text(path(schema, name))}, N'U') IS NOT NULL"


def lock_first(schema: str, name: str) -> str:
    """A row if the table has any; nobody else puts one there before the transaction ends."""
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


def insert_head(table: str, columns: Sequence[str]) -> str:
    """What stands before the rows of VALUES."""
    return f"INSERT INTO {table} ({_names(columns)}) VALUES "


def sum_ledger(ledger: str) -> str:
    return f"SELECT COUNT_BIG(*), COALESCE(SUM([rows]), 0) FROM {ledger}"


def count_locked(table: str) -> str:
    """Waits for whoever still commits, and nobody adds a row before the transaction ends."""
    return f"SELECT COUNT_BIG(*) FROM {table} WITH (TABLOCKX, HOLDLOCK)"


def staging(name: str, columns: Columns) -> str:
    """`columns` are names and T-SQL types; texts compare as the database does."""
    made = ", ".join(f"{bracketed(column)} {_collated(kind)} NULL" for column, kind in columns)
    return f"CREATE TABLE {name} ({made})"


def _collated(kind: str) -> str:
    is_text = kind.startswith(("nvarchar", "varchar")) and "COLLATE" not in kind
    return f"{kind} COLLATE DATABASE_DEFAULT" if is_text else kind


def may_create(schema: str) -> str:
    """1 if the login may put a table into the schema."""
    right = f"HAS_PERMS_BY_NAME({text(bracketed(schema))}, N'SCHEMA', N'ALTER')"
    return f"SELECT {right} & HAS_PERMS_BY_NAME(QUOTENAME(DB_NAME()), N'DATABASE', N'CREATE TABLE')"


def code_page(collation: str) -> str:
    """Its number, and the name of the collation; without one that of the database."""
    default = "CONVERT(nvarchar(128), DATABASEPROPERTYEX(DB_NAME(), N'Collation'))"
    name = text(collation) if collation else default
    return f"SELECT CONVERT(int, COLLATIONPROPERTY({name}, N'CodePage')), {name}"


def drop_temporary(name: str) -> str:
    return f"DROP TABLE {name}"


def append(target: str, columns: Sequence[str], source: str) -> str:
    """All rows of a staging table."""
    names = _names(columns)
    return f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}"


def append_defaults(target: str, rows: int) -> list[str]:
    """Texts that the server can compile in time."""
    one = f"INSERT INTO {target} DEFAULT VALUES"
    return [";".join([one] * min(_TOGETHER, rows - at)) for at in range(0, rows, _TOGETHER)]


def identity_insert(target: str, *, on: bool) -> str:
    return f"SET IDENTITY_INSERT {target} {'ON' if on else 'OFF'}"


def append_answering(
    target: str, given: Sequence[str], source: str, answered: Sequence[tuple[str, str, bool]]
) -> list[str]:
    """Inserts rows, and answers them as they are stored, in the order of their numbers.

    `answered` are columns, T-SQL types, and whether to tell them as text. INSERT could not say
    which row became which; and OUTPUT without INTO is refused for a table with triggers.
    """
    names = [name for name, _, _ in answered]
    made = [(NUMBER, "bigint"), *((name, kind) for name, kind, _ in answered)]
    stored = ", ".join(
        f"CONVERT(nvarchar(max), inserted.{bracketed(name)})"
        if as_text
        else f"inserted.{bracketed(name)}"
        for name, _, as_text in answered
    )
    new = f"({_names(given)}) VALUES ({_names(given, 's.')})" if given else "DEFAULT VALUES"
    return [
        staging(_ANSWER, made),
        f"MERGE INTO {target} AS t USING {source} AS s ON 1 = 0 WHEN NOT MATCHED THEN INSERT {new} "
        f"OUTPUT s.{bracketed(NUMBER)}, {stored} INTO {_ANSWER} ({_names([NUMBER, *names])});",
        f"SELECT {_names(names)} FROM {_ANSWER} ORDER BY {bracketed(NUMBER)}",
        drop_temporary(_ANSWER),
    ]


def append_answering_in_order(
    target: str, given: Sequence[str], source: str, answered: Sequence[tuple[str, str, bool]]
) -> list[str]:
    """The same without MERGE, for Babelfish: it inserts rows, and outputs them, in their order.

    Its OUTPUT takes columns only, so the types are those of the target.
    """
    names = [name for name, _, _ in answered]
    made = ", ".join(f"{bracketed(name)} {_collated(kind)} NULL" for name, kind, _ in answered)
    told = ", ".join(
        AS_TEXT.format(bracketed(name)) if as_text else bracketed(name)
        for name, _, as_text in answered
    )
    new = f"({_names(given)}) " if given else ""
    rows = f"SELECT {_names(given)} FROM {source} ORDER BY {bracketed(NUMBER)}"
    return [
        f"CREATE TABLE {_ANSWER} ({bracketed(NUMBER)} bigint IDENTITY, {made})",
        f"INSERT INTO {target} {new}OUTPUT {_names(names, 'inserted.')} INTO {_ANSWER} "
        f"({_names(names)}) {rows if given else 'DEFAULT VALUES'}",
        f"SELECT {told} FROM {_ANSWER} ORDER BY {bracketed(NUMBER)}",
        drop_temporary(_ANSWER),
    ]


def key_name(index: int) -> str:
    return f"{KEY}{index}"


def _same_keys(keys: Columns) -> str:
    """Columns of the target, and the types that staged values have to be converted to, if any.

    Without the same type on both sides the server would look at every row.
    """
    return " AND ".join(
        f"t.{bracketed(name)} = {_as(kind, f's.{bracketed(key_name(index))}')}"
        for index, (name, kind) in enumerate(keys)
    )


def _as(kind: str, value: str) -> str:
    return f"CONVERT({kind}, {value})" if kind else value


# How a moment is written up to its sixth digit, which is all that is seen of it.
_SEEN = {
    "time": "LEFT(CONVERT(nvarchar(40), {}, 121), 15)",
    "datetime2": "LEFT(CONVERT(nvarchar(40), {}, 121), 26)",
    "datetimeoffset": "LEFT(CONVERT(nvarchar(40), SWITCHOFFSET({}, 0), 121), 26)",
}


def assigned(name: str, kind: str = "") -> str:
    """`c = new value`. With a kind: a moment that looks the same keeps its seventh digit."""
    old, new = f"t.{bracketed(name)}", f"s.{bracketed(name)}"
    seen = _SEEN.get(kind)
    if seen is None:
        return f"{old} = {new}"
    same = f"{seen.format(old)} = {seen.format(new)}"
    return f"{old} = CASE WHEN {same} THEN {old} ELSE {new} END"


def update(target: str, changes: Sequence[str], keys: Columns, source: str) -> str:
    """By the keys in a staging table; answers how many rows there were."""
    new = ", ".join(changes)
    return (
        f"UPDATE t SET {new} FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)}; "
        "SELECT @@ROWCOUNT"
    )


def delete(target: str, keys: Columns, source: str) -> str:
    return (
        f"DELETE t FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)}; SELECT @@ROWCOUNT"
    )


def select_by_keys(target: str, items: Sequence[str], keys: Columns, source: str) -> str:
    """The rows with these keys, in the order of their numbers."""
    wanted = ", ".join(items)
    return (
        f"SELECT {wanted} FROM {source} AS s JOIN {target} AS t ON {_same_keys(keys)} "
        f"ORDER BY s.{bracketed(NUMBER)}"
    )


def item_of(name: str, *, as_text: bool) -> str:
    """A column of the target, by itself or as a text."""
    column = f"t.{bracketed(name)}"
    return f"CONVERT(nvarchar(max), {column}) AS {bracketed(name)}" if as_text else column


def changed_fixed(target: str, columns: Columns, keys: Columns, source: str) -> str:
    """A row if a value differs that is not assigned: columns, and how they are compared."""
    differ = " OR ".join(
        _differ(compared.format(f"t.{bracketed(name)}"), compared.format(f"s.{bracketed(name)}"))
        for name, compared in columns
    )
    return (
        f"SELECT TOP 1 1 FROM {source} AS s JOIN {target} AS t ON {_same_keys(keys)} WHERE {differ}"
    )


def _differ(one: str, other: str) -> str:
    """Also when one of them is NULL."""
    return (
        f"({one} <> {other} OR ({one} IS NULL AND {other} IS NOT NULL) "
        f"OR ({one} IS NOT NULL AND {other} IS NULL))"
    )


AS_IT_IS = "{}"
AS_TEXT = "CONVERT(nvarchar(max), {})"
# To the letter, where a collation would see no difference of case or blanks.
BY_BYTES = f"CONVERT(varbinary(max), {AS_TEXT})"


def keep_last(keys: int, source: str) -> str:
    """Of several rows with one key in a staging table."""
    names = [bracketed(key_name(index)) for index in range(keys)]
    same = " AND ".join(f"o.{name} = s.{name}" for name in names)
    number = bracketed(NUMBER)
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
    """One MERGE for all that a staging table says; answers how many rows it touched."""
    action = f"s.{bracketed(ACTION)}"
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


def merge_apart(
    target: str,
    keys: Columns,
    changes: Sequence[str],
    inserted: Sequence[str],
    source: str,
) -> list[str]:
    """The same without MERGE, for Babelfish; each statement answers how many rows it touched."""
    action = f"s.{bracketed(ACTION)}"
    joined = f"FROM {target} AS t JOIN {source} AS s ON {_same_keys(keys)} WHERE {action} ="
    new = ", ".join(changes)
    rows = f"SELECT {_names(inserted, 's.')} FROM {source} AS s WHERE {action} = N'INSERT'"
    found = [f"DELETE t {joined} N'DELETE'"]
    found += [f"UPDATE t SET {new} {joined} N'UPDATE'"] if new else []
    found += [f"INSERT INTO {target} ({_names(inserted)}) {rows}"] if inserted else []
    return [f"{each}; SELECT @@ROWCOUNT" for each in found]
