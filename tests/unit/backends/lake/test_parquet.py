import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.lake.parquet_writer import parquet_options

ROWS = 10_000
SHUFFLED = np.random.default_rng(0).permutation(ROWS)
COLUMNS = {
    "ascending": pa.array(np.arange(ROWS)),
    "noise": pa.array(SHUFFLED / ROWS * np.pi),
    "few": pa.array(SHUFFLED % 10),
    "text": pa.array([f"item-{number}" for number in SHUFFLED]),
    "word": pa.array(["lamp", "desk"] * (ROWS // 2)),
}
NESTED = {
    "a.b": pa.array([1, 2, 3]),
    "a": pa.array([{"b": 1, "c": [1]}] * 3),
    "list": pa.array([["x"], None, []]),
    "map": pa.array([[("k", 1)]] * 3, pa.map_(pa.string(), pa.int32())),
    "null": pa.nulls(3, pa.int64()),
    "decimal": pa.array([decimal.Decimal("1.5")] * 3),
    "bool": pa.array([True, False, None]),
    "uuid": pa.array([uuid.UUID(int=number).bytes for number in range(3)], pa.uuid()),
    "fixed": pa.array([b"a", b"b", None], pa.binary(1)),
    "time": pa.array([1, None, 2], pa.time64("us")),
}


def written(table: pa.Table) -> dict[str, pq.ColumnChunkMetaData]:
    file = pa.BufferOutputStream()
    with pq.ParquetWriter(file, table.schema, **parquet_options(table)) as writer:
        writer.write_table(table)
    data = pa.BufferReader(file.getvalue())
    assert pq.read_table(data).cast(table.schema).equals(table)
    group = pq.read_metadata(data).row_group(0)
    columns = (group.column(index) for index in range(group.num_columns))
    return {column.path_in_schema: column for column in columns}


def test_only_values_that_repeat_get_a_dictionary():
    columns = written(pa.table(COLUMNS))
    assert {n for n, c in columns.items() if c.has_dictionary_page} == {"few", "word"}


def test_numbers_that_do_not_get_smaller_are_not_compressed():
    columns = written(pa.table(COLUMNS))
    assert {n for n, c in columns.items() if c.compression == "UNCOMPRESSED"} == {"noise"}


def test_what_is_inside_a_column_is_compressed_too():
    columns = written(pa.table(NESTED))
    inside = {n: c.compression for n, c in columns.items() if n.count(".")}
    assert set(inside.values()) == {"ZSTD"}


@pytest.mark.parametrize("rows", [0, 1])
def test_a_file_may_begin_with_hardly_any_rows(rows):
    for columns in (COLUMNS, NESTED):
        written(pa.table(columns).slice(0, rows))


def test_a_slice_of_a_large_column_is_judged_by_its_own_rows():
    mixed = pa.concat_arrays([COLUMNS["noise"], pa.array(np.zeros(ROWS))])
    table = pa.table({"x": mixed})
    assert written(table.slice(0, ROWS))["x"].compression == "UNCOMPRESSED"
    assert written(table.slice(ROWS))["x"].compression == "ZSTD"
