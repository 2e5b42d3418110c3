"""Sessions over catalogs with settings: those of the configuration, attached ones, of clients."""

from dataclasses import replace
from decimal import Decimal
from tempfile import gettempdir

import pyarrow as pa
import pytest

import jetbridge
from jetbridge.app import configuration, sessions
from jetbridge.app.sessions import spark_runner
from jetbridge.app.statement_memory import StatementShare
from jetbridge.backends.mssql.backend import BACKEND
from jetbridge.backends.mssql.config import MssqlConfig
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.settings import SETTINGS, MssqlSettings
from jetbridge.catalog import SpoolFolder
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import CatalogConfig, Config
from jetbridge.duckdb_engine.child.processes import StatementProcesses
from jetbridge.errors import BadRequest, FailedPrecondition, NotFound
from jetbridge.spark import SparkEngine
from tests.unit.pipeline.configurable import ConfigurableCatalog

MSSQL = MssqlConfig(address=Address("db", "s"))
CONFIG = Config(catalogs={"m": MSSQL})
MEMORY = Config(catalogs={"memory": CatalogConfig("memory")})
WORD = "hunter2"


class SpoolingCatalog(ConfigurableCatalog):
    """A catalog with settings, and perhaps with a folder for rows of Spark."""

    def __init__(self, spool: str) -> None:
        super().__init__()
        self._spool = spool

    def spool_folder(self) -> SpoolFolder | None:
        return SpoolFolder(self._spool) if self._spool else None


@pytest.fixture
def opened(monkeypatch):
    """Catalogs of type `mssql` by name, with what they were opened with."""
    found: dict[str, tuple[ConfigurableCatalog, MssqlConfig]] = {}

    def open_it(name, config, _):
        found[name] = SpoolingCatalog(config.spool), config
        return found[name][0]

    loaders = {**configuration.LOADERS, "mssql": lambda: replace(BACKEND, open=open_it)}
    monkeypatch.setattr(configuration, "LOADERS", loaders)
    monkeypatch.delenv("MSSQL_PASSWORD", raising=False)
    return found


def test_settings_given_to_a_session_reach_the_catalog(opened):
    with jetbridge.session(CONFIG, settings={"mssql_ctas_text_type": "VARCHAR"}) as session:
        session.sql("CREATE SCHEMA m.s; CREATE TABLE m.s.t AS SELECT 1 AS x")
    catalog = opened["m"][0]
    assert catalog.seen[-1] == ("t", {"mssql_ctas_text_type": "VARCHAR"})
    assert catalog.closed == 1


def test_settings_of_a_session_are_checked(opened):
    with (
        pytest.raises(BadRequest, match="'NVARCHAR' or 'VARCHAR'"),
        jetbridge.session(CONFIG, settings={"mssql_ctas_text_type": "TEXT"}),
    ):
        pass


def test_settings_are_known_before_a_catalog_of_their_kind_is_attached(opened):
    with jetbridge.session(MEMORY) as session:
        session.sql("SET mssql_ctas_text_type = 'VARCHAR'; ATTACH 'mssql://u@db/s' AS m")
        session.sql("CREATE SCHEMA m.s; CREATE TABLE m.s.t AS SELECT 1 AS x")
    assert opened["m"][0].seen[-1] == ("t", {"mssql_ctas_text_type": "VARCHAR"})


def shown(config):
    with jetbridge.session(config) as session:
        return session.sql("SHOW mssql_ctas_text_type")[0].to_pylist()


def test_show_tells_what_the_configuration_says_if_that_is_one_thing(opened):
    other = MssqlConfig(
        address=Address("db", "s"), settings=MssqlSettings(ctas_text_type="VARCHAR")
    )
    assert shown(Config(catalogs={"m": other})) == ["VARCHAR"]
    assert shown(Config(catalogs={"m": other, "n": MSSQL})) == ["NVARCHAR"]
    assert shown(MEMORY) == ["NVARCHAR"]


def test_all_settings_of_sql_server_are_shown(opened):
    with jetbridge.session(MEMORY) as session:
        assert set(session.sql("SHOW settings")["name"].to_pylist()) > set(SETTINGS)


def test_secret_and_attach_make_a_catalog_that_detach_closes(opened):
    with jetbridge.session(MEMORY) as session:
        session.sql(f"CREATE SECRET x (TYPE mssql, HOST 'db', USER 'u', PASSWORD '{WORD}')")
        session.sql("ATTACH 'Server=db;Database=s' AS m (TYPE mssql, SECRET x)")
        catalog, config = opened["m"]
        assert config.address == Address("db", "s", "u", WORD)
        assert catalog.closed == 0
        session.sql("DETACH m")
        assert catalog.closed == 1
        with pytest.raises(NotFound):
            session.sql("FROM m.s.t")


def test_what_is_attached_is_closed_with_the_session(opened):
    with jetbridge.session(MEMORY) as session:
        session.sql("ATTACH 'mssql://u@db/s' AS m")
    assert opened["m"][0].closed == 1


@pytest.mark.parametrize(("spool", "folder"), [("/spools", "/spools"), ("", gettempdir())])
def test_spark_spools_where_the_configuration_says(opened, spool, folder):
    config = Config(catalogs={"m": MSSQL, "n": replace(MSSQL, spool=spool)})
    with jetbridge.session(config) as session:
        runner = session.session.begin_statement().spark
        assert runner is not None
        assert runner.folder == folder


def reports(text: str, catalog: ConfigurableCatalog, config: Config = CONFIG):
    shared = SharedResources(config.limits, None)
    share = StatementShare(memory_bytes=10**9, spill_bytes=10**9)
    with StatementProcesses() as processes:
        return list(
            sessions.client_reports(
                config, shared, {"m": catalog}, text, "m", None, share, processes
            )
        )


def test_client_sets_them_for_its_own_statements():
    catalog = ConfigurableCatalog()
    told = reports(
        "SET mssql_ctas_text_type = 'VARCHAR'; CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 1 AS x",
        catalog,
    )
    assert [row["statement"] for row in told] == ["SET", "CREATE SCHEMA", "CREATE TABLE AS"]
    assert catalog.seen[-1] == ("t", {"mssql_ctas_text_type": "VARCHAR"})
    reports("CREATE TABLE s.u AS SELECT 1 AS x", catalog)
    assert catalog.seen[-1] == ("u", {})
    assert catalog.closed == 0


@pytest.mark.parametrize(
    "text",
    [
        f"CREATE SECRET x (TYPE mssql, PASSWORD '{WORD}')",
        f"ATTACH 'mssql://u:{WORD}@db/s' AS n",
    ],
)
def test_client_makes_no_secrets_and_attaches_nothing(text):
    with pytest.raises(FailedPrecondition, match="not supported in run") as refused:
        reports(text, ConfigurableCatalog())
    assert WORD not in str(refused.value)


def test_a_spool_that_cannot_be_used_is_named(tmp_path):
    spool = tmp_path / "gone"
    config = Config(catalogs={"m": replace(MSSQL, spool=str(spool))})
    catalogs = [SpoolingCatalog(str(spool))]
    runner = spark_runner(config, SparkEngine(log_file=tmp_path / "spark.log"), catalogs)
    assert runner is not None
    with pytest.raises(FailedPrecondition, match=rf"{spool}: No such file.*another folder"):
        runner.prefix()
    spool.mkdir()
    assert runner.prefix().endswith("/rows")


SUM = "SELECT sum(i) AS s FROM range(10) t(i)"
DECIMAL = pa.decimal128(38, 0)
HUGEINT = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
TOO_LARGE = "170141183460469231731687303715884105727::HUGEINT"


def test_sum_of_integers_is_a_number():
    table = jetbridge.sql(SUM, MEMORY)
    assert (table.schema.field("s").type, table.to_pylist()) == (DECIMAL, [{"s": Decimal(45)}])


def test_exact_form_of_a_sum_comes_by_request():
    table = jetbridge.sql(SUM, MEMORY, exact_hugeint=True)
    assert table.schema.field("s").type == HUGEINT
    assert int.from_bytes(table["s"][0].as_py(), "little", signed=True) == 45


def test_every_nesting_of_a_sum_is_a_number():
    one = Decimal(1)
    row = jetbridge.sql(
        "SELECT [n] AS list, {'a': n, 'b': [{'c': n}]} AS struct, map {n: n} AS map, "
        "[n]::HUGEINT[1] AS array, union_value(a := n) AS one_of, n::UHUGEINT AS u, "
        "NULL::HUGEINT AS missing FROM (SELECT 1::HUGEINT AS n)",
        MEMORY,
    ).to_pylist()[0]
    assert row == {
        "list": [one],
        "struct": {"a": one, "b": [{"c": one}]},
        "map": [(one, one)],
        "array": [one],
        "one_of": one,
        "u": one,
        "missing": None,
    }


def test_runs_give_numbers_and_the_exact_form_by_request():
    with jetbridge.session(MEMORY) as session:
        statements = f"CREATE SCHEMA memory.s; {SUM}; {SUM} WHERE i > 20"
        outcomes = [(o.report, o.table()) for o in session.run(statements)]
        assert [report and report.statement for report, _ in outcomes] == [
            "CREATE SCHEMA",
            None,
            None,
        ]
        assert [table.to_pylist() for _, table in outcomes[1:]] == [
            [{"s": Decimal(45)}],
            [{"s": None}],
        ]
        (outcome,) = session.run(SUM, exact_hugeint=True)
        assert outcome.table().schema.field("s").type == HUGEINT
        assert session.sql(SUM, exact_hugeint=True).schema.field("s").type == HUGEINT
        assert session.sql(f"{SUM} LIMIT 0").schema.field("s").type == DECIMAL


def test_number_of_39_digits_is_refused_with_the_remedy_and_the_session_goes_on():
    with jetbridge.session(MEMORY) as session:
        with pytest.raises(BadRequest, match=r"'n' has the HUGEINT 1701\d+, .*exact_hugeint=True"):
            session.sql(f"SELECT {TOO_LARGE} AS n")
        assert session.sql(f"SELECT {TOO_LARGE} AS n", exact_hugeint=True).num_rows == 1
        assert session.sql("SELECT 1 AS x").to_pylist() == [{"x": 1}]


def test_returned_number_that_does_not_fit_says_that_the_statement_was_done():
    with jetbridge.session(MEMORY) as session:
        session.sql("CREATE SCHEMA memory.s; CREATE TABLE memory.s.t (n HUGEINT)")
        with pytest.raises(BadRequest, match="; the INSERT itself succeeded$"):
            session.sql(f"INSERT INTO memory.s.t VALUES ({TOO_LARGE}) RETURNING n")
        assert session.sql("SELECT n % 10 AS n FROM memory.s.t").to_pylist() == [{"n": Decimal(7)}]
