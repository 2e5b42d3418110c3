"""Batches that need far more memory than they have bytes are refused before they are decoded."""

import struct

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.errors import LimitExceeded
from tests.conformance.harness import insert, rows

LONG = "x" * 1_000_000


def _views() -> pa.Array:
    data = LONG.encode()
    view = struct.pack("<i4sii", len(data), data[:4], 0, 0) * 1000
    return pa.Array.from_buffers(
        pa.string_view(), 1000, [None, pa.py_buffer(view), pa.py_buffer(data)]
    )


CASES = [
    (pa.nulls(10_000_000), pa.int64()),
    (
        pa.ListArray.from_arrays(pa.array([0, 300_000_000], pa.int32()), pa.nulls(300_000_000)),
        pa.list_(pa.int64()),
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), pa.array([LONG])),
        pa.large_string(),
    ),
    (_views(), pa.string()),
    (pa.RunEndEncodedArray.from_arrays([1000], pa.array([LONG])), pa.string()),
]


@pytest.mark.parametrize(("sent", "data_type"), CASES, ids=[str(a.type)[:30] for a, _ in CASES])
def test_a_batch_that_would_exceed_the_limit_is_not_decoded(sent, data_type):
    schema = MemoryCatalog(staged_bytes=50_000_000).create_schema(SchemaInfo("s"))
    table = schema.create_table(CreateTable("t", pa.schema([("c", data_type)])))
    before = pa.total_allocated_bytes()
    with pytest.raises(LimitExceeded, match="stages"):
        insert(table, {"c": sent})
    assert pa.total_allocated_bytes() - before < 50_000_000
    assert rows(schema.load_table("t")) == []


def test_the_limit_holds_for_all_columns_of_a_batch_together():
    schema = MemoryCatalog(staged_bytes=1_000_000).create_schema(SchemaInfo("s"))
    names = [f"c{i}" for i in range(20)]
    table = schema.create_table(CreateTable("t", pa.schema([(n, pa.int64()) for n in names])))
    with pytest.raises(LimitExceeded, match="'c12'"):
        insert(table, dict.fromkeys(names, pa.nulls(10_000)))


@pytest.mark.parametrize("spill", [1_000, 10**9])
def test_the_limit_holds_for_all_batches_of_a_statement_together(spill):
    staging = Staging(spill, 100_000)
    batch = pa.record_batch({"c": pa.array(range(1000))})
    with pytest.raises(LimitExceeded, match="100000"):
        for _ in range(20):
            staging.add(batch)
    staging.close()


def test_nulls_that_share_a_buffer_count_with_their_size_after_a_copy():
    staging = Staging(10**9, 1_000_000)
    batch = pa.record_batch({"c": pa.nulls(10_000).cast(pa.int64())})
    with pytest.raises(LimitExceeded):
        for _ in range(20):
            staging.add(batch)
    staging.close()


def test_a_slice_counts_without_the_rest_of_its_buffer():
    staging = Staging(10**9, 100_000)
    whole = pa.record_batch({"c": pa.array(range(10_000))})
    for start in range(0, 10_000, 100):
        staging.add(whole.slice(start, 100))
    assert staging.rows == 10_000
    staging.close()


def test_an_unusable_temporary_folder_is_named_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    staging = Staging(10, 10**9)
    with pytest.raises(LimitExceeded, match="TMPDIR"):
        staging.add(pa.record_batch({"c": pa.array(range(1000))}))
    staging.close()
