"""Text into statements: DuckDB checks its grammar, the first words say what is meant."""

import re
from collections.abc import Callable

from jetbridge.catalog import OnConflict
from jetbridge.duckdb_engine.statements import (
    REWRITTEN,
    check_list_text,
    check_query_text,
    check_with_text,
    kind_of_statement,
)
from jetbridge.errors import BadRequest, NotSupported
from jetbridge.pipeline.parsing.alter import read_alter_action
from jetbridge.pipeline.parsing.attach import (
    attach,
    create_secret,
    detach,
    drop_secret,
    is_create_secret,
)
from jetbridge.pipeline.parsing.dml import read_merge, read_update_or_delete
from jetbridge.pipeline.parsing.statements import (
    AlterTable,
    CreateSchema,
    CreateTable,
    CreateTableAs,
    Describe,
    Drop,
    Explain,
    Insert,
    Load,
    ObjectName,
    Query,
    SetValue,
    Show,
    Statement,
    TransactionCommand,
    TransactionStatement,
    Use,
    ValuesList,
)
from jetbridge.pipeline.parsing.tokens import SPARK, TokenCursor, split_text
from jetbridge.pipeline.secrets import HIDDEN, may_tell

# What these extensions of DuckDB do is done here without them.
_BUILT_IN = ("mssql", "airport")
_SHOWN = {"TABLES": "tables", "SCHEMAS": "schemas", "DATABASES": "databases"}
_BOUNDARIES = {
    "BEGIN": TransactionCommand.BEGIN,
    "START": TransactionCommand.BEGIN,
    "COMMIT": TransactionCommand.COMMIT,
    "END": TransactionCommand.COMMIT,
    "ROLLBACK": TransactionCommand.ROLLBACK,
    "ABORT": TransactionCommand.ROLLBACK,
}
_OTHER_WAYS = {
    "COPY": "COPY is not supported: use INSERT INTO ... SELECT * FROM read_parquet(...)",
    "VIEW": "views are not supported: use CREATE TABLE ... AS SELECT, or WITH in the query",
    "SEQUENCE": "sequences are not supported: use row_number() in a query",
    "INDEX": "indexes are not supported: use ALTER TABLE ... SET SORTED BY on the lake",
    "MACRO": "macros are not supported: write the expression out",
    "FUNCTION": "functions are not supported: write the expression out",
    "TYPE": "types of your own are not supported: write ENUM (...) at the column",
    "TEMP": "temporary tables are not supported: use WITH in the query",
    "TEMPORARY": "temporary tables are not supported: use WITH in the query",
    "PIVOT": "PIVOT without a list of values is not supported: write FROM (PIVOT t ON b IN (...))",
    "COMMENT": "COMMENT ON is not supported",
    "LOAD": "extensions cannot be loaded",
    "PRAGMA": "PRAGMA is not supported: use SET name = value",
    "CALL": "CALL is not supported: use SELECT",
    "PREPARE": "prepared statements are not supported: write the values out",
    "EXECUTE": "prepared statements are not supported: write the values out",
    "VACUUM": "VACUUM is not supported: use jetbridge optimize",
    "ANALYZE": "ANALYZE is not supported: the lake keeps its statistics by itself",
    "EXPORT": "EXPORT is not supported: read the tables with SELECT",
    "IMPORT": "IMPORT is not supported: use INSERT INTO ... SELECT * FROM read_parquet(...)",
}


def parse(text: str, dialect: str = "duckdb") -> list[Statement]:
    """Raises BadRequest for what is no SQL, NotSupported with another way for what is not done.

    With the dialect of Spark a query is whatever Spark makes of it: only the words before it are
    read here.
    """
    if dialect == SPARK:
        return [_in_spark_sql(each) for each in split_text(text, dialect)]
    return [_statement(each) for each in split_text(text)]


def _in_spark_sql(text: str) -> Statement:
    words = TokenCursor(text, SPARK)
    first = words.peek()
    if first in ("SELECT", "WITH", "FROM", "VALUES", "("):
        return Query(text)
    if first == "CREATE" and words.finds("AS"):
        return _create(words)
    if first == "INSERT":
        return _insert(words)
    if first == "EXPLAIN":
        words.expect("EXPLAIN")
        return _explained(_in_spark_sql(words.rest()))
    (statement,) = parse(text)
    return statement


def _statement(text: str) -> Statement:
    words = TokenCursor(text)
    kind, first = _kind(text), words.peek()
    if kind == REWRITTEN and first == "ALTER":  # of a column with a default DuckDB makes several
        kind = first
    read = _READERS.get(kind)
    if read is None:
        raise _not_supported(text)
    return read(words)


def _kind(text: str) -> str:
    try:
        return kind_of_statement(text)
    except BadRequest:
        if may_tell(text):  # DuckDB quotes the line
            raise BadRequest(HIDDEN) from None
        raise


def _not_supported(text: str) -> NotSupported:
    words = TokenCursor(text)
    first = words.peek()
    while words:
        found = _OTHER_WAYS.get(words.peek())
        if found:
            return NotSupported(found)
        if not words.take(words.peek()):
            break
    return NotSupported(f"{first or 'this statement'} is not supported")


def _rows(words: TokenCursor) -> Statement:
    if words.take("DESCRIBE") or words.take("DESC"):
        return _describe(words)
    if words.take("SHOW"):
        if words.take("ALL", "TABLES"):
            return Show("all tables")
        known = _SHOWN.get(words.peek()) or words.peek().lower()
        words.identifier()
        words.end()
        return Show(known)
    if words.peek() in ("", "PRAGMA", "CALL"):
        raise _not_supported(words.text)
    if words.peek() == "SUMMARIZE":
        return Query(f"FROM ({words.text})")
    return Query(words.text)


def _describe(words: TokenCursor) -> Statement:
    if words.peek() in ("SELECT", "FROM", "WITH", "VALUES", "(", "PIVOT"):
        return Describe(words.rest())
    name = words.name()
    words.end()
    return Describe(name)


def _explain(words: TokenCursor) -> Statement:
    words.expect("EXPLAIN")
    if words.take("ANALYZE"):
        raise NotSupported(
            "EXPLAIN ANALYZE is not supported: every statement reports what it took; use EXPLAIN"
        )
    (inner,) = parse(words.rest())
    return _explained(inner)


def _explained(inner: Statement) -> Explain:
    if not isinstance(inner, Query | CreateTableAs | Insert):
        raise NotSupported(
            "EXPLAIN takes a query, CREATE TABLE AS or INSERT; other statements are not planned"
        )
    return Explain(inner)


def _create(words: TokenCursor) -> Statement:
    text = words.text
    if words.peek() != "CREATE":
        raise _not_supported(text)
    words.expect("CREATE")
    conflict = OnConflict.REPLACE if words.take("OR", "REPLACE") else OnConflict.ERROR
    if is_create_secret(words):
        return create_secret(words, conflict)
    if words.take("SCHEMA"):
        if conflict is OnConflict.REPLACE:
            raise NotSupported("CREATE OR REPLACE SCHEMA is not supported: use DROP SCHEMA first")
        return CreateSchema(*_named(words, conflict))
    if not words.take("TABLE"):
        raise _not_supported(text)
    target, conflict = _named(words, conflict)
    if words.take("AS"):
        return CreateTableAs(target, _query(words), conflict)
    columns = _only_names(words)
    if columns:
        return CreateTableAs(target, _query(words), conflict, columns)
    return CreateTable(target, _declared(words), conflict)


def _declared(words: TokenCursor) -> str:
    """Columns in brackets, and nothing else: what follows would be run with them."""
    columns = words.rest()
    if words.finds("REFERENCES"):  # a reserved word
        raise NotSupported("foreign keys are not supported")
    if not words.take("("):
        raise NotSupported(f"CREATE TABLE ... {words.peek()} is not supported: list the columns")
    words.inside()
    words.end()
    return columns


def _named(words: TokenCursor, conflict: OnConflict) -> tuple[ObjectName, OnConflict]:
    if words.take("IF", "NOT", "EXISTS"):
        conflict = OnConflict.IGNORE
    return words.name(), conflict


def _only_names(words: TokenCursor) -> tuple[str, ...]:
    """`(a, b) AS`: names for the columns of a query; () where columns are declared."""
    ahead = TokenCursor(words.rest())
    try:
        names = ahead.names_in_brackets()
    except BadRequest:
        return ()
    if not ahead.take("AS"):
        return ()
    words.names_in_brackets()
    words.expect("AS")
    return names


def _query(words: TokenCursor) -> str:
    """Without WITH [NO] DATA, which sets what is copied."""
    text = words.rest()
    upper = " ".join(text.upper().split())
    if upper.endswith("WITH NO DATA"):
        raise NotSupported("WITH NO DATA is not supported: add LIMIT 0 to the query")
    return re.sub(r"(?i)\s+WITH\s+DATA$", "", text)


def _insert(words: TokenCursor) -> Statement:
    before = check_with_text(words.until("INSERT")) if words.peek() == "WITH" else ""
    words.expect("INSERT")
    if words.take("OR"):
        raise NotSupported(
            f"INSERT OR {words.peek()} is not supported: use MERGE INTO for rows that may be there"
        )
    words.expect("INTO")
    target = words.name()
    columns = words.names_in_brackets() if _is_column_list(words) else ()
    by_name = words.take("BY", "NAME")
    if not by_name:
        words.take("BY", "POSITION")
    if words.take("DEFAULT", "VALUES"):
        raise NotSupported("DEFAULT VALUES is not supported: name a column and its value")
    if words.finds("ON", "CONFLICT", "(") or words.finds("ON", "CONFLICT", "DO"):
        raise NotSupported("ON CONFLICT is not supported: use MERGE INTO")
    query = words.until("RETURNING")
    values = None if before else _values(query, words.dialect)
    query = f"{before} FROM ({check_query_text(query)})" if before else query
    returning = check_list_text(words.rest()) if words.take("RETURNING") else ""
    return Insert(target, query, columns, by_name, returning, values)


def _values(query: str, dialect: str) -> ValuesList | None:
    """VALUES with DEFAULT among them: only the table knows its defaults."""
    words = TokenCursor(query, dialect)
    if not words.take("VALUES") or not words.finds("DEFAULT"):
        return None
    rows: list[tuple[str, ...]] = []
    while not rows or words.take(","):
        rows.append(tuple(words.texts_in_brackets()))
    return ValuesList(tuple(rows), words.rest())


def _is_column_list(words: TokenCursor) -> bool:
    """A query in brackets begins with a bracket, too."""
    ahead = TokenCursor(words.rest())
    return ahead.take("(") and ahead.peek() not in ("SELECT", "WITH", "VALUES", "FROM", "(")


def _drop(words: TokenCursor) -> Statement:
    text = words.text
    words.expect("DROP")
    if words.take("SECRET"):
        return drop_secret(words)
    kind = words.peek().lower()
    if kind not in ("schema", "table"):
        raise _not_supported(text)
    words.take(kind.upper())
    if_exists = words.take("IF", "EXISTS")
    name = words.name()
    cascade = words.take("CASCADE")
    words.take("RESTRICT")
    words.end()
    return Drop(kind, name, if_exists, cascade)


def _alter(words: TokenCursor) -> Statement:
    text = words.text
    if words.peek() != "ALTER":
        raise _not_supported(text)
    words.expect("ALTER")
    if not words.take("TABLE"):
        raise _not_supported(text)
    if_exists = words.take("IF", "EXISTS")
    return AlterTable(words.name(), read_alter_action(words), if_exists)


def _transaction(words: TokenCursor) -> Statement:
    return TransactionStatement(_BOUNDARIES[words.peek()])


def _set(words: TokenCursor) -> Statement:
    if words.take("USE"):
        return Use(words.name())
    reset = words.take("RESET")
    if not reset:
        words.expect("SET")
    for scope in ("GLOBAL", "SESSION", "LOCAL"):
        words.take(scope)
    name = words.identifier()
    if reset:
        words.end()
        return SetValue(name, None)
    if not words.take("="):
        words.expect("TO")
    return SetValue(name, _value(words))


def _load(words: TokenCursor) -> Statement:
    text = words.text
    words.take("FORCE")
    verb = words.identifier().upper()
    name = words.string() if words.is_string() else words.identifier()
    if name.lower() not in _BUILT_IN:
        raise _not_supported(text)
    return Load(verb, name.lower())


def _value(words: TokenCursor) -> str:
    text = words.rest().strip()
    try:
        value = words.string()
    except BadRequest:
        return text
    words.end()
    return value


_READERS: dict[str, Callable[[TokenCursor], Statement]] = {
    "SELECT": _rows,
    "EXPLAIN": _explain,
    "CREATE": _create,
    "INSERT": _insert,
    "UPDATE": read_update_or_delete,
    "DELETE": read_update_or_delete,
    "MERGE_INTO": read_merge,
    "DROP": _drop,
    "ALTER": _alter,
    "TRANSACTION": _transaction,
    "SET": _set,
    "LOAD": _load,
    "ATTACH": attach,
    "DETACH": detach,
}
