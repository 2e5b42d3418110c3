"""Rows on their way: in memory, then in files; and the sweep of what loads have left."""

import os
import subprocess
import sys
import threading
from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jetbridge.backends.mssql.catalog import MssqlCatalog
from jetbridge.backends.mssql.connection.address import Address
from jetbridge.backends.mssql.database import SpoolOptions
from jetbridge.backends.mssql.settings import MssqlSettings
from jetbridge.backends.mssql.write.spool import SpoolPart, group_parts, open_spool
from jetbridge.errors import LimitExceeded

THOUSAND = MssqlSettings(copy_flush_rows=1000)


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(first, first + rows))})


def numbers(batches: object) -> list[int]:
    return [n for each in batches for n in each.column(0).to_pylist()]  # type: ignore[attr-defined]


def test_few_rows_stay_in_memory(tmp_path):
    with open_spool(SpoolOptions(str(tmp_path)), THOUSAND) as spool:
        spool.add(batch(0, 400))
        spool.add(batch(400, 500))
        assert not list(tmp_path.iterdir())
        assert numbers(spool.batches()) == list(range(900))
        assert numbers(spool.batches()) == list(range(900))


def test_many_rows_are_in_files_which_go_at_the_end(tmp_path):
    with open_spool(SpoolOptions(str(tmp_path)), THOUSAND) as spool:
        for first in range(0, 2500, 500):
            spool.add(batch(first, 500))
        assert numbers(spool.batches()) == list(range(2500))
        spool.to_files()
        assert [part.rows for part in spool.parts] == [1000, 1000, 500]
        assert numbers(b for part in spool.parts for b in part.batches()) == list(range(2500))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("most", "sizes"), [(1, [2500]), (2, [1250, 1250]), (3, [833, 833, 834]), (5, [500] * 5)]
)
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_parts_are_even_whatever_the_files(tmp_path, most, sizes, kind):
    with open_spool(SpoolOptions(str(tmp_path)), THOUSAND) as spool:
        for first in range(0, 2500, 500):
            spool.add(batch(first, 500))
        spool.to_files()
        files = spool.parts if kind == "arrow" else [as_parquet(part) for part in spool.parts]
        parts = group_parts(files, most)
        assert [part.rows for part in parts] == sizes
        assert [part.number for part in parts] == list(range(most))
        for part in parts:
            assert sum(each.num_rows for each in part.batches()) == part.rows
        assert numbers(b for part in parts for b in part.batches()) == list(range(2500))


def as_parquet(part: SpoolPart) -> SpoolPart:
    file = part.files[0].replace(".arrow", ".parquet")
    pq.write_table(pa.Table.from_batches(part.batches()), file)
    return SpoolPart(part.number, (file,), part.rows)


def test_fewer_rows_than_parts_are_asked_for(tmp_path):
    with open_spool(SpoolOptions(str(tmp_path)), THOUSAND) as spool:
        spool.add(batch(0, 2))
        spool.to_files()
        assert [part.rows for part in group_parts(spool.parts, 8)] == [1, 1]


def test_more_than_a_statement_may_stage(tmp_path):
    with (
        open_spool(SpoolOptions(str(tmp_path), staged_bytes=100), THOUSAND) as spool,
        pytest.raises(LimitExceeded, match="100 bytes"),
    ):
        spool.add(batch(0, 1000))


def test_a_folder_that_cannot_be_written(tmp_path):
    with (
        open_spool(SpoolOptions(str(tmp_path / "missing")), THOUSAND) as spool,
        pytest.raises(LimitExceeded, match="set `spool` to another folder"),
    ):
        spool.add(batch(0, 1000))


def test_files_of_processes_that_are_gone_are_removed(tmp_path):
    options = SpoolOptions(str(tmp_path))
    made = options.new_folder()
    mine = made.path
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    theirs = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{dead}-"))
    theirs.mkdir()
    elsewhere = mine.with_name(f"jetbridge-mssql-{dead}-0123456789ab")
    elsewhere.mkdir()
    (elsewhere / "owner.lock").write_text("another.host")
    options.remove_orphans()
    assert sorted(tmp_path.iterdir()) == sorted([mine, elsewhere])


def sweeps() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mssql-sweep"]


def test_start_sweeper_begins_a_sweep_that_waits_for_the_first_connection():
    others = sweeps()  # of other tests in this process, which wait for their ends
    with closing(MssqlCatalog("m", Address("127.0.0.1,1", "master", "sa", "x"))) as catalog:
        catalog.start_sweeper()
        assert len(set(sweeps()) - set(others)) == 1
        assert not catalog.database.server.reached.is_set()
        catalog.start_sweeper()
        assert len(set(sweeps()) - set(others)) == 1, "one at a time"
    assert set(sweeps()) <= set(others)
