"""Rows of the memory backend: chunks, segments, staging and history."""

import gc
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.backends.memory.chunks import CHUNK_ROWS, Chunk, Segment, compact, join_chunks
from jetbridge.backends.tables.staging import Staging
from jetbridge.catalog import AsOf, AtUnit, CreateTable, DMLOptions, Scan, SchemaInfo
from jetbridge.errors import NotFound
from jetbridge.expr import Column, Comparison, Constant, In


def chunk(values, first=0, **more) -> Chunk:
    return Chunk(pa.record_batch({"a": pa.array(values, pa.int64())}), first, **more)


def table(**options):
    schema = MemoryCatalog(**options).create_schema(SchemaInfo("s"))
    schema.create_table(CreateTable("t", pa.schema([("a", pa.int64()), ("b", pa.string())])))
    return schema


def insert(schema, start, count, batch_rows=2048):
    with schema.load_table("t").inserting(DMLOptions()) as write:
        for first in range(start, start + count, batch_rows):
            numbers = np.arange(first, min(first + batch_rows, start + count))
            write(pa.record_batch({"a": numbers, "b": [f"b{n}" for n in numbers]}))


def test_small_chunks_are_joined_at_the_first_read():
    segment = Segment([chunk([i, i + 1], i) for i in range(0, 1000, 2)])
    assert len(segment.raw_chunks()) == 500
    [joined] = segment.chunks()
    assert joined.batch.column(0).to_pylist() == list(range(1000))
    assert joined.rowids is None
    assert segment.chunks() == segment.raw_chunks() == (joined,)


def test_large_batches_are_cut_and_joined_chunks_stay_below_the_limit():
    segment = Segment([chunk(np.arange(CHUNK_ROWS * 2 + 5)), chunk([7], CHUNK_ROWS * 2 + 5)])
    sizes = [c.rows for c in segment.chunks()]
    assert sizes == [CHUNK_ROWS, CHUNK_ROWS, 5, 1]
    assert [c.first for c in segment.chunks()] == [
        0,
        CHUNK_ROWS,
        2 * CHUNK_ROWS,
        2 * CHUNK_ROWS + 5,
    ]


def test_chunks_whose_row_ids_do_not_ascend_are_not_joined():
    segment = Segment([chunk([1], 5), chunk([2], 3), chunk([3], 9)])
    assert [c.row_ids().tolist() for c in segment.chunks()] == [[5], [3, 9]]


def test_joined_chunks_keep_deletions_changes_and_row_ids():
    one = chunk([1, 2], 0, deleted=np.array([True, False]))
    two = chunk([3, 4], 7, changed=np.array([0, 9]))
    both = join_chunks([one, two])
    assert both.row_ids().tolist() == [0, 1, 7, 8]
    assert both.deleted is not None
    assert both.changed is not None
    assert both.deleted.tolist() == [True, False, False, False]
    assert both.changed.tolist() == [0, 0, 0, 9]
    assert both.live_rows() == 3
    positions, existing = both.positions(np.array([1, 5, 8]))
    assert existing.tolist() == [True, False, True]
    assert positions[existing].tolist() == [1, 3]


def test_a_chunk_with_many_deletions_is_compacted():
    compacted = compact(chunk([1, 2, 3], 4, deleted=np.array([True, False, True])))
    assert compacted is not None
    assert (compacted.batch.column(0).to_pylist(), compacted.row_ids().tolist()) == ([2], [5])
    assert compact(chunk([1], deleted=np.array([True]))) is None
    same = chunk([1, 2, 3], deleted=np.array([True, False, False]))
    assert compact(same) is same


def test_a_join_that_fails_loses_no_row():
    text = Chunk(pa.record_batch({"a": ["text"]}), 4)
    segment = Segment([chunk([1], 0), chunk([2], 1), text])
    for _ in range(2):
        with pytest.raises(pa.ArrowException):
            segment.chunks()
    assert [c.first for c in segment.raw_chunks()] == [0, 1, 4]


def test_scans_send_large_batches_after_small_inserts():
    schema = table()
    insert(schema, 0, 300_000)
    batches = list(schema.load_table("t").scan(Scan()))
    assert [b.num_rows for b in batches] == [CHUNK_ROWS] * 4 + [300_000 - 4 * CHUNK_ROWS]


def test_many_single_row_inserts_leave_few_segments():
    schema = table()
    for i in range(500):
        insert(schema, i, 1)
    handle = schema.load_table("t")
    assert len(handle._state.segments) < 130
    stored = pa.Table.from_batches(handle.scan(Scan()))
    assert stored.column("a").to_pylist() == stored.column("rowid").to_pylist() == list(range(500))


def test_segments_of_some_thousand_rows_are_joined():
    schema = table()
    for i in range(100):
        insert(schema, i * 2048, 2048)
    sizes = [b.num_rows for b in schema.load_table("t").scan(Scan())]
    assert sum(sizes) == 100 * 2048
    assert len(sizes) < 40
    assert max(sizes) == CHUNK_ROWS


def test_staged_rows_above_the_limit_are_read_from_a_file_in_order():
    staging = Staging(spill_bytes=1000, max_bytes=10**9)
    batches = [pa.record_batch({"a": np.arange(i, i + 100)}) for i in range(0, 1000, 100)]
    for batch in batches:
        staging.add(batch)
    assert staging.spilled()
    for _ in range(2):
        assert pa.Table.from_batches(staging.batches()).column("a").to_pylist() == list(range(1000))
    staging.close()
    assert list(staging.batches()) == []


def test_many_staged_batches_are_joined_while_rows_arrive(monkeypatch):
    monkeypatch.setattr("jetbridge.backends.tables.staging._MOST_RAW_BYTES", 100_000)
    schema = table()
    one, two = schema.load_table("t"), schema.load_table("t")
    returning = DMLOptions(returning=True)
    with one.inserting(returning) as write, two.inserting(returning) as other:
        for i in range(0, 100_000, 1000):
            writer = other if i % 3000 == 0 else write
            writer(pa.record_batch({"a": np.arange(i, i + 1000), "b": ["x"] * 1000}))
    stored = pa.Table.from_batches(schema.load_table("t").scan(Scan()))
    assert stored.column("a").to_pylist() == stored.column("rowid").to_pylist()
    assert sorted(stored.column("a").to_pylist()) == list(range(100_000))
    with schema.load_table("t").deleting(DMLOptions()) as write:
        write(pa.record_batch({"rowid": np.arange(0, 100_000, 2)}))
    stored = pa.Table.from_batches(schema.load_table("t").scan(Scan(("a",))))
    assert sorted(stored.column("a").to_pylist()) == list(range(1, 100_000, 2))


def test_slices_of_a_large_batch_do_not_spill():
    whole = pa.record_batch({"a": np.arange(10_000)})
    staging = Staging(spill_bytes=50_000, max_bytes=10**9)
    for start in range(0, 5_000, 100):
        staging.add(whole.slice(start, 100))
    assert not staging.spilled()


def test_statements_that_spill_publish_all_rows():
    schema = table(spill_bytes=10_000)
    insert(schema, 0, 5_000, batch_rows=100)
    handle = schema.load_table("t")
    with handle.updating(DMLOptions()) as write:
        for start in range(0, 5_000, 100):
            rowids = np.arange(start, start + 100)
            write(pa.record_batch({"b": [f"new{n}" for n in rowids], "rowid": rowids}))
    stored = pa.Table.from_batches(schema.load_table("t").scan(Scan(("a", "b"))))
    assert stored.column("a").to_pylist() == list(range(5_000))
    assert stored.column("b").to_pylist() == [f"new{n}" for n in range(5_000)]


def test_only_the_last_versions_are_kept():
    schema = table(keep_versions=3)
    for i in range(5):
        insert(schema, i, 1)
    handle = schema.load_table("t")
    assert handle.info().version == 5
    assert handle.at(AsOf(AtUnit.VERSION, "3")).count_rows() == 3
    with pytest.raises(NotFound, match="versions 3 to 5"):
        handle.at(AsOf(AtUnit.VERSION, "2"))


def test_old_versions_take_a_bounded_number_of_bytes():
    schema = table(history_bytes=3_000_000)
    insert(schema, 0, 60_000)
    gc.collect()
    for i in range(40):
        with schema.load_table("t").updating(DMLOptions()) as write:
            write(pa.record_batch({"a": [i], "rowid": [0]}))
    handle = schema.load_table("t")
    assert 2 <= len(handle._cell.history) < 10
    assert handle.at(AsOf(AtUnit.VERSION, str(handle.info().version - 1))).count_rows() == 60_000


def test_times_of_versions_never_go_backwards():
    now = datetime(2024, 1, 1, tzinfo=UTC)
    times = iter([now, now + timedelta(hours=1), now, now + timedelta(hours=2)])
    schema = table(clock=lambda: next(times))
    for i in range(3):
        insert(schema, i, 1)
    handle = schema.load_table("t")

    def count(text):
        return handle.at(AsOf(AtUnit.TIMESTAMP, text)).count_rows()

    assert [count(f"2024-01-01 0{h}:30:00") for h in range(3)] == [0, 2, 3]
    assert count("2024-01-01 01:00:00") == 2


def test_chunks_that_cannot_match_are_not_read():
    schema = table()
    insert(schema, 0, 4 * CHUNK_ROWS)
    handle = schema.load_table("t")
    numbers = In(Column("a"), (Constant("BIGINT", 70_000), Constant("BIGINT", 70_001)))
    assert [b.num_rows for b in handle.scan(Scan(filter=numbers))] == [2]
    untouched = [c for c in handle._state.chunks() if not c._bounds]
    assert untouched == []
    text = Comparison("=", Column("b"), Constant("VARCHAR", "b70000"))
    assert pa.Table.from_batches(handle.scan(Scan(("a",), text))).to_pydict() == {"a": [70_000]}


def test_untouched_chunks_are_shared_between_versions():
    schema = table()
    insert(schema, 0, 3 * CHUNK_ROWS)
    before = schema.load_table("t")._state.chunks()
    with schema.load_table("t").updating(DMLOptions()) as write:
        write(pa.record_batch({"b": ["x"], "rowid": [CHUNK_ROWS]}))
    after = schema.load_table("t")._state.chunks()
    assert [x is y for x, y in zip(before, after, strict=True)] == [True, False, True]
    assert after[1].batch.column(0).buffers()[1].address == (
        before[1].batch.column(0).buffers()[1].address
    )
