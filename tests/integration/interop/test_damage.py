"""Files of a table that are missing, cut or garbled: one sentence, and everything else goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.errors import unreadable_table as damage_error
from jetbridge.backends.lake.files import local_path
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.client import connect
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import LakeReader
from jetbridge.errors import Unavailable
from jetbridge.expr import Column, Comparison, Constant
from jetbridge.service import Server
from tests.conformance.harness import delete, insert, read, rows, update
from tests.helpers.lakes import engine, folder, new_lake
from tests.integration.interop import foreign_tables as foreign
from tests.integration.interop.session import spark_sql

pytestmark = pytest.mark.lake

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
DATA = {"id": list(range(10)), "name": [f"row {n}" for n in range(10)]}
ONE = Comparison("=", Column("id"), Constant("BIGINT", 1))


def missing(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garbled(path: Path) -> None:
    """Garble a file of the same size, which begins and ends as it should."""
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(len(data) - 8) + data[-4:])


WAYS = {"missing": missing, "cut": cut, "garbled": garbled}


def data_file(lake: LakeCatalog, state: Any) -> str:
    return lake.lake.read.snapshot_files(state).files[-1].location


def vector(lake: LakeCatalog, state: Any) -> str:
    (found,) = {each.location for each in lake.lake.read.snapshot_files(state).vectors.values()}
    return str(found)


def manifest(lake: LakeCatalog, state: Any) -> str:
    listed = lake.lake.read.reader.query(queries.manifests(path_of(manifest_list(lake, state))))
    return str(listed.column("manifest_path")[0].as_py())


def manifest_list(_: LakeCatalog, state: Any) -> str:
    return str(state.snapshot.manifest_list)


def metadata(_: LakeCatalog, state: Any) -> str:
    return str(state.location)


FILES = {
    "data file": data_file,
    "deletion vector": vector,
    "manifest": manifest,
    "manifest list": manifest_list,
    "metadata": metadata,
}


def path_of(location: str) -> str:
    found = local_path(location)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def lake() -> LakeCatalog:
    catalog = new_lake()
    schema = catalog.create_schema(SchemaInfo("s"))
    insert(schema.create_table(CreateTable("sound", COLUMNS)), DATA)
    return catalog


@pytest.fixture(autouse=True)
def others_still_answer(lake: LakeCatalog) -> Iterator[None]:
    yield
    assert len(rows(lake.load_schema("s").load_table("sound"))) == 10
    assert "sound" in [each.info().name for each in lake.load_schema("s").list_tables()]
    lake.version()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    letters = (c if c.isalnum() else "_" for c in request.node.name)
    return "".join(letters)[-60:]


@cache
def other_reader() -> LakeReader:
    """Return one that has read nothing yet of a table."""
    return LakeReader([str(folder())])


@pytest.fixture
def unread(lake: LakeCatalog) -> LakeCatalog:
    """Return the lake as one sees it who has read none of its tables."""
    name = lake.lake.name
    return LakeCatalog(name, folder() / name, engine(), reader=other_reader())


def assert_unavailable(call: Callable[[], object], table: str, location: str) -> None:
    with pytest.raises(Unavailable) as caught:
        call()
    assert_said(caught.value, table, location)


def assert_said(error: Exception, table: str, location: str) -> None:
    said = str(error)
    assert f"'s.{table}'" in said
    assert Path(location).name in said
    assert len(said) < 600
    assert "\n" not in said
    assert "Traceback" not in said


def damage(lake: LakeCatalog, table: str, kind: str, way: str) -> str:
    location = FILES[kind](lake, lake.load_schema("s").load_table(table).state)
    WAYS[way](Path(path_of(location)))
    return location


@pytest.fixture
def made(lake: LakeCatalog, name: str) -> str:
    insert(lake.load_schema("s").create_table(CreateTable(name, COLUMNS)), DATA)
    delete(lake.load_schema("s").load_table(name), [3])
    return name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FILES)
def test_damaged_file_is_named(lake, made, unread, kind, way):
    location = damage(lake, made, kind, way)
    for call in (
        lambda: rows(unread.load_schema("s").load_table(made)),
        lambda: read(unread.load_schema("s").load_table(made), ("id",), filter=ONE),
        lambda: update(unread.load_schema("s").load_table(made), {"rowid": [2], "name": ["x"]}),
    ):
        assert_unavailable(call, made, location)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", FILES)
def test_what_was_read_before_is_damaged_or_still_right(lake, made, kind, way):
    """Allow both answers: DuckDB remembers some of what it has read."""
    before = rows(lake.load_schema("s").load_table(made))
    location = damage(lake, made, kind, way)
    try:
        assert rows(lake.load_schema("s").load_table(made)) == before
    except Unavailable as error:
        assert_said(error, made, location)


@contextmanager
def damaged(lake: LakeCatalog, table: str, kind: str, way: str) -> Iterator[str]:
    """Restore the table afterwards: Spark takes a second to make another."""
    location = FILES[kind](lake, lake.load_schema("s").load_table(table).state)
    before = Path(path_of(location)).read_bytes()
    yield damage(lake, table, kind, way)
    Path(path_of(location)).write_bytes(before)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["orc", "avro"])
def test_damaged_file_of_a_table_that_duckdb_cannot_read_is_named(lake, name, form):
    foreign.by_spark(lake, name, 2, **{"format.default": form})
    for way in WAYS:
        with damaged(lake, name, "data file", way) as location:
            assert_unavailable(lambda: rows(lake.load_schema("s").load_table(name)), name, location)
    assert len(rows(lake.load_schema("s").load_table(name))) == len(foreign.IDS)
    staging = Path(path_of(lake.lake.warehouse.staging_folder()))
    assert list(staging.glob("*/")) == []


def test_damaged_vector_that_shares_its_file_is_named(lake, name):
    foreign.by_spark(lake, name, 3)
    spark_sql(f"DELETE FROM {lake.lake.name}.s.{name} WHERE id IN (1, 8)")
    state = lake.load_schema("s").load_table(name).state
    assert lake.lake.read.snapshot_files(state).shares_vectors()
    for way in WAYS:
        with damaged(lake, name, "deletion vector", way) as location:
            assert_unavailable(lambda: rows(lake.load_schema("s").load_table(name)), name, location)
    assert len(rows(lake.load_schema("s").load_table(name))) == len(foreign.IDS) - 2


def test_client_is_told_which_file_is_damaged(lake, unread, made):
    location = damage(lake, made, "manifest", "cut")
    with Server({"lake": unread}, port=0) as server:
        server.start()
        with connect(server.location, "lake") as client:
            assert_unavailable(lambda: client.read("s", made), made, location)
            assert client.read("s", "sound").num_rows == 10


def test_file_is_named_however_long_its_path_is(lake):
    state = lake.load_schema("s").load_table("sound").state
    location = f"/{'folder/' * 60}rows.parquet"
    for error in (
        damage_error(state.title(), f'Cannot open file "{location}": No such file'),
        damage_error(state.title(), f'Cannot open file "{location}": No such file', location),
        damage_error(state.title(), f"the job failed\nat a task\nfile:{location}"),
    ):
        assert_said(error, "sound", location)
