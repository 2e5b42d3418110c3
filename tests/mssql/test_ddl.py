"""CREATE and ALTER TABLE as SQL Server runs them, and what clients are told afterwards."""

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.connection.pool import ConnectionPool
from jetbridge.backends.mssql.ddl.alter import alter
from jetbridge.backends.mssql.ddl.create_table import create_table
from jetbridge.backends.mssql.metadata.catalog_views import TableDescription, describe
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.catalog import (
    AddCheck,
    AddColumn,
    AddField,
    AddKey,
    ChangeType,
    CreateTable,
    DropNotNull,
    RemoveColumn,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetNotNull,
    UniqueKey,
)
from jetbridge.errors import (
    AlreadyExists,
    BadRequest,
    ConstraintViolation,
    DuplicateKey,
    FailedPrecondition,
    NotFound,
    NotSupported,
)
from tests.helpers import mssql_server

pytestmark = pytest.mark.mssql

SETTINGS = MssqlSettings()
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        pa.field("qty", pa.int64()),
        pa.field("name", pa.string()),
    ]
)


class Base:
    """Hold one database, and what the tests do with it."""

    def __init__(self, server: ConnectionPool) -> None:
        self.server = server

    def run(self, sql: str) -> list:
        with self.server.borrow_core() as connection:
            return connection.run(sql)

    def create(
        self, name: str, schema: pa.Schema, *, by_query: bool = False, **more
    ) -> TableDescription:
        request = CreateTable(name, schema, **more)
        settings = MssqlSettings(ctas_table_kind="columnstore") if by_query else SETTINGS
        self.run(create_table("dbo", request, settings, by_query=by_query))
        return self.table(name)

    def table(self, name: str) -> TableDescription:
        with self.server.borrow_odbc() as asking:
            (found,) = describe(asking, "dbo", name, folded=self.server.is_babelfish())
        return found

    def alter(self, table: TableDescription, change) -> TableDescription:
        return self.table(alter(self.server, table, change, SETTINGS))

    def rows(self, table: str = "items", columns: str = "*") -> list:
        return self.run(f"SELECT {columns} FROM [{table}] ORDER BY id")


@pytest.fixture(scope="module")
def server():
    made = mssql_server.server()
    yield made
    made.close()


@pytest.fixture
def base(server):
    made = Base(server)
    yield made
    with server.borrow_odbc() as asking:
        for each in sorted(describe(asking, "dbo"), key=lambda each: not each.is_view):
            made.run(f"DROP {'VIEW' if each.is_view else 'TABLE'} [{each.name}]")


@pytest.fixture
def items(base):
    table = base.create("items", COLUMNS, checks=("qty > 0",), keys=(UniqueKey(("id",), True),))
    base.run("INSERT INTO items VALUES (1, 10, N'1'), (2, 20, N'2'), (3, NULL, N'x')")
    return table


def test_a_table_comes_back_as_it_was_made(items):
    info = items.info(None)
    assert info.schema.names == COLUMNS.names
    assert [each.nullable for each in info.schema] == [False, True, True]
    assert (info.checks, info.keys) == (("(qty > 0)",), (UniqueKey(("id",), True),))


def test_texts_in_checks_count_case_and_trailing_blanks(base):
    columns = pa.schema([pa.field("a", pa.string()), pa.field("f", pa.bool_())])
    base.create("t", columns, checks=("a <> 'b'", "a IN ('a', 'B', 'b ') OR f"))
    base.run("INSERT INTO t VALUES (N'a', 0), (N'B', 0), (N'b ', 0), (N'z', 1), (NULL, 0)")
    for value in ("N'b', 1", "N'A', 0", "N'a ', 0"):
        with pytest.raises(ConstraintViolation):
            base.run(f"INSERT INTO t VALUES ({value})")


def test_every_kind_of_check_and_default_is_understood(base):
    kinds = {
        "d": (pa.date32(), "DATE '2020-01-01'", "d > '2019-12-31'"),
        "ts": (
            pa.timestamp("us"),
            "'2020-01-01 10:00'",
            "ts BETWEEN '2019-01-01' AND '2021-01-01'",
        ),
        "tz": (pa.timestamp("us", tz="UTC"), "now()", "tz > '2020-01-01 00:00:00+00'::TIMESTAMPTZ"),
        "tm": (pa.time64("us"), "TIME '10:00'", "tm < TIME '11:00'"),
        "u": (pa.uuid(), "uuid()", "u <> '12345678-1234-1234-1234-123456789abc'"),
        "n": (pa.decimal128(10, 2), "-1.5", "n * 2 < 0.5"),
        "x": (pa.float64(), "0.1", "x = 0.1"),
        "r": (pa.float32(), "0.5", "r <= 0.5"),
        "b": (pa.binary(), "'\\x41'", "b IS NOT NULL"),
        "f": (pa.bool_(), "true", "f"),
    }
    fields = [pa.field(n, t, False, metadata={"default": d}) for n, (t, d, _) in kinds.items()]
    checks = tuple(each for *_, each in kinds.values())
    table = base.create("t", pa.schema([pa.field("id", pa.int32()), *fields]), checks=checks)
    base.run("INSERT INTO t (id) VALUES (1)")
    info = table.info(None)
    shown = {each.name for each in info.schema if each.metadata}
    assert shown == kinds.keys() - {"tz", "u"}
    assert {each.name for each in info.schema if each.nullable} == {"id", "tz", "u"}
    assert len(info.checks) >= 8


def test_keys_of_text_are_short_enough(base):
    columns = pa.schema([("a", pa.string()), ("b", pa.binary()), ("c", pa.string())])
    keys = (UniqueKey(("a",), True), UniqueKey(("b", "c")))
    table = base.create("t", columns, keys=keys)
    assert [each.length for each in table.columns] == [900, 450, 450]
    assert set(table.keys) == set(keys)


def test_a_table_of_a_query_may_be_a_columnstore(base):
    columns = pa.schema([pa.field("id", pa.int32())])
    table = base.create("t", columns, by_query=True, keys=(UniqueKey(("id",), True),))
    kinds = base.run(f"SELECT type FROM sys.indexes WHERE object_id = {table.object_id}")
    assert sorted(kinds) == [(2,), (5,)]


def test_added_column_is_filled(base, items):
    base.alter(items, AddColumn(pa.field("n", pa.string())))
    field = pa.field("d", pa.int32(), False, metadata={"default": "40 + 2"})
    table = base.alter(items, AddColumn(field))
    assert base.rows(columns="n, d") == [(None, 42)] * 3
    assert table.info(None).schema.field("d").metadata == {b"default": b"42"}
    with pytest.raises(AlreadyExists, match="QTY"):
        base.alter(items, AddColumn(pa.field("QTY", pa.int16())))
    same = base.alter(items, AddColumn(pa.field("QTY", pa.int16()), if_not_exists=True))
    assert same == table
    with pytest.raises(FailedPrecondition, match="z"):
        base.alter(items, AddColumn(pa.field("z", pa.int16(), nullable=False)))
    with pytest.raises(BadRequest, match="RowID"):
        base.alter(items, AddColumn(pa.field("RowID", pa.int16())))


def test_a_column_in_use_goes_only_with_cascade(base, items):
    for name in ("qty", "ID"):
        with pytest.raises(FailedPrecondition, match=name):
            base.alter(items, RemoveColumn(name))
    info = base.alter(items, RemoveColumn("qty", cascade=True)).info(None)
    assert (info.schema.names, info.checks) == (["id", "name"], ())
    table = base.alter(items, RemoveColumn("NAME"))
    with pytest.raises(FailedPrecondition, match="last"):
        base.alter(table, RemoveColumn("id", cascade=True))
    with pytest.raises(NotFound, match="nope"):
        base.alter(table, RemoveColumn("nope"))
    assert base.alter(table, RemoveColumn("nope", if_exists=True)) == table


def test_renamed_column_takes_its_constraints_along(base, items):
    table = base.alter(items, RenameColumn("QTY", "A]mount"))
    table = base.alter(table, RenameColumn("id", "ID"))
    info = table.info(None)
    assert info.schema.names == ["ID", "A]mount", "name"]
    assert (info.checks, info.keys) == (('("A]mount" > 0)',), (UniqueKey(("ID",), True),))
    with pytest.raises(ConstraintViolation):
        base.run("INSERT INTO items VALUES (4, -1, N'')")
    with pytest.raises(DuplicateKey):
        base.run("INSERT INTO items VALUES (1, 1, N'')")
    with pytest.raises(AlreadyExists, match="Name"):
        base.alter(table, RenameColumn("id", "Name"))
    with pytest.raises(NotFound, match="nope"):
        base.alter(table, RenameColumn("nope", "x"))


def test_a_handle_finds_the_table_under_its_new_name(base, items):
    base.create("other", COLUMNS)
    with pytest.raises(AlreadyExists, match="OTHER"):
        base.alter(items, RenameTable("OTHER"))
    assert base.alter(items, RenameTable("Things")).name == "Things"
    assert base.alter(items, RenameTable("THINGS")).name == "THINGS"
    with pytest.raises(BadRequest):
        base.alter(items, RenameTable(""))
    base.run("DROP TABLE THINGS")
    with pytest.raises(NotFound, match="items"):
        base.alter(items, DropNotNull("qty"))


def test_a_default_applies_to_later_inserts(base, items):
    table = base.alter(items, SetDefault("Qty", "5"))
    base.alter(items, SetDefault("name", "'a' || 'b'"))
    base.run("INSERT INTO items (id) VALUES (4)")
    assert base.rows()[-1] == (4, 5, "ab")
    assert table.info(None).schema.field("qty").metadata == {b"default": b"5"}
    table = base.alter(items, SetDefault("qty", ""))
    assert table.info(None).schema.field("qty").metadata is None
    for bad in ("'x'", "id + 1", "(SELECT 1)"):
        with pytest.raises(BadRequest):
            base.alter(items, SetDefault("qty", bad))


def test_changed_type_keeps_what_uses_the_column(base, items):
    base.alter(items, SetDefault("qty", "5"))
    base.alter(items, ChangeType(pa.field("QTY", pa.int16()), "CAST(qty AS SMALLINT)"))
    table = base.alter(items, ChangeType(pa.field("ID", pa.string())))
    assert base.rows(columns="id, qty") == [("1", 10), ("2", 20), ("3", None)]
    info = table.info(None)
    assert info.schema.types == [pa.string(), pa.int16(), pa.string()]
    assert not info.schema.field("id").nullable
    assert (info.checks, info.keys) == (("(qty > 0)",), (UniqueKey(("id",), True),))
    assert info.schema.field("qty").metadata == {b"default": b"5"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (ChangeType(pa.field("qty", pa.string())), FailedPrecondition, "qty > 0"),
        (ChangeType(pa.field("name", pa.int32())), FailedPrecondition, "name.*'x'"),
        (ChangeType(pa.field("name", pa.date32())), FailedPrecondition, "name"),
        (ChangeType(pa.field("name", pa.int32()), "length(name)"), NotSupported, "USING"),
        (ChangeType(pa.field("name", pa.int32()), "nope + 1"), BadRequest, "nope"),
        (ChangeType(pa.field("name", pa.binary())), NotSupported, "another column"),
        (ChangeType(pa.field("nope", pa.int32())), NotFound, "nope"),
        (AddField(("name",), pa.field("x", pa.int8())), NotSupported, "STRUCT"),
    ],
)
def test_type_changes_that_are_not_made(base, items, change, error, words):
    with pytest.raises(error, match=words):
        base.alter(items, change)
    assert base.table("items") == items


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "old", "new", "expected"),
    [
        ("'-12'", pa.string(), pa.int64(), -12),
        ("'1.50'", pa.string(), pa.decimal128(10, 2), Decimal("1.50")),
        ("'1.5e3'", pa.string(), pa.float64(), 1500.0),
        ("'2020-01-02'", pa.string(), pa.date32(), date(2020, 1, 2)),
        ("'2020-01-02 03:04:05.5'", pa.string(), pa.timestamp("us"), None),
        ("2", pa.float64(), pa.int32(), 2),
        ("1.50", pa.decimal128(10, 2), pa.string(), "1.50"),
        ("1.00", pa.decimal128(10, 2), pa.int16(), 1),
        ("'2020-01-02'", pa.date32(), pa.string(), "2020-01-02"),
        ("7", pa.int32(), pa.bool_(), True),
    ],
)
def test_values_survive_where_both_servers_convert_alike(base, value, old, new, expected):
    table = base.create("items", pa.schema([pa.field("id", pa.int32()), pa.field("v", old)]))
    base.run(f"INSERT INTO items VALUES (1, {value}), (2, NULL)")
    after = base.alter(table, ChangeType(pa.field("v", new)))
    assert after.info(None).schema.field("v").type == new
    found = base.rows(columns="v")
    assert found[1] == (None,)
    assert expected is None or found[0] == (expected,)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "old", "new"),
    [
        ("''", pa.string(), pa.int32()),
        ("' '", pa.string(), pa.float64()),
        ("'1-2'", pa.string(), pa.int32()),
        ("'1.5'", pa.string(), pa.int32()),
        ("'x'", pa.string(), pa.decimal128(10, 2)),
        ("'01/02/2020'", pa.string(), pa.date32()),
        ("'2020-01-02 03:04:05+01:00'", pa.string(), pa.timestamp("us")),
        ("1.5", pa.float64(), pa.int32()),
        ("1.5", pa.decimal128(10, 2), pa.int32()),
    ],
)
def test_values_that_sql_server_reads_otherwise_keep_their_type(base, value, old, new):
    table = base.create("items", pa.schema([pa.field("id", pa.int32()), pa.field("v", old)]))
    base.run(f"INSERT INTO items VALUES (1, {value})")
    with pytest.raises(FailedPrecondition, match=r"dbo\.items\.v"):
        base.alter(table, ChangeType(pa.field("v", new)))


def test_a_number_that_does_not_fit_names_its_column(base, items):
    base.run("UPDATE items SET qty = 70000 WHERE id = 1")
    with pytest.raises(FailedPrecondition, match=r"dbo\.items\.qty"):
        base.alter(items, ChangeType(pa.field("qty", pa.int16())))
    assert base.table("items") == items


def test_not_null_comes_and_goes(base, items):
    with pytest.raises(FailedPrecondition, match=r"qty.* 1 NULL"):
        base.alter(items, SetNotNull("qty"))
    base.run("DELETE FROM items WHERE qty IS NULL")
    table = base.alter(items, SetNotNull("QTY"))
    assert not table.info(None).schema.field("qty").nullable
    assert table.checks == items.checks
    assert base.alter(table, DropNotNull("qty")) == items
    with pytest.raises(FailedPrecondition, match="primary key"):
        base.alter(items, DropNotNull("id"))
    with pytest.raises(NotFound):
        base.alter(items, SetNotNull("nope"))


def test_added_check_judges_old_and_new_rows(base, items):
    with pytest.raises(FailedPrecondition, match="qty = 20"):
        base.alter(items, AddCheck("qty < 20"))
    with pytest.raises(BadRequest, match="nope"):
        base.alter(items, AddCheck("nope < 20"))
    with pytest.raises(NotSupported, match="LENGTH"):
        base.alter(items, AddCheck("length(name) < 20"))
    table = base.alter(items, AddCheck("qty < 100"))
    assert table.info(None).checks == ("(qty > 0)", "(qty < 100)")
    with pytest.raises(ConstraintViolation):
        base.run("INSERT INTO items VALUES (9, 100, N'')")


def test_added_key_judges_old_and_new_rows(base, items):
    base.run("INSERT INTO items VALUES (4, 10, N'4'), (5, NULL, NULL)")
    with pytest.raises(FailedPrecondition, match=r"\(qty\) = \(10\)"):
        base.alter(items, AddKey(UniqueKey(("qty",))))
    with pytest.raises(FailedPrecondition, match="primary"):
        base.alter(items, AddKey(UniqueKey(("name",), True)))
    table = base.alter(items, AddKey(UniqueKey(("NAME",))))
    assert UniqueKey(("name",)) in table.keys
    assert table.columns[2].length == 900
    with pytest.raises(DuplicateKey):
        base.run("INSERT INTO items VALUES (6, 1, N'4')")


def test_added_primary_key_wants_no_nulls(base):
    table = base.create("t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    base.run("INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(FailedPrecondition, match="name"):
        base.alter(table, AddKey(UniqueKey(("name",), True)))
    info = base.alter(table, AddKey(UniqueKey(("id",), True))).info(None)
    assert not info.schema.field("id").nullable


def test_a_view_is_not_altered(base, items):
    base.run("CREATE VIEW seen AS SELECT id FROM items")
    with pytest.raises(FailedPrecondition, match="is a view"):
        base.alter(base.table("seen"), RenameTable("x"))


def test_what_the_server_fills_in_is_not_asked_of_clients(base):
    base.run(
        "CREATE TABLE t (id int NOT NULL IDENTITY PRIMARY KEY, made datetime2 NOT NULL DEFAULT"
        " sysutcdatetime(), n int NOT NULL DEFAULT 7, s nvarchar(9) CHECK (s = N'a' OR s = N'b'))"
    )
    info = base.table("t").info(None)
    assert [each.nullable for each in info.schema] == [True, True, False, True]
    assert [each.metadata for each in info.schema] == [None, None, {b"default": b"7"}, None]
    assert info.checks == ()
