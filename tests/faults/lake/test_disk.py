"""On a full disk, statements fail with an error that names it, and leave nothing."""

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.client import Client
from jetbridge.errors import LimitExceeded
from tests.faults.lake.model import COLUMNS, differences, made, read
from tests.faults.lake.process import LakeServer
from tests.faults.leftovers import leftovers
from tests.faults.small_disk import Disk, may_mount, mounted

pytestmark = [pytest.mark.lake, pytest.mark.xdist_group("lake-server")]

Table = tuple[str, str]
SMALL = made(0, 1000)
LARGE_ROWS = 400_000
# Nothing fits into the first, a whole statement into the last.
FREE_BLOCKS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48)
FEW_BLOCKS = (0, 3, 10, 48)
LIMIT = 8 * 1024 * 1024

_numbers = itertools.count()


def large() -> pa.Table:
    """Return forty megabytes that no codec compresses."""
    texts = np.random.default_rng(4).bytes(50 * LARGE_ROWS).hex()
    strings = [texts[at : at + 100] for at in range(0, len(texts), 100)]
    return made(1000, LARGE_ROWS).set_column(2, COLUMNS.field("s"), pa.array(strings))


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    if not may_mount():
        pytest.skip("needs the right to mount a tmpfs; the test with a limit stands in for it")
    with mounted(tmp_path_factory.mktemp("disk") / "small", "20m") as there:
        yield there


@pytest.fixture(scope="module")
def on_disk(disk: Disk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServer]:
    folder = tmp_path_factory.mktemp("full")
    with LakeServer(folder, warehouse=disk.folder / "warehouse") as running:
        with running.client() as client:
            client.create_schema("s")
        yield running


@pytest.fixture
def client(on_disk: LakeServer, disk: Disk) -> Iterator[Client]:
    with on_disk.client() as connected:
        yield connected
    disk.release()


@pytest.fixture
def table(client: Client) -> Table:
    """Create a table with a thousand rows."""
    return filled(client)


def filled(client: Client, schema: str = "s") -> Table:
    path = (schema, f"t{next(_numbers)}")
    client.create_table(*path, COLUMNS)
    client.insert(*path, SMALL)
    return path


def test_insert_that_fills_the_disk_is_refused_and_leaves_nothing(client, on_disk, disk, table):
    before = disk.free
    with pytest.raises(LimitExceeded, match="…/data.*free some space"):
        client.insert(*table, large())
    assert differences(read(client, table), SMALL) == {}
    assert leftovers(on_disk.warehouse) == []
    assert disk.free > before - 1_000_000  # Spark's log may have grown
    check_works(client, table, SMALL)


def check_works(client: Client, table: Table, rows: pa.Table) -> None:
    more = made(10**6, 10)
    client.insert(*table, more)
    assert differences(read(client, table), pa.concat_tables([rows, more])) == {}


def insert(client: Client, table: Table) -> pa.Table:
    more = made(1000, 1000)
    client.insert(*table, more)
    return pa.concat_tables([SMALL, more])


def update(client: Client, table: Table) -> pa.Table:
    rowids = client.read(*table, ["rowid"])["rowid"]
    client.update(*table, pa.table({"v": pa.array([7] * len(rowids)), "rowid": rowids}))
    return SMALL.set_column(1, COLUMNS.field("v"), pa.array([7] * len(SMALL)))


def delete(client: Client, table: Table) -> pa.Table:
    client.delete(*table, client.read(*table, ["rowid"])["rowid"])
    return SMALL.slice(0, 0)


def create(client: Client, table: Table) -> pa.Table:
    """Create another table, which leaves this one unchanged."""
    client.create_table(table[0], f"{table[1]}_other", COLUMNS)
    client.insert(table[0], f"{table[1]}_other", SMALL)
    return SMALL


STATEMENTS = (insert, update, delete, create)
CASES = [
    *(pytest.param(each, FEW_BLOCKS, id=f"{each.__name__}-few") for each in (update, create)),
    *(
        pytest.param(each, FREE_BLOCKS, id=each.__name__, marks=pytest.mark.soak)
        for each in STATEMENTS
    ),
]


@pytest.mark.full
@pytest.mark.parametrize(("statement", "free"), CASES)
def test_on_a_disk_that_is_nearly_full_a_statement_is_done_or_refused(
    client, on_disk, disk, statement, free
):
    """Once there is space again, the table accepts the next statement."""
    outcomes = []
    for blocks in free:
        disk.release()
        table = filled(client)
        disk.leave(blocks)
        rows = attempted(client, table, statement)
        outcomes.append(rows is not None)
        disk.release()
        expected = SMALL if rows is None else rows
        assert differences(read(client, table), expected) == {}, blocks
        check_works(client, table, expected)
    on_disk.order("sweep")
    assert leftovers(on_disk.warehouse) == []
    assert (outcomes[0], outcomes[-1]) == (False, True)


def attempted(
    client: Client, table: Table, statement: Callable[[Client, Table], pa.Table]
) -> pa.Table | None:
    try:
        return statement(client, table)
    except LimitExceeded:
        return None


@pytest.mark.full
def test_a_limit_of_file_sizes_is_handled_like_a_full_disk(lake_server):
    """For machines where the test cannot mount a disk."""
    with lake_server.client() as client:
        client.create_schema("limited")
        table = filled(client, "limited")
        lake_server.order("limit", str(LIMIT))
        with pytest.raises(LimitExceeded, match="…/data.*free some space"):
            client.insert(*table, large())
        assert differences(read(client, table), SMALL) == {}
        assert leftovers(lake_server.warehouse) == []
        lake_server.order("limit")
        check_works(client, table, SMALL)
