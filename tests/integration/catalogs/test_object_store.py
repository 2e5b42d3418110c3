"""A lake whose files are in an object store."""

from datetime import timedelta
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.lake.maintenance.optimize import OptimizeOptions, optimize
from jetbridge.catalog import CreateTable, Scan, SchemaInfo
from jetbridge.errors import BadRequest, Unavailable
from tests.conformance.harness import delete, insert, read, rows
from tests.helpers.lakes import engine
from tests.integration.catalogs.object_store import BUCKET, LOGIN, running_object_store
from tests.integration.interop.session import assert_all_agree, run_session

pytestmark = pytest.mark.lake

ROWS = 600_000
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture(scope="module")
def address():
    with running_object_store() as running:
        yield running


@pytest.fixture
def lake(address, tmp_path) -> LakeCatalog:
    given = {"uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "s3.endpoint": address}
    style = {"s3.path-style-access": "true"}
    name = f"lake_{uuid4().hex[:8]}"
    return LakeCatalog(name, f"s3://{BUCKET}/{name}", engine(), {**given, **style, **LOGIN})


def test_session_in_an_object_store(lake):
    run_session(lake)


@pytest.mark.full
def test_a_large_table_in_an_object_store_is_read_in_parts_changed_and_compacted(lake):
    schema = lake.create_schema(SchemaInfo("s"))
    ids = np.arange(ROWS)
    names = pa.array(ids % 1000).cast(pa.string())
    insert(schema.create_table(CreateTable("t", COLUMNS)), {"id": ids, "name": names})
    table = schema.load_table("t")
    parts = table.split(Scan())
    assert len(parts) == 3
    found = pa.concat_tables(read(table, ("id", "name"), part=part) for part in parts)
    assert found.sort_by("id").column("id").to_numpy().tolist() == ids.tolist()
    assert found.sort_by("id").column("name").equals(pa.chunked_array([names]))
    delete(table, list(range(10, ROWS)))
    optimize(lake.lake, "s", "t", OptimizeOptions(older_than=timedelta(0)))
    assert rows(schema.load_table("t")) == [(n, str(n)) for n in range(10)]
    assert_all_agree(lake, "s", "t")
    files = lake.lake.read.files.list_folder(
        f"{schema.load_table('t').state.folder}/data", ".parquet"
    )
    assert len(files) == 1


def test_an_object_that_is_gone_is_named(lake):
    schema = lake.create_schema(SchemaInfo("s"))
    insert(schema.create_table(CreateTable("t", COLUMNS)), {"id": [1], "name": ["a"]})
    table = schema.load_table("t")
    folder = f"{table.state.folder}/data"
    (file,) = lake.lake.read.files.list_folder(folder, ".parquet")
    lake.lake.read.files.delete([file])
    with pytest.raises(Unavailable, match=r"s\.t.*cannot be read.*\.parquet"):
        rows(table)


def test_a_warehouse_in_an_object_store_needs_a_catalog_elsewhere(address):
    with pytest.raises(BadRequest, match="needs a uri for its catalog"):
        LakeCatalog("lake_s3", f"s3://{BUCKET}/x", engine(), {"s3.endpoint": address, **LOGIN})
