"""The statements of ALTER TABLE, in their order; tests/mssql/test_ddl.py runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.ddl import alter as module
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.types import ServerColumn
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddKey,
    ChangeType,
    DropNotNull,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.dialects.tsql import ddl
from jetbridge.errors import BadRequest, DuplicateKey, FailedPrecondition, NotFound, NotSupported

COLUMNS = (
    ServerColumn("id", "int", 4, 10, 0, False),
    ServerColumn("qty", "bigint", 8, 19, 0, True, default="((1))"),
    ServerColumn("name", "nvarchar", -1, 0, 0, True, collation="Latin1_General_CI_AS"),
    ServerColumn("price", "money", 8, 19, 4, True),
)
KEYS = (UniqueKey(("id",), True), UniqueKey(("qty",)))
TABLE = TableDescription("dbo", "t", 7, "now", False, COLUMNS, KEYS, ("([qty]>(0))",))
CONSTRAINTS = {
    "sys.default_constraints": [("qty", "df", "((1))")],
    "sys.check_constraints": [("ck", "([qty]>(0))", True, True)],
    "sys.indexes x": [("pk", "PK", 1, False, "id", False), ("uq", "UQ", 2, False, "qty", True)],
    "sys.indexes WHERE": [(1,)],
    "COUNT_BIG(*) FROM": [(0,)],
}


class Scripted:
    """A server that has the table, and remembers what it was told to change."""

    def __init__(self, answers=None, *, babelfish: bool = False) -> None:
        self.answers: dict[str, Any] = {**CONSTRAINTS, **(answers or {})}
        self.told: list[str] = []
        self._babelfish = babelfish

    def is_babelfish(self) -> bool:
        return self._babelfish

    def query(self, sql: str, *_) -> list:
        found: list = self.answers.get("name", [("dbo", "t")] if "sys.objects" in sql else [])
        return found

    @contextmanager
    def borrow_odbc(self) -> Iterator["Scripted"]:
        yield self

    borrow_core = borrow_odbc

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield
        self.told.append("COMMIT")

    def run(self, sql: str) -> list:
        if sql.startswith("SELECT"):
            return next((rows for key, rows in self.answers.items() if key in sql), [])
        self.told.append(sql.replace("ALTER TABLE [dbo].[t] ", ""))
        failure = self.answers.get(self.told[-1])
        if isinstance(failure, Exception):
            raise failure
        return []


@pytest.fixture
def told(monkeypatch):
    """What a change makes of the table, with other answers of the server."""

    def run(change, answers=None, table=TABLE, *, babelfish=False):
        monkeypatch.setattr(module, "describe", lambda *_, folded: [table])
        server = Scripted(answers, babelfish=babelfish)
        module.alter(cast(ConnectionPool, server), table, change, MssqlSettings())
        assert server.told.pop() == "COMMIT"
        return server.told

    return run


HELD = ["DROP CONSTRAINT [df]", "DROP CONSTRAINT [ck]", "DROP CONSTRAINT [uq]"]
AGAIN = [
    "ADD CONSTRAINT [uq] UNIQUE NONCLUSTERED ([qty] DESC)",
    "WITH NOCHECK ADD CONSTRAINT [ck] CHECK (([qty]>(0)))",
    "NOCHECK CONSTRAINT [ck]",
    "ADD CONSTRAINT [df] DEFAULT ((1)) FOR [qty]",
]


@pytest.mark.parametrize(
    ("change", "statements"),
    [
        (
            AddColumn(pa.field("n", pa.int16(), False, metadata={"default": "2"})),
            ["ADD [n] smallint NOT NULL DEFAULT 2 WITH VALUES"],
        ),
        (AddColumn(pa.field("n", pa.string())), ["ADD [n] nvarchar(max) NULL"]),
        (RemoveColumn("NAME"), ["DROP COLUMN [name]"]),
        (RemoveColumn("qty", cascade=True), [*HELD, "DROP COLUMN [qty]"]),
        (RenameTable("u"), ["EXEC sp_rename N'[dbo].[t]', N'u', N'OBJECT'"]),
        (
            RenameColumn("qty", "Qty"),
            [
                "DROP CONSTRAINT [ck]",
                "EXEC sp_rename N'[dbo].[t].[qty]', N'Qty', N'COLUMN'",
                "WITH NOCHECK ADD CONSTRAINT [ck] CHECK (([Qty]>(0)))",
                "NOCHECK CONSTRAINT [ck]",
            ],
        ),
        (SetDefault("QTY", "2"), ["DROP CONSTRAINT [df]", "ADD DEFAULT 2 FOR [qty]"]),
        (SetDefault("qty", ""), ["DROP CONSTRAINT [df]"]),
        (SetDefault("name", "'a'"), ["ADD DEFAULT N'a' FOR [name]"]),
        (
            ChangeType(pa.field("qty", pa.int32()), "CAST(qty AS INTEGER)"),
            [*HELD, "ALTER COLUMN [qty] int NULL", *AGAIN],
        ),
        (
            ChangeType(pa.field("id", pa.string())),
            [
                "DROP CONSTRAINT [pk]",
                "ALTER COLUMN [id] nvarchar(450) NOT NULL",
                "ADD CONSTRAINT [pk] PRIMARY KEY CLUSTERED ([id])",
            ],
        ),
        (
            SetNotNull("name"),
            ["ALTER COLUMN [name] nvarchar(max) COLLATE Latin1_General_CI_AS NOT NULL"],
        ),
        (SetNotNull("qty"), [*HELD, "ALTER COLUMN [qty] bigint NOT NULL", *AGAIN]),
        (DropNotNull("qty"), []),
        (AddCheck("qty < 9"), ["ADD CHECK (([qty] < 9))"]),
        (
            AddKey(UniqueKey(("name",))),
            [
                "ALTER COLUMN [name] nvarchar(450) COLLATE Latin1_General_CI_AS NULL",
                "ADD UNIQUE NONCLUSTERED ([name])",
            ],
        ),
    ],
)
def test_statements(told, change, statements):
    assert told(change) == statements


def test_the_first_key_may_be_clustered(told):
    bare = TableDescription("dbo", "t", 7, "now", False, COLUMNS)
    nothing: dict[str, Any] = dict.fromkeys(CONSTRAINTS, []) | {"COUNT_BIG(*) FROM": [(0,)]}
    assert told(AddKey(UniqueKey(("name",), True)), nothing, bare) == [
        "ALTER COLUMN [name] nvarchar(450) COLLATE Latin1_General_CI_AS NOT NULL",
        "ADD PRIMARY KEY ([name])",
    ]


@pytest.mark.parametrize(
    ("change", "answers", "error", "words"),
    [
        (
            RemoveColumn("qty"),
            {},
            FailedPrecondition,
            r"dbo\.t\.qty is used by ck, uq; use CASCADE",
        ),
        (SetNotNull("name"), {"COUNT_BIG(*) FROM": [(3,)]}, FailedPrecondition, "3 NULL values"),
        (AddCheck("qty < 9"), {"WHERE NOT": [(9,)]}, FailedPrecondition, "first row with qty = 9"),
        (
            AddKey(UniqueKey(("id", "qty"))),
            {"GROUP BY": [(1, 2)]},
            FailedPrecondition,
            r"\(id, qty\) = \(1, 2\)",
        ),
        (
            AddKey(UniqueKey(("id", "qty"))),
            {"ADD UNIQUE NONCLUSTERED ([id], [qty])": DuplicateKey("twice")},
            FailedPrecondition,
            "twice",
        ),
        (
            ChangeType(pa.field("qty", pa.int16())),
            {"ALTER COLUMN [qty] smallint NULL": BadRequest("too big")},
            FailedPrecondition,
            r"dbo\.t\.qty does not fit smallint: too big",
        ),
        (
            ChangeType(pa.field("name", pa.int32())),
            {"LIKE": [("x",)]},
            FailedPrecondition,
            r"dbo\.t\.name does not fit int: 'x'",
        ),
        (ChangeType(pa.field("price", pa.string())), {}, NotSupported, "money cannot become"),
        (ChangeType(pa.field("qty", pa.int32()), "qty + 1"), {}, NotSupported, "another column"),
        (RenameTable("u"), {"name": []}, NotFound, r"dbo\.t"),
    ],
)
def test_refusals(told, change, answers, error, words):
    with pytest.raises(error, match=words):
        told(change, answers)


BARE_CHECK = {"sys.check_constraints": [("ck", "((qty > 0) OR (name = 'id'))", False, False)]}


@pytest.mark.parametrize(
    ("change", "statements"),
    [
        (
            AddColumn(pa.field("n", pa.int16(), metadata={"default": "2"})),
            ["ADD [n] smallint NULL DEFAULT 2"],
        ),
        (RemoveColumn("qty", cascade=True), ["DROP COLUMN [qty]"]),
        (RenameColumn("qty", "n"), ["EXEC sp_rename N'[dbo].[t].[qty]', N'n', N'COLUMN'"]),
        (SetDefault("qty", "2"), ["ADD DEFAULT 2 FOR [qty]"]),
        (SetDefault("qty", ""), ["ADD DEFAULT NULL FOR [qty]"]),
        (ChangeType(pa.field("qty", pa.int32())), ["ALTER COLUMN [qty] int"]),
        (AddKey(UniqueKey(("name",))), ["ALTER COLUMN [name] nvarchar(450)"]),
    ],
)
def test_babelfish_is_told_less(told, change, statements):
    assert told(change, BARE_CHECK, babelfish=True)[: len(statements)] == statements


def test_babelfish_makes_a_primary_key_not_null_by_itself(told):
    free = replace(TABLE, keys=())
    statements = told(AddKey(UniqueKey(("qty",), True)), BARE_CHECK, free, babelfish=True)
    assert statements == ["ADD PRIMARY KEY NONCLUSTERED ([qty])"]


def test_what_babelfish_cannot_alter_is_refused(told):
    with pytest.raises(NotSupported, match=r"dbo\.t\.qty cannot become NOT NULL"):
        told(SetNotNull("qty"), babelfish=True)
    with pytest.raises(NotSupported, match=r"dbo\.t\.id cannot become NULL"):
        told(DropNotNull("id"), table=replace(TABLE, keys=()), babelfish=True)


def test_columns_without_brackets_are_found_in_checks(told):
    for column in ("qty", "name"):
        with pytest.raises(FailedPrecondition, match=f"{column} is used by ck"):
            told(RemoveColumn(column), BARE_CHECK, replace(TABLE, keys=()), babelfish=True)
    free = replace(TABLE, keys=())
    assert told(RemoveColumn("price"), BARE_CHECK, free, babelfish=True)


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("CAST(('it''s') AS nvarchar(4))", "N'it''s'"),
        ("CAST('-1.50' AS numeric)", "(-1.50)"),
        (
            "((w = CAST(('x') AS nvarchar(1))) OR (v > CAST('-5' AS int)))",
            "((w = N'x') OR (v > (-5)))",
        ),
        ("'CAST((''a'') AS nvarchar(1))'", "'CAST((''a'') AS nvarchar(1))'"),
        ("(getdate())", "(getdate())"),
    ],
)
def test_constants_of_babelfish_are_shown_as_they_were_given(shown, given):
    assert ddl.remove_casts(shown) == given
