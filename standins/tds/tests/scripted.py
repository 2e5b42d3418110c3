"""A very small engine, for tests of the wire alone: tables in memory, and a few texts it knows.

It knows `SELECT <parameters>`, `SELECT * FROM t`, `INSERT INTO t VALUES (<parameters>)`, DELETE,
transactions by text, what Microsoft's bulk load asks, and whatever a test adds to `script`.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from standins.tds.values import (
    Answer,
    Batches,
    Begun,
    Column,
    Committed,
    Count,
    Database,
    Message,
    Parameter,
    RolledBack,
    Row,
    Rows,
    SqlError,
    SqlType,
)

INT = SqlType("int")
NAME = SqlType("nvarchar", 128)
_TABLE = re.compile(r"(?:\[?\w+\]?\.)?\[?(\w+)\]?\s*(.*)", re.DOTALL)
# Columns of sp_describe_undeclared_parameters; all are int but those named below.
_UNDECLARED = (
    "parameter_ordinal", "name", "suggested_system_type_id", "suggested_system_type_name",
    "suggested_max_length", "suggested_precision", "suggested_scale", "suggested_user_type_id",
    "suggested_user_type_database", "suggested_user_type_schema", "suggested_user_type_name",
    "suggested_assembly_qualified_type_name", "suggested_xml_collection_id",
    "suggested_xml_collection_database", "suggested_xml_collection_schema",
    "suggested_xml_collection_name", "suggested_is_xml_document", "suggested_is_case_sensitive",
    "suggested_is_fixed_length_clr_type", "suggested_is_input", "suggested_is_output",
    "formal_parameter_name", "suggested_tds_type_id", "suggested_tds_length",
)  # fmt: skip
_UNDECLARED_TEXTS = {1, 3, 8, 9, 10, 11, 13, 14, 15, 21}
_UNDECLARED_BITS = {16, 17, 18, 19, 20}
_COLLATION = (bytes.fromhex("0904d00034"), "SQL_Latin1_General_CP1_CI_AS")
Script = Callable[["ScriptedSession", str, Sequence[Parameter]], Iterator[Answer]]


class Table:
    def __init__(self, *columns: Column, rows: Sequence[Row] = (), batches: bool = False) -> None:
        self.columns, self.rows = columns, list(rows)
        self.arrow: list[Any] = []
        self.batches = batches


class ScriptedEngine:
    """One database, `standin`, one user, `rec` with the password `secret`."""

    def __init__(self, **tables: Table) -> None:
        self.tables = tables
        self.script: dict[str, Script] = {}
        self.sessions: list[ScriptedSession] = []
        self.descriptors = 0x700000000

    def login(self, user: str, password: str, database: str) -> "ScriptedSession":
        if (user, password) != ("rec", "secret"):
            raise SqlError(18456, f"Login failed for user '{user}'.", 14)
        if database not in ("", "standin"):
            text = f'Cannot open database "{database}" requested by the login. The login failed.'
            raise SqlError(4060, text, 11)
        self.sessions.append(ScriptedSession(self))
        return self.sessions[-1]


class ScriptedBulk:
    """Rows are the table's only when all of them have come."""

    def __init__(self, session: "ScriptedSession", table: Table, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)
        self._session, self._table = session, table
        self._rows: list[Row] = []
        self.aborted = False

    def append(self, rows: Sequence[Row]) -> None:
        self._rows += rows

    def finish(self) -> int:
        self._session.change(self._table, self._table.rows + self._rows)
        return len(self._rows)

    def abort(self) -> None:
        self.aborted = True


class ScriptedSession:
    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.transaction = 0
        self.cancelled = threading.Event()
        self.resets = 0
        self.closed = False
        self.loads: list[ScriptedBulk] = []
        self._before: dict[Table, list[Row]] = {}
        self._outputs: dict[str, Any] = {}

    database = "standin"

    def note(self, failure: SqlError) -> None:
        """Nobody asks it for @@ERROR."""

    def run(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Answer]:
        self.cancelled.clear()
        for pattern, script in self.engine.script.items():
            if re.search(pattern, text, re.IGNORECASE):
                yield from script(self, text, parameters)
                return
        if "sp_tablecollations_100" in text:
            yield from self._describe(text)
            return
        for statement in filter(None, map(str.strip, text.split(";"))):
            yield from self._statement(statement, parameters)

    def _statement(self, text: str, parameters: Sequence[Parameter]) -> Iterator[Answer]:
        word, _, rest = text.partition(" ")
        handler = getattr(self, f"_{word.lower()}", None)
        if handler is None:
            raise SqlError(102, f"Incorrect syntax near '{word}'.", 15)
        yield from handler(rest, parameters)

    def _table(self, text: str) -> Table:
        match = _TABLE.match(text)
        assert match is not None
        if match[1] not in self.engine.tables:
            raise SqlError(208, f"Invalid object name '{match[1]}'.")
        return self.engine.tables[match[1]]

    def change(self, table: Table, rows: list[Row]) -> None:
        if self.transaction:
            self._before.setdefault(table, table.rows)
        table.rows = rows

    def _select(self, rest: str, parameters: Sequence[Parameter]) -> Iterator[Answer]:
        if " FROM " in rest:
            table = self._table(rest.partition(" FROM ")[2])
            if table.batches:
                yield Batches(table.columns, table.arrow)
            else:
                yield Rows(table.columns, iter(table.rows))
            return
        if rest.startswith("@@TRANCOUNT"):
            yield Rows((Column("", INT, nullable=False),), [(int(self.transaction > 0),)])
            return
        if parameters:
            columns = tuple(Column(f"c{i}", p.type) for i, p in enumerate(parameters))
            yield Rows(columns, [tuple(p.value for p in parameters)])
            return
        yield Rows((Column("", INT, nullable=False),), [(int(rest.split(maxsplit=1)[0]),)])

    def _insert(self, rest: str, parameters: Sequence[Parameter]) -> Iterator[Answer]:
        table = self._table(rest.removeprefix("INTO "))
        row = tuple(p.value for p in parameters) or _literals(rest)
        if any(old[0] == row[0] for old in table.rows):
            raise SqlError(2627, "Violation of PRIMARY KEY constraint 'pk'.", 14)
        self.change(table, [*table.rows, row])
        yield Count(1)

    def _delete(self, rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        table = self._table(rest.removeprefix("FROM "))
        count = len(table.rows)
        self.change(table, [])
        yield Count(count)

    def _begin(self, _rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield self.begin()
        yield Count()

    def _commit(self, _rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield self.commit()
        yield Count()

    def _rollback(self, _rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield self.rollback()
        yield Count()

    def _set(self, _rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield Count()

    def _print(self, rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield Message(0, rest.strip("'"))

    def _use(self, rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        yield Database(rest, self.database)
        yield Count()

    def _raise(self, rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        number, severity, *_ = rest.split()
        yield Message(0, "before the error")
        raise SqlError(int(number), f"error {number}", int(severity))

    def _wait(self, rest: str, _parameters: Sequence[Parameter]) -> Iterator[Answer]:
        """Until it is cancelled."""
        if self.cancelled.wait(float(rest)):
            raise SqlError(3617, "cancelled")
        yield Count()

    def _exec(self, rest: str, parameters: Sequence[Parameter]) -> Iterator[Answer]:
        """Any procedure: what it was called with; its output parameters are doubled."""
        yield Rows((Column("call", NAME),), [(rest,)])
        self._outputs = {p.name: p.value * 2 for p in parameters if p.output}

    def _describe(self, text: str) -> Iterator[Answer]:
        """What a bulk load asks before its first row."""
        match = re.search(r"(?:tablecollations_100 N'|OBJECT_ID\(N?')([^']*)'", text)
        assert match is not None, text
        table = self._table(match[1].rpartition("..")[2].removeprefix("."))
        yield Rows((Column("", INT, nullable=False),), [(0,)])
        yield Count()
        yield Rows(table.columns, [])
        collated = [
            (i, each.name, *(_COLLATION if "char" in each.type.name else (None, None)))
            for i, each in enumerate(table.columns, 1)
        ]
        columns = (
            Column("colid", INT),
            Column("name", NAME),
            Column("tds_collation", SqlType("binary", 5)),
            Column("collation", NAME),
        )
        yield Rows(columns, collated)

    def outputs(self) -> Mapping[str, Any]:
        return self._outputs

    def describe_parameters(self, text: str) -> Rows:
        """Every parameter is an int, if one asks here."""
        count = text.count("@P")
        columns = tuple(Column(name, _undeclared_type(i)) for i, name in enumerate(_UNDECLARED))
        rows = [
            (i, f"@P{i}", 56, "int", 4, 10, 0, *(None,) * 9, False, False, False, True, False,
                None, 38, 4)
            for i in range(1, count + 1)
        ]  # fmt: skip
        return Rows(columns, rows)

    def bulk(self, text: str) -> ScriptedBulk:
        match = re.match(r"INSERT BULK (\S+)\s*\((.*)\)", text, re.DOTALL | re.IGNORECASE)
        assert match is not None, text
        table = self._table(match[1])
        names = re.findall(r"(?:^|,)\s*\[?(\w+)\]? ", match[2])
        by_name = {each.name: each for each in table.columns}
        self.loads.append(ScriptedBulk(self, table, [by_name[name] for name in names]))
        return self.loads[-1]

    def begin(self, isolation: int = 0) -> Begun:
        self.engine.descriptors += 1
        self.transaction = self.engine.descriptors
        return Begun(self.transaction)

    def commit(self) -> Committed:
        ended, self.transaction = self._ended(), 0
        self._before.clear()
        return Committed(ended)

    def rollback(self) -> RolledBack:
        ended, self.transaction = self._ended(), 0
        for table, rows in self._before.items():
            table.rows = rows
        self._before.clear()
        return RolledBack(ended)

    def _ended(self) -> int:
        if not self.transaction:
            raise SqlError(3902, "The request has no corresponding BEGIN TRANSACTION.")
        return self.transaction

    def reset(self) -> None:
        self.resets += 1
        if self.transaction:
            self.rollback()

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.reset()
        self.closed = True


def _undeclared_type(index: int) -> SqlType:
    if index in _UNDECLARED_TEXTS:
        return NAME
    return SqlType("bit") if index in _UNDECLARED_BITS else INT


def _literals(text: str) -> Row:
    """`VALUES (1, N'one')`"""
    inside = re.search(r"VALUES \((.*)\)", text)
    assert inside is not None, text
    parts = [part.strip() for part in inside[1].split(",")]
    return tuple(part[2:-1] if part.startswith("N'") else int(part) for part in parts)
