"""Texts in `varchar` columns: what arrives is what was sent, or it is refused."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.bulk_load import LoadTarget, load
from jetbridge.backends.mssql.write.driver_batches import BulkColumn
from jetbridge.errors import BadRequest
from tests.helpers import mssql_server
from tests.pipeline.targets import Bench, bench

pytestmark = pytest.mark.mssql
COLLATIONS = {
    "latin": "SQL_Latin1_General_CP1_CI_AS",
    "utf": "Latin1_General_100_CI_AS_SC_UTF8",
    "dos": "SQL_Latin1_General_CP850_CI_AS",
    "cyrillic": "Cyrillic_General_CI_AS",
}
COLUMNS = ", ".join(f"{name} varchar(50) COLLATE {each}" for name, each in COLLATIONS.items())
# Among rows of ASCII, for those go another way.
ROWS = [
    (0, "plain", "plain", "plain", "plain"),
    (1, "café €", "日本 😀 é", "é ß ñ", "Жук"),
    (2, None, "", "ä", None),
    (3, "plain", "Ω", "plain", "щи"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Bench]:
    if mssql_server.is_given() and mssql_server.is_babelfish():
        pytest.skip("has no columns of other code pages")
    with bench("mssql") as made:
        yield made


@pytest.fixture
def table(server: Bench) -> Bench:
    with server.catalog.database.server.borrow_core() as connection:
        connection.run(
            "IF OBJECT_ID(N'dbo.pages') IS NOT NULL DROP TABLE dbo.pages; "
            f"CREATE TABLE dbo.pages (id int NOT NULL PRIMARY KEY, {COLUMNS})"
        )
    return server


def written(value: str | int | None) -> str:
    return "NULL" if value is None else repr(value)


VALUES = ", ".join(f"({', '.join(map(written, row))})" for row in ROWS)


def stored(server: Bench) -> list[tuple[object, ...]]:
    """Return the bytes as the server itself converts them."""
    texts = ", ".join(f"CONVERT(nvarchar(max), {name})" for name in COLLATIONS)
    asked = f"SELECT id, {texts} FROM dbo.pages ORDER BY id"
    found: list[tuple[object, ...]] = server.catalog.database.server.query(asked)
    return found


def test_texts_arrive_whatever_the_code_page(table):
    table.sql(f"INSERT INTO t.dbo.pages VALUES {VALUES}")
    assert stored(table) == ROWS
    assert table.rows("FROM t.dbo.pages ORDER BY id") == ROWS


def test_only_what_the_driver_would_write_wrongly_goes_by_statements(table, core_texts):
    table.sql("INSERT INTO t.dbo.pages (id, latin, cyrillic) VALUES (1, 'café', 'Жук')")
    assert not [text for text in core_texts if text.startswith("INSERT INTO [dbo].[pages]")]
    table.sql("INSERT INTO t.dbo.pages (id, utf) VALUES (2, 'café'), (3, 'plain')")
    (sent,) = [text for text in core_texts if text.startswith("INSERT INTO [dbo].[pages]")]
    assert "café" in sent
    assert "plain" not in sent


def test_changes_of_such_texts(table):
    table.sql(f"INSERT INTO t.dbo.pages VALUES {VALUES}")
    table.sql("UPDATE t.dbo.pages SET utf = utf || '語', dos = 'ö' WHERE id > 0")
    assert [row[2:4] for row in stored(table)] == [
        ("plain", "plain"),
        ("日本 😀 é語", "ö"),
        ("語", "ö"),
        ("Ω語", "ö"),
    ]


def test_keys_of_such_texts(server):
    with server.catalog.database.server.borrow_core() as connection:
        connection.run(
            f"CREATE TABLE dbo.keyed (k varchar(20) COLLATE {COLLATIONS['utf']} NOT NULL PRIMARY "
            "KEY, v int)"
        )
    server.sql("INSERT INTO t.dbo.keyed VALUES ('日本', 1), ('été', 2), ('plain', 3)")
    server.sql("UPDATE t.dbo.keyed SET v = v + 10 WHERE k <> 'plain'")
    server.sql("DELETE FROM t.dbo.keyed WHERE k = 'été'")
    assert server.rows("SELECT k, v FROM t.dbo.keyed ORDER BY v") == [("plain", 3), ("日本", 11)]


@pytest.mark.parametrize("by_bulk_copy", [True, False])
def test_letters_that_a_page_lacks_are_refused_with_column_and_row(table, by_bulk_copy):
    table.sql(f"SET mssql_ctas_use_bcp = {by_bulk_copy}")
    try:
        with pytest.raises(
            BadRequest, match=r"column 'latin', row 1: '?日本'? has characters.* 1252"
        ):
            table.sql("INSERT INTO t.dbo.pages (id, latin) VALUES (1, 'é'), (2, '日本')")
    finally:
        table.sql("RESET mssql_ctas_use_bcp")
    assert stored(table) == []


@pytest.mark.parametrize("kind", ["char(6)", "text"])
def test_letters_of_old_types_are_judged_too(server, kind):
    with server.catalog.database.server.borrow_core() as connection:
        connection.run(
            "IF OBJECT_ID(N'dbo.old') IS NOT NULL DROP TABLE dbo.old; "
            f"CREATE TABLE dbo.old (id int NOT NULL PRIMARY KEY, name {kind})"
        )
    server.sql("INSERT INTO t.dbo.old VALUES (1, 'café'), (2, NULL)")
    with pytest.raises(BadRequest, match=r"column 'name', row 0: .*code page 1252"):
        server.sql("INSERT INTO t.dbo.old VALUES (3, '日本')")
    with pytest.raises(BadRequest, match=r"column 'name', row 0: .*code page 1252"):
        server.sql("UPDATE t.dbo.old SET name = '日本' WHERE id = 1")
    found = server.rows("SELECT id, rtrim(name) FROM t.dbo.old ORDER BY id")
    assert found == [(1, "café"), (2, None)]


def test_a_table_that_statements_fill_as_well_is_not_locked_for_bulk_copy(table):
    """Take no lock: writers that load at once would wait for each other without end."""
    columns = (
        BulkColumn("id", "int"),
        BulkColumn("utf", f"varchar(50) COLLATE {COLLATIONS['utf']}"),
    )
    latin = (columns[0], BulkColumn("latin", f"varchar(50) COLLATE {COLLATIONS['latin']}"))
    seen: list[bool] = []
    for given in (columns, latin):
        goal = LoadTarget("[dbo].[pages]", given, lock=True)
        batch = pa.record_batch(
            [pa.array([len(seen)], pa.int32()), pa.array(["é"])], names=[c.name for c in given]
        )
        with table.catalog.database.server.borrow_core() as connection, connection.transaction():
            real = connection.load

            def noted(*args, real=real, lock=False, **kwargs):
                seen.append(lock)
                return real(*args, lock=lock, **kwargs)

            connection.load = noted
            assert load(connection, goal, partial(list, [batch]), MssqlSettings()) == 1
            connection.load = real
    assert seen == [False, True]
    assert [(row[0], row[1], row[2]) for row in stored(table)] == [(0, None, "é"), (1, "é", None)]


def test_create_table_as_with_varchar_refuses_them_before_it_makes_anything(server):
    server.sql("SET mssql_ctas_text_type = 'VARCHAR'")
    try:
        server.sql("CREATE TABLE t.dbo.fits AS SELECT 'café' AS name")
        assert server.rows("FROM t.dbo.fits") == [("café",)]
        with pytest.raises(BadRequest, match="column 'name', row 0: .*use nvarchar"):
            server.sql("CREATE TABLE t.dbo.lost AS SELECT '日本' AS name")
    finally:
        server.sql("RESET mssql_ctas_text_type")
    assert "lost" not in server.tables()
