"""A session: its settings, its transaction, its variables; what the compiler asks it."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import duckdb

from standins.tds.engine.dml.bulk import BulkLoad
from standins.tds.engine.errors import error
from standins.tds.engine.execute.describe import described_parameters
from standins.tds.engine.execute.evaluating import Variable
from standins.tds.engine.execute.interpreter import Interpreter
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.functions import FUNCTIONS
from standins.tds.engine.metadata.functions import SYSTEM_FUNCTIONS, system_variable
from standins.tds.engine.metadata.system_views import VIEWS
from standins.tds.engine.metadata.view_rows import World
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.parse.script import parse_script
from standins.tds.engine.queries.compiler import Queries, SystemRows
from standins.tds.engine.queries.reading import execute
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.storage.names import TEMPORARY, Login, Names
from standins.tds.engine.storage.transactions import Core, Transaction
from standins.tds.engine.types import family
from standins.tds.values import (
    Answer,
    Begun,
    Committed,
    Parameter,
    RolledBack,
    Rows,
    SqlError,
    SqlType,
)

MOST_PARAMETERS = 2100
ISOLATIONS = {
    0: "", 1: "READ UNCOMMITTED", 2: "READ COMMITTED", 3: "REPEATABLE READ", 4: "SERIALIZABLE",
    5: "SNAPSHOT",
}  # fmt: skip


@dataclass
class Settings:
    isolation: str = "READ COMMITTED"
    lock_timeout: int = -1
    deadlock_priority: int = 0
    xact_abort: bool = False
    nocount: bool = False
    fmtonly: bool = False
    implicit: bool = False
    identity_insert: int | None = None


@dataclass
class State:
    """What functions such as @@ROWCOUNT tell."""

    rowcount: int = 0
    error: int = 0
    scope_identity: int | None = None
    identity: int | None = None
    caught: list[SqlError] = field(default_factory=list)
    started: datetime = field(default_factory=lambda: datetime.now(UTC))


class DuckSession:
    def __init__(self, core: Core, login: Login, database: str, spid: int) -> None:
        self.core, self.login, self.spid = core, login, spid
        self._database = database
        self.settings, self.state = Settings(), State()
        self.names = Names(self)
        self.variables: dict[str, Variable] = {}
        self.undeclared: dict[str, SqlType | None] | None = None
        self.open: Transaction | None = None
        self.current: Transaction | None = None
        self.reports: list[Answer] = []
        self._outputs: dict[str, Any] = {}
        self._cancel = threading.Event()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._closed = False
        self.own_locks = self.new_transaction()

    # The protocol of the wire.

    @property
    def database(self) -> str:
        return self._database

    @database.setter
    def database(self, name: str) -> None:
        self._database = name

    @property
    def transaction(self) -> int:
        return self.open.descriptor if self.open is not None else 0

    def run(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Answer]:
        if len(parameters) > MOST_PARAMETERS:
            raise error(8003)
        self._cancel.clear()
        self.variables = {p.name.lower(): Variable(p.type, stored_value(p)) for p in parameters}
        self.state.scope_identity = None if parameters else self.state.scope_identity
        self._outputs = {}
        try:
            yield from Interpreter(self).batch(parse_script(text))
        except SqlError as failure:
            self.note(failure)
            raise
        self._outputs = {
            p.name: self.variables[p.name.lower()].value for p in parameters if p.output
        }

    def note(self, failure: SqlError) -> None:
        self.state.error = failure.number

    def outputs(self) -> Mapping[str, Any]:
        return self._outputs

    def describe_parameters(self, text: str) -> Rows:
        with self.statement():
            return described_parameters(self, text)

    def bulk(self, text: str) -> BulkLoad:
        self._cancel.clear()
        return BulkLoad(self, text)

    def begin(self, isolation: int = 0) -> Begun:
        if ISOLATIONS.get(isolation):
            self.settings.isolation = ISOLATIONS[isolation]
        transaction = self.open or self.new_transaction()
        self.open = transaction
        transaction.begin()
        return Begun(transaction.descriptor)

    def commit(self) -> Committed:
        if self.open is None:
            raise error(3902)
        if self.open.doomed:
            raise error(3930)
        descriptor = self.open.descriptor
        self.open.count -= 1
        if self.open.count == 0:
            ended, self.open = self.open, None
            ended.commit()
        return Committed(descriptor)

    def rollback(self) -> RolledBack:
        if self.open is None:
            raise error(3903)
        ended, self.open = self.open, None
        ended.roll_back()
        return RolledBack(ended.descriptor)

    def reset(self) -> None:
        """Settings as after the login; an open transaction is rolled back."""
        if self.open is not None:
            self.rollback()
        self.settings, self.state = Settings(isolation=self.settings.isolation), State()
        self._drop_temporary()

    def cancel(self) -> None:
        self._cancel.set()
        cursor = self._cursor
        if cursor is not None:
            cursor.interrupt()
        self.core.locks.wake()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.open is not None:
            self.rollback()
        self.own_locks.roll_back()
        self._drop_temporary()

    # Transactions.

    def new_transaction(self) -> Transaction:
        return Transaction(self.core, self.spid, self._cancel.is_set)

    @contextmanager
    def statement(self) -> Iterator[Transaction]:
        """The open transaction, or one of this statement alone; again inside of itself."""
        if self.current is not None:
            yield self.current
            return
        transaction = self.open or self.new_transaction()
        transaction.lock_timeout = self.settings.lock_timeout
        transaction.deadlock_priority = self.settings.deadlock_priority
        self.current = transaction
        try:
            yield transaction
        except BaseException:
            transaction.end_statement()
            if transaction is not self.open:
                transaction.roll_back()
            raise
        else:
            transaction.end_statement()
            if transaction is not self.open and not transaction.count:
                transaction.commit()
        finally:
            self.current = None

    @property
    def here(self) -> Transaction:
        """The transaction of the statement that runs."""
        assert self.current is not None
        return self.current

    # What reading asks.

    @property
    def isolation(self) -> str:
        return self.settings.isolation

    def allowed(self, right: str, table: Table) -> None:
        self.names.allowed(right, table)

    def is_versioned(self, database: str) -> bool:
        return self.names.database(database).read_committed_snapshot

    def allows_snapshot(self, database: str) -> bool:
        return database == TEMPORARY or self.names.database(database).snapshot

    def running(self, cursor: duckdb.DuckDBPyConnection | None) -> None:
        self._cursor = cursor
        if cursor is not None and self._cancel.is_set():
            raise SqlError(3617, "The query was canceled.", 11)

    @property
    def cancelled(self) -> threading.Event:
        return self._cancel

    # What the compiler asks.

    def compiler(self) -> Queries:
        made = Queries(self)
        made.functions = {**FUNCTIONS, **SYSTEM_FUNCTIONS}
        return made

    def variable(self, name: str) -> tuple[SqlType, Any]:
        found = self.variables.get(name.lower())
        if found is None:
            raise error(137, name)
        return found.type, found.value

    def system_variable(self, name: str) -> Expr:
        return system_variable(self, name)

    def evaluate(self, expr: Expr, parameters: dict[str, Any]) -> Any:
        """Once, without a table."""
        cursor = self.core.store.cursor()
        try:
            row = execute(cursor, f"SELECT {_plain(expr)}", parameters).fetchone()
        finally:
            cursor.close()
        value = row[0] if row else None
        return value.replace(tzinfo=UTC) if value and family(expr.type) == "offset" else value

    def find(self, parts: tuple[str, ...]) -> Table:
        found = self.names.find(parts, self.here)
        if found is None:
            raise error(208, ".".join(parts))
        return found

    def gives_identity(self, table: Table) -> bool:
        return self.settings.identity_insert == table.object_id

    def tables(self) -> list[Table]:
        return list(self.core.catalog.visible(self.here.changes))

    def table_by_id(self, object_id: int) -> Table | None:
        changes = self.here.changes
        if object_id in changes:
            return changes[object_id]
        return self.core.catalog.objects.get(object_id)

    def report(self, answer: Answer) -> None:
        """To be answered before what the statement ends with."""
        self.reports.append(answer)

    def system_rows(self, parts: tuple[str, ...]) -> tuple[str, SystemRows] | None:
        schema = parts[-2].lower() if len(parts) > 1 else ""
        name = f"{schema}.{parts[-1].lower()}"
        view = VIEWS.get(name)
        if view is None:
            return None
        database = self.names.database(parts[0] if len(parts) == 3 else self.database)
        world = World(
            database,
            list(self.core.catalog.databases.values()),
            [each for each in self.tables() if each.database == database.name],
            self.columns_of,
            self.row_count,
        )
        return name, view.made(world)

    def columns_of(self, table: Table) -> tuple[ColumnDef, ...]:
        if not table.is_view:
            return table.columns
        query = self.compiler().query(parse(table.query or ""))
        names = table.view_names or tuple(each.name for each in query.columns)
        return tuple(
            ColumnDef(name, each.type, each.nullable, place, "", each.collation)
            for place, (name, each) in enumerate(zip(names, query.columns, strict=True), 1)
        )

    def row_count(self, table: Table) -> int:
        snapshot = self.core.versions.open(self.here.stamps)
        self.core.versions.close(snapshot)
        cursor = self.core.store.cursor()
        try:
            sql = f"SELECT count(*) FROM {table.stored} WHERE {snapshot.condition()}"
            row = cursor.execute(sql).fetchone()
        except duckdb.CatalogException:  # somebody has dropped it meanwhile
            row = None
        finally:
            cursor.close()
        return int(row[0]) if row else 0

    def _drop_temporary(self) -> None:
        own = f"#{self.spid}"
        with self.statement() as transaction:
            for table in self.tables():
                if table.database == TEMPORARY and table.schema == own:
                    transaction.changes[table.object_id] = None
                    transaction.replaced.append(table.stored)


def stored_value(parameter: Parameter) -> Any:
    """As DuckDB takes it; a char has its blanks."""
    value = parameter.value
    if (
        isinstance(value, str)
        and parameter.type.name in ("char", "nchar")
        and parameter.type.length
    ):
        return value.ljust(parameter.type.length)
    if isinstance(value, datetime) and family(parameter.type) == "offset" and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    return value


def _plain(expr: Expr) -> str:
    """datetimeoffset as UTC without its zone, which DuckDB gives to Python only with pytz."""
    if family(expr.type) == "offset":
        return f"({expr.sql} AT TIME ZONE 'UTC')"
    return expr.sql
