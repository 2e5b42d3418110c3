"""CREATE SECRET and ATTACH in a session: what ATTACH gets, and that nothing shows a password."""

import logging

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.errors import AlreadyExists, BadRequest, FailedPrecondition, NotFound, ServerError
from jetbridge.pipeline.parsing.parse import parse
from jetbridge.pipeline.parsing.tokens import without_secrets
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import AttachSupport, Session, SessionResources

WORD = "hunter2"
SECRET = f"CREATE SECRET s (TYPE mssql, HOST 'db', PASSWORD '{WORD}')"


class Attaching:
    """A session whose ATTACH makes empty catalogs; `asked` are statements and secrets."""

    def __init__(self) -> None:
        self.asked: list = []
        resources = SessionResources(attach=AttachSupport(self.attached))
        self.session = Session({"memory": MemoryCatalog()}, resources)

    def attached(self, statement, find_secret):
        secret = find_secret(statement.options.get("secret"), "mssql")
        self.asked.append((statement, secret))
        return MemoryCatalog()

    def sql(self, text):
        return [outcome.table().to_pylist() for outcome in run(self.session, text)]


@pytest.fixture
def attaching():
    made = Attaching()
    yield made
    made.session.close()


def test_attach_gets_what_the_secret_says(attaching):
    attaching.sql(f"{SECRET}; ATTACH '' AS m (TYPE mssql, SECRET S)")
    assert attaching.asked[0][1] == {"type": "mssql", "host": "db", "password": WORD}
    assert {"database_name": "m"} in attaching.sql("SHOW DATABASES")[0]


def test_secret_without_a_name_is_for_every_attach_that_names_none(attaching):
    attaching.sql("CREATE SECRET (TYPE mssql, USER 'u')")
    attaching.sql(f"{SECRET}; ATTACH 'a' AS a; ATTACH 'b' AS b (SECRET s)")
    assert [secret.get("user") for _, secret in attaching.asked] == ["u", None]


def test_extensions_that_are_built_in_are_accepted(attaching):
    told = attaching.sql("INSTALL mssql FROM community; LOAD mssql")
    assert [(each[0]["statement"], each[0]["target"]) for each in told] == [
        ("INSTALL", "mssql"),
        ("LOAD", "mssql"),
    ]
    assert {each[0]["note"] for each in told} == {"it is built in here; nothing was done"}


def test_without_secrets_attach_gets_none(attaching):
    attaching.sql("ATTACH 'a' AS a")
    assert attaching.asked[0][1] is None


def test_secret_that_is_there_stays_goes_or_is_an_error(attaching):
    attaching.sql(SECRET)
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE SECRET"):
        attaching.sql("CREATE SECRET S (TYPE mssql)")
    (reports,) = attaching.sql("CREATE SECRET IF NOT EXISTS s (TYPE mssql, USER 'x')")
    assert reports[0]["note"] == "the secret already exists; nothing was done"
    attaching.sql("ATTACH '' AS a (SECRET s)")
    attaching.sql("CREATE OR REPLACE SECRET s (TYPE mssql, USER 'x')")
    attaching.sql("ATTACH '' AS b (SECRET s)")
    assert [secret.get("user") for _, secret in attaching.asked] == [None, "x"]


def test_dropped_secret_is_gone(attaching):
    attaching.sql(f"{SECRET}; DROP SECRET S")
    with pytest.raises(NotFound, match="secret 's' does not exist; create it with CREATE SECRET"):
        attaching.sql("ATTACH '' AS m (TYPE mssql, SECRET s)")
    with pytest.raises(NotFound, match="secret 's' does not exist"):
        attaching.sql("DROP SECRET s")
    attaching.sql("DROP SECRET IF EXISTS s")


def test_missing_secret_is_told_with_those_there_are(attaching):
    attaching.sql(SECRET)
    with pytest.raises(NotFound, match="secret 'x' does not exist; known: s"):
        attaching.sql("ATTACH '' AS m (TYPE mssql, SECRET x)")


def test_clients_of_a_server_make_no_secrets():
    session = Session({"memory": MemoryCatalog()}, SessionResources())
    with pytest.raises(
        FailedPrecondition, match="CREATE SECRET is not supported in run"
    ) as refused:
        list(run(session, SECRET))
    assert WORD not in str(refused.value)
    session.close()


def test_no_report_log_or_repr_has_the_password(attaching, caplog):
    place = f"Server=db;Database=s;Password={WORD}"
    with caplog.at_level(logging.DEBUG):
        told = attaching.sql(f"{SECRET}; ATTACH '{place}' AS m (TYPE mssql, SECRET s)")
    ((statement, _),) = attaching.asked
    assert statement.location == place
    shown = [told, statement, *parse(SECRET), vars(attaching.session), attaching.session._secrets]
    assert WORD not in repr(shown)
    assert WORD not in caplog.text


UNREADABLE = [
    f"ATTACH 'Server=db;Password={WORD}'",
    f"ATTAC 'Server=db;Password={WORD}' AS m",
    f"ATTACH 'Server=db;Password={WORD} AS m",
    f"ATTACH 'mssql://u:{WORD}@db/s' AS m (TYPE",
    f"ATTACH 'mssql://u:{WORD}@db/s' AS m (TYPE mssql) x",
    f"ATTACH AS m '{WORD}'",
    f"SELECT 1; ATTAC 'mssql://u:{WORD}@db/s' AS m",
    f"CREATE SECRT s (TYPE mssql, PASSWORD '{WORD}')",
    f"CREATE SECRET s (TYPE mssql, PASSWORD '{WORD})",
    f"CREATE SECRET s (TYPE mssql, PASSWORD {WORD} {WORD})",
    f"CREATE SECRET s (TYPE mssql, PASSWORD a.{WORD})",
    f"CREATE SECRET s (TYPE mssql, PASSWORD ['{WORD}'])",
    f"CREATE SECRET s (TYPE mssql, PASSWORD '{WORD}', PASSWORD '{WORD}')",
    f"CREATE SECRET s TYPE mssql PASSWORD '{WORD}'",
    f"CREATE SECRET '{WORD}' (TYPE mssql)",
    f"CREATE PERSISTENT SECRET s (TYPE mssql, PASSWORD '{WORD}')",
    f"EXPLAIN CREATE SECRET s (TYPE mssql, PASSWORD '{WORD}')",
    f"EXPLAIN ATTACH 'mssql://u:{WORD}@db/s' AS m",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_statement_that_cannot_be_run_is_not_quoted(attaching, text):
    with pytest.raises(ServerError) as refused:
        attaching.sql(text)
    assert WORD not in str(refused.value)


def test_other_statements_that_cannot_be_read_are_quoted(attaching):
    with pytest.raises(BadRequest, match="LINE 1: SELEC password"):
        attaching.sql("SELEC password FROM t")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SECRET, "CREATE SECRET s (TYPE mssql, HOST '...', PASSWORD '...')"),
        (f"CREATE SECRET (PASSWORD {WORD})", "CREATE SECRET (PASSWORD '...')"),
        (f"ATTACH 'Server=db;PWD={WORD}' AS m", "ATTACH '...' AS m"),
        (f"ATTAC 'mssql://u:{WORD}@db' AS m", "ATTAC '...' AS m"),
        ("SELECT 'a' -- b", "SELECT 'a' -- b"),
    ],
)
def test_echo_leaves_out_what_may_be_a_password(text, shown):
    assert without_secrets(text) == shown
