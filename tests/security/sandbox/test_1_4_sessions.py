"""The DuckDB of a client's statement reaches its own folder and the tables it names.

Attacked: `run` with every statement that writes, attaches, loads or changes a setting; files by
their names; and the spill files of a running query, with an umask that hides nothing.
"""

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from jetbridge.app.compose import new_engine, open_catalogs
from jetbridge.backends.lake.config import LakeConfig
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog.backend import SharedResources
from jetbridge.config import CatalogConfig, Config
from jetbridge.duckdb_engine.connection import DuckDBAccess
from jetbridge.duckdb_engine.planner import PlannerDatabase
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.session import Session, SessionResources
from tests.security.sandbox.clients import Caller, serving

DENIED = (
    "INVALID_ARGUMENT",
    "UNIMPLEMENTED",
    "PERMISSION_DENIED",
    "NOT_FOUND",
    "FAILED_PRECONDITION",
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with one table, as another engine made it."""
    folder = tmp_path_factory.mktemp("lake")
    catalog = SqlCatalog(
        "lakea", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("s")
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
    catalog.create_table("s.t", rows.schema).append(rows)
    catalog.close()
    return folder


@pytest.fixture(scope="module")
def ours(warehouse: Path) -> Iterator[Caller]:
    with serving(catalogs={"lakea": LakeConfig("lake", warehouse=str(warehouse))}) as (caller, _):
        yield caller


def files_below(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


STATEMENTS = (
    "COPY (SELECT 1) TO '{folder}/x.csv'",
    "COPY mema.s.t TO '{folder}/x.parquet' (FORMAT parquet)",
    "COPY mema.s.t FROM '{file}'",
    "COPY FROM DATABASE mema TO lakea",
    "EXPORT DATABASE '{folder}'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{folder}/x.db' AS x",
    "ATTACH '{folder}/x.db' AS x (TYPE duckdb)",
    "DETACH mema",
    "USE jetbridge_work",
    "LOAD httpfs",
    "INSTALL httpfs",
    "FORCE INSTALL httpfs FROM '{folder}'",
    "SET GLOBAL threads = 1",
    "SET enable_external_access = true",
    "SET temp_directory = '{folder}'",
    "SET VARIABLE x = 1",
    "RESET lock_configuration",
    "PRAGMA enable_profiling",
    "PRAGMA profile_output = '{folder}/p.json'",
    "CALL enable_logging(storage = 'file', storage_config = {{'path': '{folder}/log'}})",
    "CREATE SECRET x (TYPE s3)",
    "CREATE PERSISTENT SECRET x (TYPE s3)",
    "CREATE MACRO f() AS 1",
    "CREATE VIEW mema.s.v AS SELECT 1",
    "CREATE TEMP TABLE x (a INT)",
    "CHECKPOINT",
    "VACUUM",
    "PREPARE x AS SELECT 1",
    "EXPLAIN COPY (SELECT 1) TO '{folder}/x.csv'",
    "EXPLAIN ANALYZE SELECT 1",
)


@pytest.mark.parametrize("text", STATEMENTS)
def test_1_4_statements_that_write_load_or_set_are_refused(
    ours: Caller, warehouse: Path, text: str
) -> None:
    before = files_below(warehouse)
    file = next(iter(sorted(warehouse.rglob("*.parquet"))))
    answer = ours.run(text.format(folder=warehouse, file=file))
    assert answer.status in DENIED, answer.message
    assert files_below(warehouse) == before


READS = (
    "FROM '{file}'",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_text('/etc/hostname')",
    "SELECT * FROM glob('/tmp/*')",
    "FROM '/etc/hostname'",
    "SELECT (SELECT count(*) FROM read_blob('{file}'))",
    "CREATE TABLE mema.s.stolen AS FROM read_parquet('{file}')",
    "INSERT INTO mema.s.t SELECT n, 'x' FROM lakea.s.t, read_parquet('{file}')",
    "UPDATE mema.s.t SET a = (SELECT max(n) FROM read_parquet('{file}'))",
    "UPDATE mema.s.t SET a = n FROM read_parquet('{file}') r",
    "DELETE FROM mema.s.t WHERE a IN (SELECT n FROM read_parquet('{file}'))",
    "MERGE INTO mema.s.t USING (FROM read_parquet('{file}')) r ON a = n WHEN MATCHED THEN DELETE",
    "INSERT INTO mema.s.t VALUES (5, 'x') RETURNING (SELECT max(n) FROM read_parquet('{file}'))",
    "SELECT * FROM lakea.s.t AT (VERSION => (SELECT max(n) FROM read_parquet('{file}')))",
    "CREATE TABLE mema.s.q (a INT DEFAULT (SELECT max(n) FROM read_parquet('{file}')))",
    "CREATE TABLE mema.s.q (a INT, CHECK (a > (SELECT max(n) FROM read_parquet('{file}'))))",
    "DESCRIBE FROM read_parquet('{file}')",
    "EXPLAIN FROM read_parquet('{file}')",
    "SUMMARIZE FROM '{file}'",
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", READS)
def test_1_4_no_file_is_read_by_its_name(ours: Caller, warehouse: Path, text: str) -> None:
    """Not even a file of a table that the client can read."""
    file = next(iter(sorted(warehouse.rglob("*.parquet"))))
    answer = ours.run(text.format(folder=warehouse, file=file))
    assert answer.status in DENIED, answer.message
    assert ours.run("FROM mema.s.stolen").status == "NOT_FOUND"
    (left,) = ours.reports("FROM mema.s.t")
    assert left["rows_produced"] == 1


def test_1_4_tables_are_still_read(ours: Caller) -> None:
    (report,) = ours.reports(
        "CREATE OR REPLACE TABLE mema.s.sum AS SELECT sum(n) AS n FROM lakea.s.t"
    )
    assert report["rows_written"] == 1
    assert ours.reports("FROM mema.s.sum WHERE n = 6")[0]["rows_produced"] == 1


@pytest.fixture
def session(warehouse: Path) -> Iterator[Session]:
    """Open the session of a client; reading the lake needs no Spark."""
    config = Config(
        catalogs={
            "mema": CatalogConfig("memory"),
            "lakea": LakeConfig("lake", warehouse=str(warehouse)),
        }
    )
    opened = Session(
        open_catalogs(config, SharedResources(config.limits, new_engine(config, verbose=False))),
        SessionResources(AccessRules(FileScope.FOLDERS, folders=("/allowed",))),
    )
    yield opened
    opened.close()


SETTINGS = (
    "SELECT name, value FROM duckdb_settings() WHERE name IN ('temp_directory', "
    "'allowed_directories', 'allowed_paths', 'enable_external_access', 'lock_configuration', "
    "'autoinstall_known_extensions', 'autoload_known_extensions', 'allow_community_extensions', "
    "'allow_persistent_secrets', 'allow_unsigned_extensions')"
)


@pytest.mark.parametrize(
    ("query", "target", "open_to_it"),
    [
        ("", None, []),
        ("SELECT 1", None, []),
        ("FROM mema.s.t", None, []),
        ("FROM lakea.s.t", None, ["{warehouse}/"]),
        ("SELECT 1", "lakea", ["{warehouse}/"]),
        ("SELECT 1", "mema", []),
        ("FROM lakea.s.t, read_csv('/allowed/x')", "lakea", ["/allowed/"]),
    ],
)
def test_1_4_duckdb_reaches_only_what_the_statement_names(
    session: Session, warehouse: Path, query: str, target: str | None, open_to_it: list[str]
) -> None:
    with session.begin_statement().connect(query, target) as desk:
        found = dict(desk.fetch(SETTINGS))
        assert [row[0] for row in desk.fetch("SELECT current_setting('lock_configuration')")] == [
            True
        ]
    own = found.pop("temp_directory")
    folders = [each.format(warehouse=warehouse) for each in open_to_it]
    listed = found.pop("allowed_directories").strip("[]").split(", ")
    assert sorted(listed) == sorted([*folders, f"{own}/"])
    assert Path(own).name.startswith(f"jetbridge-duckdb-{os.getpid()}-")
    assert found == {
        "allowed_paths": "[]",
        "enable_external_access": "false",
        "lock_configuration": "true",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "allow_unsigned_extensions": "false",
    }


def test_1_4_two_sessions_have_two_folders() -> None:
    own = []
    for _ in range(2):
        bench = PlannerDatabase(["m"], DuckDBAccess(load_extensions=False))
        with bench.connect() as desk:
            own += [row[0] for row in desk.fetch("SELECT current_setting('temp_directory')")]
        assert Path(own[-1]).is_dir()
        bench.close()
        assert not Path(own[-1]).exists()
    assert own[0] != own[1]


def test_1_4_spill_folders_and_files_are_for_their_owner_alone() -> None:
    """While a query spills, with an umask that removes no permission."""
    bench = PlannerDatabase(["m"], DuckDBAccess(memory_limit="60MB", load_extensions=False))
    seen: dict[str, int] = {}
    done = threading.Event()
    before = os.umask(0)
    try:
        with bench.connect() as desk:
            ((own,),) = desk.fetch("SELECT current_setting('temp_directory')")
            watch = threading.Thread(target=look, args=(Path(own), seen, done))
            watch.start()
            try:
                desk.create_table_as(
                    ("m", "main", "big"),
                    "SELECT repeat(hash(i)::VARCHAR, 4) AS a FROM range(900000) r(i)",
                )
                assert desk.fetch("SELECT count(DISTINCT a) FROM m.main.big") == [(900_000,)]
            finally:
                done.set()
                watch.join()
            assert stat.S_IMODE(Path(own).stat().st_mode) == 0o700
    finally:
        os.umask(before)
        bench.close()
    spilled = {name: mode for name, mode in seen.items() if name.startswith("duckdb_temp")}
    assert spilled, "nothing was spilled"
    assert {oct(mode) for mode in seen.values()} == {"0o600"}


def look(folder: Path, seen: dict[str, int], done: threading.Event) -> None:
    while not done.wait(0.01):
        for file in folder.iterdir():
            try:
                seen[file.name] = stat.S_IMODE(file.stat().st_mode)
            except FileNotFoundError:
                continue


def test_1_4_a_memory_catalog_needs_no_folder() -> None:
    opened = Session({"m": MemoryCatalog()}, SessionResources(AccessRules(FileScope.NONE)))
    with opened.begin_statement().connect("SELECT 1") as desk:
        ((own, listed),) = desk.fetch(
            "SELECT current_setting('temp_directory'), current_setting('allowed_directories')"
        )
    opened.close()
    assert listed == [f"{own}/"]
