"""A lake whose server or Spark is killed repeatedly, and what its tables must hold."""

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.client import Client
from tests.faults.lake.model import COLUMNS, differences, made, read, settled
from tests.faults.lake.process import LakeServer
from tests.faults.leftovers import leftovers, table_folder
from tests.faults.moments import Broken, Moment, Watch, broken

log = logging.getLogger(__name__)

Table = tuple[str, str]
PARTED = ("s", "parted")
INSERTED = 1_000_000
KEPT = 40_000
JOINED = 4
SPARE = 10**9  # ids of the single rows that follow a fault


@dataclass
class Scene:
    server: LakeServer
    models: dict[Table, pa.Table] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def create(self, client: Client, table: Table) -> None:
        client.create_table(*table, COLUMNS)
        self.models[table] = made(0, 0)

    def fill(self, client: Client, table: Table, rows: pa.Table) -> None:
        client.insert(*table, rows)
        self.models[table] = pa.concat_tables([self.models[table], rows])

    def break_off(self, client: Client, work: "Work", moment: Moment, kill: "Kill") -> Broken:
        folder = table_folder(self.server.warehouse, *work.table)
        watch = Watch(self.server.warehouse, folder, moment)
        ended = broken(lambda: work.run(client), watch, lambda: kill(self))
        log.info("%s, killed at %s: %s", work.table, moment, ended)
        return ended

    def settle(self, client: Client, work: "Work", *, done: bool) -> None:
        """Check that the table is as before the statement or as after it."""
        before = self.models[work.table]
        found = settled(read(client, work.table), before, work.after, done=done)
        self.models[work.table] = found
        log.info("the table is as %s", "after" if found is work.after else "before")

    def check_next_statements(self, client: Client, table: Table) -> None:
        """Check that the server runs the next statement and loses nothing."""
        self.fill(client, table, made(SPARE + next(self.numbers), 1))
        wrong = differences(read(client, table), self.models[table])
        assert not wrong, wrong

    def check_swept(self, client: Client, table: Table) -> None:
        """Check that nothing is left behind, and that no swept file is missing."""
        swept = self.server.order("sweep")
        left = leftovers(self.server.warehouse)
        assert not left, f"{left} outlive the sweeper, which took {swept}"
        wrong = differences(read(client, table), self.models[table])
        assert not wrong, wrong


class Work(NamedTuple):
    """Hold a statement on a table, and the rows of the table after it."""

    table: Table
    run: Callable[[Client], object]
    after: pa.Table


Kill = Callable[[Scene], object]


@contextmanager
def opened(folder: Path, spark: dict[str, str] | None = None) -> Iterator[Scene]:
    """Open a server with a partitioned table, whose rows Spark changes."""
    with LakeServer(folder, spark=spark) as server:
        scene = Scene(server)
        with server.client() as client:
            client.create_schema("s")
            scene.create(client, PARTED)
            server.order("partition", *PARTED, "p")
            scene.fill(client, PARTED, made(0, KEPT))
        yield scene


def insert(scene: Scene, client: Client) -> Work:
    """Insert into a table without partitions."""
    table = ("s", f"plain{next(scene.numbers)}")
    scene.create(client, table)
    scene.fill(client, table, made(0, 1000))
    rows = made(1000, INSERTED)
    after = pa.concat_tables([scene.models[table], rows])
    return Work(table, lambda client: client.insert(*table, rows), after)


def laid_insert(scene: Scene, client: Client) -> Work:
    """Insert into a table with partitions, so that Spark writes the files."""
    table = ("s", f"laid{next(scene.numbers)}")
    scene.create(client, table)
    scene.server.order("partition", *table, "p")
    rows = made(0, INSERTED)
    return Work(table, lambda client: client.insert(*table, rows), rows)


def merge(scene: Scene, client: Client) -> Work:
    """Update half of the partitioned table."""
    before = scene.models[PARTED]
    half = before.num_rows // 2
    found = client.read(*PARTED, ["id", "v", "rowid"])
    found = found.filter(pc.less(found["id"], half))
    changed = pa.table({"v": pc.add(found["v"], 1), "rowid": found["rowid"]})
    concerned = pc.less(before["id"], half)
    values = pc.if_else(concerned, pc.add(before["v"], 1), before["v"])
    after = before.set_column(1, COLUMNS.field("v"), values)
    return Work(PARTED, lambda client: client.update(*PARTED, changed), after)


def compaction(scene: Scene, client: Client) -> Work:
    """Compact files with deleted rows, which an UPDATE leaves."""
    work = merge(scene, client)
    work.run(client)
    scene.models[PARTED] = work.after
    return Work(PARTED, lambda _: scene.server.order("optimize", *PARTED), work.after)


def plain_compaction(scene: Scene, client: Client) -> Work:
    """Compact a table whose files Spark has not written, which is faster."""
    table = ("s", f"plain{next(scene.numbers)}")
    scene.create(client, table)
    for number in range(JOINED):
        scene.fill(client, table, made(number * KEPT, KEPT))
    found = client.read(*table, ["id", "rowid"])
    client.delete(*table, found.filter(pc.less(found["id"], 100))["rowid"])
    there = scene.models[table]
    left = scene.models[table] = there.filter(pc.greater_equal(there["id"], 100))
    return Work(table, lambda _: scene.server.order("optimize", *table), left)


WORKS = {
    "insert": insert,
    "laid insert": laid_insert,
    "merge": merge,
    "compaction": compaction,
    "plain compaction": plain_compaction,
}
