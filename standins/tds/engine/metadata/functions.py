"""Functions about the server, the session and its objects."""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from standins.tds.collation import page_of
from standins.tds.engine.errors import error, quoted, unknown
from standins.tds.engine.expressions.compiler import Expressions
from standins.tds.engine.expressions.expr import NULL, Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.metadata.system_views import VIEWS
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.storage.catalog import DEFAULT_COLLATION, Table
from standins.tds.engine.types import BIGINT, INT, KINDS, SYSNAME, max_length, precision, scale
from standins.tds.values import SqlError, SqlType

Function = Callable[[Any, list[exp.Expr], Scope], Expr]
VERSION = "16.0.4085.2"
BANNER = (
    f"Microsoft SQL Server 2022 (RTM) - {VERSION} (X64) \n\tstand-in for tests\n"
    "\tDeveloper Edition (64-bit) on Linux"
)
SERVER = "standin"
NUMERIC38 = SqlType("numeric", precision=38, scale=0)
PROPERTIES: dict[str, Any] = {
    "productversion": VERSION, "productlevel": "RTM", "productmajorversion": "16",
    "productminorversion": "0", "edition": "Developer Edition (64-bit)", "engineedition": "3",
    "servername": SERVER, "machinename": SERVER, "instancename": None,
    "collation": DEFAULT_COLLATION, "isclustered": "0", "isintegratedsecurityonly": "0",
    "ishadrenabled": "0", "isfulltextinstalled": "0", "isxtpsupported": "0",
}  # fmt: skip


def text(value: str | None, sql_type: SqlType = SYSNAME) -> Expr:
    if value is None:
        return Expr("CAST(NULL AS VARCHAR)", sql_type, constant=True)
    return Expr(quoted(value), sql_type, constant=True, literal=value)


def number(value: int | None, sql_type: SqlType = INT) -> Expr:
    storage = {"int": "INTEGER", "bigint": "BIGINT"}.get(sql_type.name, "DECIMAL(38,0)")
    return Expr(f"CAST({'NULL' if value is None else value} AS {storage})", sql_type, constant=True)


def system_variable(session: Any, name: str) -> Expr:
    made = VARIABLES.get(name)
    if made is None:
        raise unknown(f"@@{name}")
    return made(session)


VARIABLES: dict[str, Callable[[Any], Expr]] = {
    "VERSION": lambda session: text(BANNER, SqlType("nvarchar", 300)),
    "TRANCOUNT": lambda session: number(session.open.count if session.open else 0),
    "ROWCOUNT": lambda session: number(session.state.rowcount),
    "ERROR": lambda session: number(session.state.error),
    "SPID": lambda session: Expr(f"CAST({session.spid} AS SMALLINT)", SqlType("smallint"), False),
    "IDENTITY": lambda session: number(session.state.identity, NUMERIC38),
    "SERVERNAME": lambda session: text(SERVER),
    "SERVICENAME": lambda session: text("MSSQLSERVER"),
    "LANGUAGE": lambda session: text("us_english"),
    "LOCK_TIMEOUT": lambda session: number(session.settings.lock_timeout),
    "MAX_PRECISION": lambda session: number(38),
    "OPTIONS": lambda session: number(5496),
    "DATEFIRST": lambda session: number(7),
    "TEXTSIZE": lambda session: number(2147483647),
    "NESTLEVEL": lambda session: number(0),
    "FETCH_STATUS": lambda session: number(0),
    "MICROSOFTVERSION": lambda session: number(268439553),
}


def _given(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> list[Any]:
    """The values of arguments that have to be constant."""
    found = []
    for node in nodes:
        made = compiler.value(node, scope)
        if not made.constant:
            raise unknown(f"a function of the catalog over a column: {node.sql(dialect='tsql')}")
        found.append(compiler.evaluate(made))
    return found


def split_name(name: str) -> tuple[str, ...] | None:
    try:
        tokens = Tokens(name)
        parts = tokens.dotted()
    except SqlError:
        return None
    return parts if tokens.done else None


def find(session: Any, name: Any) -> Table | None:
    parts = split_name(str(name)) if name is not None else None
    if parts is None:
        return None
    found: Table | None = session.names.find(parts, session.here)
    return found


def _object_id(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    name, *rest = _given(compiler, nodes, scope)
    session = compiler.around
    kind = str(rest[0]).strip().upper() if rest else ""
    parts = split_name(str(name)) if name is not None else None
    if parts and session.system_rows(parts) is not None:
        return number(-1 - list(VIEWS).index(".".join(parts[-2:]).lower()))
    found = find(session, name)
    if found is None:
        return number(_constraint_id(session, parts, kind))
    if kind and kind not in (("V",) if found.is_view else ("U",)):
        return number(None)
    return number(found.object_id)


def _constraint_id(session: Any, parts: tuple[str, ...] | None, kind: str) -> int | None:
    if parts is None or kind == "U":
        return None
    wanted = parts[-1].lower()
    for table in session.tables():
        named = [*table.keys, *table.checks, *table.foreign]
        named += [each.default for each in table.columns if each.default]
        for each in named:
            if each.name.lower() == wanted and getattr(each, "kind", "") != "IX":
                return int(each.object_id)
    return None


def _looked_up(pairs: dict[Any, str], key: Expr) -> Expr:
    """A name by its number, over a column too."""
    listed = ", ".join(f"{each}: {quoted(name)}" for each, name in pairs.items())
    sql = f"map {{{listed}}}[{key.sql}]" if pairs else "CAST(NULL AS VARCHAR)"
    return Expr(sql, SYSNAME, constant=key.constant)


def _schema_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    if not nodes:
        return text("dbo")
    database = compiler.around.names.database(compiler.around.database)
    pairs = {value: key for key, value in database.schemas.items()}
    return _looked_up(pairs, compiler.value(nodes[0], scope))


def _schema_id(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    database = compiler.around.names.database(compiler.around.database)
    if not nodes:
        return number(1)
    name = database.schema(str(_given(compiler, nodes, scope)[0]))
    return number(database.schemas[name] if name else None)


def _object_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    pairs = {}
    for table in compiler.around.tables():
        pairs[table.object_id] = table.name
        pairs.update({each.object_id: each.name for each in table.keys if each.kind != "IX"})
    return _looked_up(pairs, compiler.value(nodes[0], scope))


def _object_schema_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    pairs = {table.object_id: table.schema for table in compiler.around.tables()}
    return _looked_up(pairs, compiler.value(nodes[0], scope))


def _type_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    pairs = {each.type_id: name for name, each in KINDS.items() if each.type_id}
    return _looked_up({**pairs, 256: "sysname"}, compiler.value(nodes[0], scope))


def _db_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    if not nodes:
        return text(compiler.around.database)
    databases = compiler.around.core.catalog.databases.values()
    pairs = {each.database_id: each.name for each in databases}
    return _looked_up(pairs, compiler.value(nodes[0], scope))


def _db_id(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    name = _given(compiler, nodes, scope)[0] if nodes else compiler.around.database
    found = compiler.around.core.catalog.databases.get(str(name).lower())
    return number(found.database_id if found else None)


def _col_length(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    table_name, column_name = _given(compiler, nodes, scope)
    table = find(compiler.around, table_name)
    column = table.column(str(column_name)) if table else None
    return number(max_length(column.type) if column else None)


def _col_name(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    object_id, place = _given(compiler, nodes, scope)
    table = compiler.around.table_by_id(object_id)
    found = [each.name for each in table.columns if each.column_id == place] if table else []
    return text(found[0] if found else None)


COLUMN_PROPERTIES: dict[str, Callable[[Any], int]] = {
    "isidentity": lambda column: int(column.identity is not None),
    "allowsnull": lambda column: int(column.nullable),
    "iscomputed": lambda column: 0,
    "precision": lambda column: precision(column.type),
    "scale": lambda column: scale(column.type),
    "columnid": lambda column: int(column.column_id),
    "ordinal": lambda column: int(column.column_id),
    "charmaxlen": lambda column: max_length(column.type),
}


def _column_property(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    wanted = str(_given(compiler, nodes[2:], scope)[0]).lower()
    made = COLUMN_PROPERTIES.get(wanted)
    if made is None:
        raise unknown(f"the column property {wanted}")
    pairs = {
        f"{table.object_id}|{column.name.lower()}": made(column)
        for table in compiler.around.tables()
        for column in table.columns
    }
    listed = ", ".join(f"{quoted(key)}: {value}" for key, value in pairs.items())
    first, second = (compiler.value(each, scope) for each in nodes[:2])
    key = f"CAST({first.sql} AS VARCHAR) || '|' || lower({second.sql})"
    sql = f"map {{{listed}}}[{key}]" if pairs else "NULL"
    return Expr(f"CAST({sql} AS INTEGER)", INT)


OBJECT_PROPERTIES: dict[str, Callable[[Table], int]] = {
    "isusertable": lambda table: int(not table.is_view),
    "istable": lambda table: int(not table.is_view),
    "isview": lambda table: int(table.is_view),
    "ismsshipped": lambda table: 0,
    "tablehasidentity": lambda table: int(table.identity is not None),
    "tablehasprimarykey": lambda table: int(table.primary is not None),
    "tablehasclustindex": lambda table: int(any(each.clustered for each in table.keys)),
}


def _object_property(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    wanted = str(_given(compiler, nodes[1:], scope)[0]).lower()
    made = OBJECT_PROPERTIES.get(wanted)
    if made is None:
        raise unknown(f"the object property {wanted}")
    pairs = {table.object_id: str(made(table)) for table in compiler.around.tables()}
    found = _looked_up(pairs, compiler.value(nodes[0], scope))
    return Expr(f"CAST({found.sql} AS INTEGER)", INT)


def _server_property(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    wanted = str(_given(compiler, nodes, scope)[0]).lower()
    return text(PROPERTIES.get(wanted), SqlType("nvarchar", 128))


def _database_property(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    name, wanted = (str(each) for each in _given(compiler, nodes, scope))
    found = compiler.around.core.catalog.databases.get(name.lower())
    known = {
        "collation": lambda: found.collation,
        "status": lambda: "ONLINE",
        "updateability": lambda: "READ_WRITE",
        "useraccess": lambda: "MULTI_USER",
        "recovery": lambda: "SIMPLE",
        "edition": lambda: "Developer",
    }
    if found is None or wanted.lower() not in known:
        return text(None, SqlType("nvarchar", 128))
    return text(known[wanted.lower()](), SqlType("nvarchar", 128))


def _has_perms(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    name, kind, right = _given(compiler, nodes[:3], scope)
    session, wanted = compiler.around, str(right).upper()
    if kind is not None and str(kind).upper() == "OBJECT" and find(session, name) is None:
        return number(None)
    if kind is not None and str(kind).upper() == "SCHEMA":
        database = session.names.database(session.database)
        hidden = {each.lower() for each in session.login.hidden_schemas}
        plain = (split_name(str(name)) or ("",))[-1]
        if database.schema(plain) is None or plain.lower() in hidden:
            return number(None)
    return number(int(session.login.has(wanted)))


def _session_text(made: Callable[[Any], str | None]) -> Function:
    return lambda compiler, nodes, scope: text(made(compiler.around))


def _caught(made: Callable[[SqlError], Any], is_text: bool = False) -> Function:
    def found(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
        caught = compiler.around.state.caught
        if not caught:
            return text(None, SqlType("nvarchar", 4000)) if is_text else number(None)
        value = made(caught[-1])
        return text(value, SqlType("nvarchar", 4000)) if is_text else number(value)

    return found


def _xact_state(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    transaction = compiler.around.open
    state = 0 if transaction is None else (-1 if transaction.doomed else 1)
    return Expr(f"CAST({state} AS SMALLINT)", SqlType("smallint"), False, constant=True)


def _scope_identity(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    return number(compiler.around.state.scope_identity, NUMERIC38)


def _ident_current(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    table = find(compiler.around, _given(compiler, nodes, scope)[0])
    column = table.identity if table else None
    if column is None or column.identity is None:
        return number(None, NUMERIC38)
    last = column.identity.last
    return number(column.identity.seed if last is None else last, NUMERIC38)


def _applock_mode(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    raise unknown("APPLOCK_MODE")


def _error_text(failure: SqlError) -> str:
    return failure.text


def _need(nodes: list[exp.Expr], count: int) -> None:
    if len(nodes) != count:
        raise error(102, ")")


def _parsename(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    _need(nodes, 2)
    name, place = _given(compiler, nodes, scope)
    parts = split_name(str(name))
    return text(parts[-int(place)] if parts and int(place) <= len(parts) else None)


def _null(compiler: Expressions, nodes: list[exp.Expr], scope: Scope) -> Expr:
    return NULL


def _collation_property(compiler: Any, nodes: list[exp.Expr], scope: Scope) -> Expr:
    _need(nodes, 2)
    name, wanted = _given(compiler, nodes, scope)
    if name is None or str(wanted).upper() != "CODEPAGE":
        return NULL
    return number(page_of(str(name)))


SYSTEM_FUNCTIONS: dict[str, Function] = {
    "COLLATIONPROPERTY": _collation_property,
    "OBJECT_ID": _object_id,
    "OBJECT_NAME": _object_name,
    "OBJECT_SCHEMA_NAME": _object_schema_name,
    "SCHEMA_NAME": _schema_name,
    "SCHEMA_ID": _schema_id,
    "DB_NAME": _db_name,
    "DB_ID": _db_id,
    "TYPE_NAME": _type_name,
    "COL_LENGTH": _col_length,
    "COL_NAME": _col_name,
    "COLUMNPROPERTY": _column_property,
    "OBJECTPROPERTY": _object_property,
    "OBJECTPROPERTYEX": _object_property,
    "SERVERPROPERTY": _server_property,
    "DATABASEPROPERTYEX": _database_property,
    "HAS_PERMS_BY_NAME": _has_perms,
    "PARSENAME": _parsename,
    "SCOPE_IDENTITY": _scope_identity,
    "IDENT_CURRENT": _ident_current,
    "XACT_STATE": _xact_state,
    "ERROR_NUMBER": _caught(lambda failure: failure.number),
    "ERROR_SEVERITY": _caught(lambda failure: failure.severity),
    "ERROR_STATE": _caught(lambda failure: failure.state),
    "ERROR_LINE": _caught(lambda failure: 1),
    "ERROR_MESSAGE": _caught(_error_text, is_text=True),
    "ERROR_PROCEDURE": _null,
    "SUSER_SNAME": _session_text(lambda session: session.login.name),
    "SUSER_NAME": _session_text(lambda session: session.login.name),
    "SYSTEM_USER": _session_text(lambda session: session.login.name),
    "ORIGINAL_LOGIN": _session_text(lambda session: session.login.name),
    "USER_NAME": _session_text(
        lambda session: "dbo" if session.login.owner else session.login.name
    ),
    "CURRENT_USER": _session_text(
        lambda session: "dbo" if session.login.owner else session.login.name
    ),
    "SESSION_USER": _session_text(
        lambda session: "dbo" if session.login.owner else session.login.name
    ),
    "USER": _session_text(lambda session: "dbo" if session.login.owner else session.login.name),
    "HOST_NAME": _session_text(lambda session: "client"),
    "APP_NAME": _session_text(lambda session: "client"),
    "IS_SRVROLEMEMBER": lambda compiler, nodes, scope: number(int(compiler.around.login.owner)),
    "IS_MEMBER": lambda compiler, nodes, scope: number(int(compiler.around.login.owner)),
    "CURRENT_TRANSACTION_ID": lambda compiler, nodes, scope: number(
        compiler.around.transaction, BIGINT
    ),
}
