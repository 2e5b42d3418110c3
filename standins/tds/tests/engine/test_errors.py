"""The engine's errors: SQL Server's numbers and words."""

from collections.abc import Iterator

import pytest

from standins.tds.engine import DuckEngine, Login
from standins.tds.engine.session import DuckSession
from standins.tds.engine.storage.names import EVERYTHING
from standins.tds.tests.engine.calls import (
    answers,
    connected,
    engine_of_a_module,
    fresh,
    numbers,
    refused,
    rows,
    run,
    value,
)
from standins.tds.values import Parameter, SqlError, SqlType

engine = pytest.fixture(scope="module")(engine_of_a_module)
SETUP = """
CREATE TABLE parent (
    id int NOT NULL CONSTRAINT pk_parent PRIMARY KEY, v nvarchar(5) NOT NULL, n int NULL)
CREATE TABLE child (id int NOT NULL, pid int NOT NULL CONSTRAINT fk_child REFERENCES parent (id),
    CONSTRAINT ck_pos CHECK (id > 0), CONSTRAINT uq_child UNIQUE (id))
CREATE TABLE numbered (
    id int IDENTITY(1, 1) PRIMARY KEY, ti tinyint, d decimal(5, 2), dt datetime, vb varbinary(2))
CREATE UNIQUE INDEX ux ON parent (n)
CREATE INDEX ix_ti ON numbered (ti)
INSERT INTO parent VALUES (1, N'a', 0)
INSERT INTO child VALUES (5, 1)
"""


@pytest.fixture(scope="module")
def session(engine: DuckEngine) -> Iterator[DuckSession]:
    made = connected(engine, fresh(engine))
    run(made, SETUP)
    yield made
    made.close()


CASES = [
    ("SELEC 1", 102, "Incorrect syntax near 'SELEC'."),
    ("SELECT * FROM parent WHERE ORDER BY id", 156, "Incorrect syntax near the keyword 'ORDER'."),
    ("SELECT 'abc", 105, "Unclosed quotation mark after the character string 'abc'."),
    ("INSERT INTO parent (id, v) VALUES (2)", 109, "more columns"),
    ("INSERT INTO parent (id, v) VALUES (2, 'a', 3)", 110, "fewer columns"),
    ("INSERT INTO parent (id, v) SELECT 2", 120, "fewer items"),
    ("INSERT INTO parent (id, v) SELECT 2, 'a', 3", 121, "more items"),
    ("DECLARE @x int; DECLARE @x int", 134, "'@x' has already been declared"),
    ("SELECT @nosuch", 137, 'Must declare the scalar variable "@nosuch".'),
    ("SELECT 1 UNION ALL SELECT 1, 2", 205, "equal number of expressions"),
    ("SELECT CAST(1 AS date)", 206, "Operand type clash: int is incompatible with date"),
    ("SELECT nosuch FROM parent", 207, "Invalid column name 'nosuch'."),
    ("SELECT * FROM dbo.nosuch", 208, "Invalid object name 'dbo.nosuch'."),
    ("SELECT id FROM parent CROSS JOIN child", 209, "Ambiguous column name 'id'."),
    ("INSERT INTO parent VALUES (2)", 213, "does not match table definition"),
    ("SELECT CAST(300 AS tinyint)", 220, "Arithmetic overflow error for data type tinyint,"
            " value = 300."),
    ("INSERT INTO numbered (ti) VALUES (-1)", 220, "data type tinyint, value = -1."),
    ("INSERT INTO numbered (dt) VALUES"
     " ('2024-13-01')", 241, "Conversion failed when converting date"),
    ("INSERT INTO numbered (dt) VALUES ('1600-01-01')", 242, "out-of-range value"),
    ("SELECT CAST('40000' AS smallint)", 244, "overflowed an INT2 column"),
    ("SELECT CAST('abc' AS int)", 245, "Conversion failed when converting the varchar value"
                                       " 'abc' to data type int."),
    ("SELECT * FROM parent WHERE v ="
     " 1", 245, "converting the nvarchar value 'a' to data type int."),
    ("SELECT CAST('99999999999' AS int)", 248, "overflowed an int column"),
    ("INSERT INTO numbered (vb) VALUES"
     " ('ab')", 257, "Implicit conversion from data type varchar to varbinary"),
    ("UPDATE parent SET n = 1, n = 2", 264, "'n' is specified more than once"),
    ("SELECT (SELECT 1 UNION ALL SELECT 2)", 512, "Subquery returned more than 1 value."),
    (
        "INSERT INTO parent (id, v) VALUES (2, NULL)", 515,
        "Cannot insert the value NULL into column 'v', table '{db}.dbo.parent'; column does not"
        " allow nulls. INSERT fails.",
    ),
    ("INSERT INTO parent (id) VALUES (2)", 515, "column 'v'"),
    ("UPDATE parent SET v = NULL", 515, "UPDATE fails."),
    ("INSERT INTO numbered (id, ti) VALUES (1, 1)", 544, "IDENTITY_INSERT is set to OFF"),
    ("CREATE TABLE twice (a nvarchar(9) COLLATE Latin1_General_BIN2 COLLATE Latin1_General_BIN2)",
     102, "COLLATE"),
    (
        "INSERT INTO child VALUES (-1, 1)", 547,
        'The INSERT statement conflicted with the CHECK constraint "ck_pos". The conflict occurred'
        ' in database "{db}", table "dbo.child".',
    ),
    ("INSERT INTO child VALUES (9, 42)", 547, 'FOREIGN KEY constraint "fk_child"'),
    ("DELETE FROM parent WHERE id ="
     " 1", 547, 'The DELETE statement conflicted with the REFERENCE constraint "fk_child"'),
    ("UPDATE parent SET id = 3 WHERE id ="
     " 1", 547, "UPDATE statement conflicted with the REFERENCE"),
    ("USE nosuch", 911, "Database 'nosuch' does not exist."),
    ("SELECT * FROM (SELECT id FROM parent ORDER BY id) q", 1033, "The ORDER BY clause is invalid"),
    ("CREATE INDEX ix ON nosuch (id)", 1088, 'Cannot find the object "nosuch"'),
    ("TRUNCATE TABLE nosuch", 4701, "nosuch"),
    ("ALTER TABLE numbered ADD CONSTRAINT p2 PRIMARY KEY (ti)", 1779, "already has a primary key"),
    ("CREATE INDEX ix ON parent (nosuch)", 1911, "Column name 'nosuch' does not exist"),
    ("CREATE INDEX ux ON parent (id)", 1913, "'ux' already exists"),
    (
        "INSERT INTO parent VALUES (2, 'b', 0)", 2601,
        "Cannot insert duplicate key row in object 'dbo.parent' with unique index 'ux'. The"
        " duplicate key value is (0).",
    ),
    (
        "INSERT INTO parent VALUES (1, 'b', 7)", 2627,
        "Violation of PRIMARY KEY constraint 'pk_parent'. Cannot insert duplicate key in object"
        " 'dbo.parent'. The duplicate key value is (1).",
    ),
    ("INSERT INTO child VALUES (5, 1)", 2627, "Violation of UNIQUE KEY constraint 'uq_child'."),
    (
        "INSERT INTO parent VALUES (3, N'too long text', 9)", 2628,
        "String or binary data would be truncated in table '{db}.dbo.parent', column 'v'. Truncated"
        " value: 'too l'.",
    ),
    ("INSERT INTO numbered (vb) VALUES (0x010203)", 2628, "column 'vb'"),
    ("CREATE TABLE twice (a int, A"
     " int)", 2705, "Column name 'A' in table 'dbo.twice' is specified more than once."),
    ("CREATE TABLE parent (id int)", 2714, "There is already an object named 'parent' in the"
            " database."),
    ("CREATE TABLE wrong (a nosuch)", 2715, "Cannot find data type nosuch."),
    ("CREATE TABLE wrong (a decimal(39, 0))", 2750, "39"),
    ("CREATE TABLE nosuch.t (a int)", 2760, 'The specified schema name "nosuch"'),
    ("EXEC dbo.nosuch", 2812, "Could not find stored procedure"),
    ("DROP TABLE dbo.nosuch", 3701, "Cannot drop the table 'dbo.nosuch', because it does not"
                                    " exist or you do not have permission."),
    ("DROP DATABASE nosuch", 3701, "Cannot drop the database 'nosuch'"),
    ("DROP DATABASE {db}", 3702, "currently in use"),
    ("DROP VIEW parent", 3705, "Use DROP TABLE."),
    ("DROP TABLE parent", 3726, "Could not drop object 'parent' because it is referenced by a"
                                " FOREIGN KEY constraint."),
    ("ALTER TABLE parent DROP CONSTRAINT nosuch", 3728, "'nosuch' is not a constraint."),
    ("SELECT nosuch.id FROM parent", 4104, 'identifier "nosuch.id" could not be bound.'),
    ("TRUNCATE TABLE parent", 4712, "referenced by a FOREIGN KEY constraint"),
    ("ALTER TABLE nosuch ADD a int", 4902, 'Cannot find the object "nosuch"'),
    ("ALTER TABLE parent ADD extra int NOT NULL", 4901, "Column 'extra' cannot be added"),
    ("ALTER TABLE parent DROP COLUMN"
     " nosuch", 4924, "column 'nosuch' does not exist in table 'parent'"),
    ("INSERT INTO numbered VALUES (1, 1, 1, NULL,"
     " NULL)", 8101, "can only be specified when a column list is used"),
    ("SELECT CAST('x' AS decimal(5, 2))", 8114, "Error converting data type varchar to numeric."),
    ("INSERT INTO numbered (d) VALUES"
     " (1000)", 8115, "Arithmetic overflow error converting int to data type numeric."),
    ("SELECT 2147483647 + 1", 8115, "Arithmetic overflow error converting expression to data"
                                    " type int."),
    ("SELECT CAST(3000000000 AS int)", 8115, "data type int"),
    ("SELECT SUM(x) FROM (VALUES (2000000000), (2000000000)) v(x)", 8115, "int"),
    ("SELECT id, COUNT(*) FROM parent", 8120, "is invalid in the select list"),
    ("SELECT 1/0", 8134, "Divide by zero error encountered."),
    ("SELECT 1.5/0", 8134, "Divide by zero"),
    ("SELECT 1 % 0", 8134, "Divide by zero"),
    ("SELECT * FROM (SELECT id + 1 FROM parent)"
     " q", 8155, "No column name was specified for column 1 of 'q'."),
    ("SELECT CAST('x' AS uniqueidentifier)", 8169, "uniqueidentifier"),
    (
        "MERGE parent AS t USING (VALUES (1), (1)) AS s(id) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET n = 5;", 8672, "attempted to UPDATE or DELETE the same row",
    ),
    (
        "MERGE parent AS t USING (VALUES (1)) AS s(id) ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET n = 5", 10713, "terminated by a semi-colon",
    ),
    ("EXEC sp_rename 'nosuch', 'x'", 15225, "No item by the name of 'nosuch'"),
    ("EXEC sp_rename 'parent', 'child'", 15335, "'child' is already in use"),
    ("EXEC sp_rename 'parent.nosuch', 'x', 'COLUMN'", 15248, "@objname is ambiguous"),
    ("DROP SCHEMA nosuch", 15151, "Cannot drop the schema 'nosuch'"),
    ("RAISERROR('custom %d', 16, 1, 7)", 50000, "custom 7"),
    ("THROW 51000, 'thrown', 2", 51000, "thrown"),
    ("SELECT FORMAT(1, 'N')", 40000, "the stand-in does not know: the function FORMAT"),
    ("SELECT TOP 5 PERCENT id FROM parent", 40000, "TOP PERCENT"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number", "words"), CASES, ids=[f"{c[1]}-{c[0][:40]}" for c in CASES]
)
def test_numbers_and_words(session, text, number, words):
    failure = refused(session, text.format(db=session.database) if "{db}" in text else text)
    assert (failure.number, words.format(db=session.database) in failure.text) == (number, True), (
        failure.text
    )


def test_nothing_of_what_was_refused_stayed(session):
    for text, _, _ in CASES:
        answers(session, text.format(db=session.database) if "{db}" in text else text)
    assert rows(session, "SELECT id, v, n FROM parent") == [(1, "a", 0)]
    assert rows(session, "SELECT id, pid FROM child") == [(5, 1)]
    assert rows(session, "SELECT * FROM numbered") == []


def test_the_number_is_known_to_the_next_batch(session):
    for text, number, _ in (CASES[0], CASES[11], CASES[15]):
        refused(session, text)
        assert value(session, "SELECT @@ERROR") == number
        assert value(session, "SELECT @@ERROR") == 0


def test_severities(session):
    found = {
        number: refused(session, text).severity for text, number, _ in CASES if "{db}" not in text
    }
    assert {n: found[n] for n in (102, 208, 245, 2627, 3701)} == {
        102: 15,
        208: 16,
        245: 16,
        2627: 14,
        3701: 11,
    }


def test_more_than_a_thousand_rows_are_refused(session):
    run(session, "CREATE TABLE many (id int)")
    listed = ", ".join(f"({each})" for each in range(1000))
    run(session, f"INSERT INTO many VALUES {listed}")
    assert refused(session, f"INSERT INTO many VALUES {listed}, (1000)").number == 10738
    assert refused(session, f"INSERT INTO many VALUES {listed}, (1 + 1)").number == 10738
    assert value(session, "SELECT COUNT(*) FROM many") == 1000


def test_more_than_2100_parameters_are_refused(session):
    given = [Parameter(f"@P{each}", SqlType("int"), each) for each in range(2101)]
    assert value(session, "SELECT @P0 + @P2099", *given[:2100]) == 2099
    assert refused(session, "SELECT @P0", *given).number == 8003


def test_a_column_in_use_is_not_dropped(session):
    found = answers(session, "ALTER TABLE numbered DROP COLUMN ti")
    assert numbers(found) == [5074, 4922]
    assert found[0].text == "The index 'ix_ti' is dependent on column 'ti'."
    assert found[1].text == (
        "ALTER TABLE DROP COLUMN ti failed because one or more objects access this column."
    )


def test_a_schema_that_exists_is_not_created(session):
    run(session, "CREATE SCHEMA there")
    assert numbers(answers(session, "CREATE SCHEMA there")) == [2714, 2759]


def test_identity_insert(session):
    run(
        session,
        "CREATE TABLE n1 (id int IDENTITY, v int); CREATE TABLE n2 (id int IDENTITY, v int)",
    )
    run(session, "SET IDENTITY_INSERT n1 ON; INSERT INTO n1 (id, v) VALUES (7, 1)")
    assert refused(session, "INSERT INTO n1 (v) VALUES (1)").number == 545
    assert refused(session, "INSERT INTO n1 VALUES (1, 1)").number == 8101
    assert refused(session, "SET IDENTITY_INSERT n2 ON").number == 8107
    run(session, "SET IDENTITY_INSERT n1 OFF; INSERT INTO n1 (v) VALUES (2)")
    assert rows(session, "SELECT id, v FROM n1 ORDER BY id") == [(7, 1), (8, 2)]
    assert refused(session, "UPDATE n1 SET id = 1").number == 8102
    assert refused(session, "SET IDENTITY_INSERT parent ON").number == 8106


def test_a_duplicate_in_existing_rows_prevents_a_unique_index(session):
    run(session, "CREATE TABLE doubled (id int); INSERT INTO doubled VALUES (1), (1), (2)")
    assert refused(session, "CREATE UNIQUE INDEX one ON doubled (id)").number == 1505


def test_logins_are_checked(engine):
    for given in (("nobody", "secret", ""), ("sa", "wrong", "")):
        with pytest.raises(SqlError) as caught:
            engine.login(*given)
        assert (caught.value.number, caught.value.text) == (
            18456,
            f"Login failed for user '{given[0]}'.",
        )
    with pytest.raises(SqlError) as caught:
        engine.login("sa", "secret", "nosuch")
    assert caught.value.number == 4060
    assert 'Cannot open database "nosuch" requested by the login.' in caught.value.text


@pytest.fixture
def limited(engine: DuckEngine, session: DuckSession) -> Iterator[DuckSession]:
    """May read, and nothing else; not even that in the schema `secret`."""
    answers(session, "CREATE SCHEMA secret")
    answers(session, "CREATE TABLE secret.t (id int)")
    login = Login(
        "reader", "x", session.database, rights=EVERYTHING & {"SELECT"},
        hidden_schemas=frozenset({"secret"}),
        databases=frozenset({session.database}),
    )  # fmt: skip
    engine.add_login(login)
    made = engine.login("reader", "x", "")
    yield made
    made.close()


def test_what_is_not_allowed_is_refused(engine, session, limited):
    assert limited.database == session.database
    assert rows(limited, "SELECT id FROM parent") == [(1,)]
    denied = refused(limited, "CREATE TABLE mine (id int)")
    assert (denied.number, denied.text) == (
        262, f"CREATE TABLE permission denied in database '{session.database}'.",
    )  # fmt: skip
    for verb, text in {
        "INSERT": "INSERT INTO parent VALUES (9, 'x', 9)",
        "UPDATE": "UPDATE parent SET n = 9",
        "DELETE": "DELETE FROM parent",
    }.items():
        denied = refused(limited, text)
        assert denied.number == 229
        assert denied.text == (
            f"The {verb} permission was denied on the object 'parent', database"
            f" '{session.database}', schema 'dbo'."
        )
    for number, text in {
        3701: "DROP TABLE parent",
        1088: "ALTER TABLE parent ADD x int",
        15225: "EXEC sp_rename 'parent', 'mine'",
    }.items():
        assert refused(limited, text).number == number
    assert refused(limited, "SELECT * FROM secret.t").number == 208
    assert refused(limited, "USE master").number == 916
    with pytest.raises(SqlError) as caught:
        engine.login("reader", "x", "master")
    assert caught.value.number == 4060


def test_a_schema_without_access_is_as_good_as_missing(engine, session):
    answers(session, "CREATE SCHEMA secret")
    login = Login("maker", "x", session.database, hidden_schemas=frozenset({"secret"}))
    engine.add_login(login)
    made = engine.login("maker", "x", "")
    assert refused(made, "CREATE TABLE secret.mine (id int)").number == 2760
    made.close()


def test_who_may_not_select_is_told_so(engine, session):
    engine.add_login(Login("writer", "x", session.database, rights=EVERYTHING - {"SELECT"}))
    made = engine.login("writer", "x", "")
    assert refused(made, "SELECT * FROM parent").number == 229
    asked = "SELECT HAS_PERMS_BY_NAME('dbo.parent', 'OBJECT', '{}')"
    assert value(made, asked.format("INSERT")) == 1
    assert value(made, asked.format("SELECT")) == 0
    made.close()


def test_a_duplicate_moment_is_told_with_its_offset(session):
    run(session, "CREATE TABLE moments (at datetimeoffset(7) NOT NULL PRIMARY KEY)")
    insert = "INSERT INTO moments VALUES ('2020-01-02 03:04:05.6 +00:00')"
    run(session, insert)
    for text in (insert, f"{insert}, ('2021-01-01 00:00:00 +00:00'), ('2021-01-01 00:00 +00:00')"):
        assert refused(session, text).number == 2627
    assert "(2020-01-02 03:04:05.6000000 +00:00)." in refused(session, insert).text
