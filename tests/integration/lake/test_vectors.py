"""Deletion vectors that share a Puffin file, which DuckDB 1.5.5 takes one for the other."""

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.catalog import AddColumn, CreateTable, RenameColumn, SchemaInfo
from tests.conformance.harness import delete, insert, read, rowids, rows, update
from tests.helpers.lakes import engine, new_lake

pytestmark = pytest.mark.lake

FILES, ROWS = 6, 5_000


@pytest.fixture(scope="module")
def deleted_by_spark():
    """Return a table of several files, from each of which Spark has deleted in one statement."""
    catalog = new_lake()
    schema = catalog.create_schema(SchemaInfo("s"))
    columns = pa.schema([("id", pa.int64()), ("old", pa.string()), ("n", pa.int32())])
    table = schema.create_table(CreateTable("t", columns))
    for number in range(FILES):
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        names = [f"n{i}" for i in ids]
        insert(table, {"id": ids, "old": names, "n": pa.array(ids % 7, pa.int32())})
    table.alter(RenameColumn("old", "name"))
    table.alter(AddColumn(pa.field("more", pa.int64(), metadata={"default": "5"})))
    with engine().session() as session:
        name = f"{catalog.lake.name}.s.t"
        session.sql(f"DELETE FROM {name} WHERE id % 3 = 0 AND id % 5000 < 100 * (id div 5000 + 1)")
        found = session.sql(f"SELECT id, name, n, more, _row_id AS rowid FROM {name}").toArrow()
    return catalog, schema, found


def test_spark_puts_several_vectors_into_one_file(deleted_by_spark):
    catalog, schema, _ = deleted_by_spark
    assert catalog.lake.read.snapshot_files(schema.load_table("t")._state).shares_vectors()


def test_every_row_and_row_id_is_what_spark_says(deleted_by_spark):
    _, schema, found = deleted_by_spark
    names = ("id", "name", "n", "more", "rowid")
    mine = read(schema.load_table("t"), names).sort_by("id")
    assert mine.equals(found.sort_by("id").select(list(names)).cast(mine.schema))


def test_rows_can_still_be_changed(deleted_by_spark):
    _, schema, found = deleted_by_spark
    table = schema.load_table("t")
    update(table, {"name": ["new"], "rowid": rowids(table, "id", 1)})
    table = schema.load_table("t")
    delete(table, rowids(table, "id", 5_401))
    expected = {
        (i, "new" if i == 1 else name)
        for i, name in zip(*(found.column(n).to_pylist() for n in ("id", "name")), strict=True)
        if i != 5_401
    }
    assert set(rows(schema.load_table("t"), "id", "name")) == expected
