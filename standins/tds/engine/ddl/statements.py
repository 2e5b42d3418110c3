"""CREATE, ALTER, DROP and TRUNCATE as statements."""

from collections.abc import Callable, Iterator
from typing import Any

from standins.tds.engine.ddl.alter import Alterations
from standins.tds.engine.ddl.create_drop import Definitions
from standins.tds.engine.errors import error, unknown
from standins.tds.engine.parse.script import Leaf
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.storage.catalog import DEFAULT_COLLATION
from standins.tds.values import Answer, Count


def truncate(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    tokens = Tokens(leaf.text)
    tokens.need("TRUNCATE", "TABLE")
    with interpreter.session.statement() as transaction:
        Definitions(interpreter.session, transaction).truncate(tokens.dotted())
    yield Count()


def create(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("CREATE")
    with session.statement() as transaction:
        definitions = Definitions(session, transaction)
        if tokens.take("TABLE"):
            definitions.create_table(tokens)
        elif tokens.take("OR", "ALTER", "VIEW"):
            definitions.create_view(tokens, leaf.text, instead=True)
        elif tokens.take("VIEW"):
            definitions.create_view(tokens, leaf.text, instead=False)
        elif tokens.take("SCHEMA"):
            _create_schema(session, transaction, tokens)
        elif tokens.take("DATABASE"):
            _create_database(session, tokens)
        elif tokens.peek() in ("UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX", "COLUMNSTORE"):
            definitions.create_index(tokens)
        elif tokens.take("STATISTICS"):
            pass
        else:
            raise unknown(f"CREATE {tokens.peek()}")
    yield Count()


def _create_schema(session: Any, transaction: Any, tokens: Tokens) -> None:
    name = tokens.name()
    database = session.names.database(session.database)
    if "CREATE SCHEMA" not in session.login.rights:
        raise error(262, "CREATE SCHEMA", database.name)
    transaction.lock(("schema", database.name, name.lower()), "X")
    if database.schema(name) is not None:
        session.report(error(2714, name))
        raise error(2759)
    database.schemas[name] = session.core.catalog.schema_number()
    transaction.undo.append(lambda: database.schemas.pop(name, None))


def _create_database(session: Any, tokens: Tokens) -> None:
    name = tokens.name()
    collation = tokens.name() if tokens.take("COLLATE") else DEFAULT_COLLATION
    if "CREATE DATABASE" not in session.login.rights:
        raise error(262, "CREATE DATABASE", session.database)
    if name.lower() in session.core.catalog.databases:
        raise error(1801, name)
    session.core.catalog.add_database(name).collation = collation


def alter(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("ALTER")
    with session.statement() as transaction:
        alterations = Alterations(session, transaction)
        if tokens.take("TABLE"):
            alterations.alter_table(tokens)
        elif tokens.take("VIEW"):
            alterations.create_view(tokens, leaf.text, instead=True)
        elif tokens.take("SCHEMA"):
            schema = tokens.name()
            tokens.need("TRANSFER")
            if tokens.take("OBJECT"):
                tokens.need(":", ":") if tokens.peek() == ":" else tokens.need("::")
            alterations.transfer(schema, tokens.dotted())
        elif tokens.take("DATABASE"):
            _alter_database(session, tokens)
        elif tokens.take("INDEX"):
            pass
        else:
            raise unknown(f"ALTER {tokens.peek()}")
    yield Count()


def _alter_database(session: Any, tokens: Tokens) -> None:
    name = tokens.name()
    database = session.names.database(session.database if name.upper() == "CURRENT" else name)
    tokens.need("SET")
    option, value = tokens.name().upper(), tokens.peek()
    if option == "ALLOW_SNAPSHOT_ISOLATION":
        database.snapshot = value == "ON"
    elif option == "READ_COMMITTED_SNAPSHOT":
        database.read_committed_snapshot = value == "ON"
    elif option not in ("RECOVERY", "AUTO_CLOSE", "SINGLE_USER", "MULTI_USER", "ANSI_NULLS"):
        raise unknown(f"ALTER DATABASE SET {option}")


def drop(interpreter: Any, leaf: Leaf) -> Iterator[Answer]:
    session = interpreter.session
    tokens = Tokens(leaf.text)
    tokens.need("DROP")
    kind = tokens.next().upper
    quiet = tokens.take("IF", "EXISTS")
    with session.statement() as transaction:
        definitions = Definitions(session, transaction)
        if kind == "TABLE":
            _each(tokens, lambda: definitions.drop_table(tokens.dotted(), quiet))
        elif kind == "VIEW":
            _each(tokens, lambda: definitions.drop_view(tokens.dotted(), quiet))
        elif kind == "INDEX":
            _each(tokens, lambda: definitions.drop_index(tokens, quiet))
        elif kind == "SCHEMA":
            _drop_schema(session, transaction, tokens.name(), quiet)
        elif kind == "DATABASE":
            _drop_database(session, tokens.name(), quiet)
        else:
            raise unknown(f"DROP {kind}")
    yield Count()


def _each(tokens: Tokens, drop: Callable[[], None]) -> None:
    drop()
    while tokens.take(","):
        drop()
    if not tokens.done:
        tokens.fail()


def _drop_schema(session: Any, transaction: Any, name: str, quiet: bool) -> None:
    database = session.names.database(session.database)
    found = database.schema(name)
    if found is None:
        if quiet:
            return
        raise error(15151, "drop", "schema", name)
    transaction.lock(("schema", database.name, name.lower()), "X")
    for table in session.tables():
        if table.database == database.name and table.schema == found:
            raise error(3729, "drop schema", found, table.name)
    number = database.schemas.pop(found)
    properties = database.properties.pop(number, {})
    transaction.undo.append(lambda: database.schemas.update({found: number}))
    transaction.undo.append(lambda: database.properties.update({number: properties}))


def _drop_database(session: Any, name: str, quiet: bool) -> None:
    databases = session.core.catalog.databases
    if name.lower() not in databases:
        if quiet:
            return
        raise error(3701, "drop", "database", name)
    if session.database.lower() == name.lower():
        raise error(3702, name)
    for table in session.tables():
        if table.database.lower() == name.lower():
            session.here.changes[table.object_id] = None
            if table.stored:
                session.here.replaced.append(table.stored)
    del databases[name.lower()]
