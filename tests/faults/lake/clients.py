"""Clients that change the same tables at once and remember what the server acknowledged."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.client import Client, connect
from jetbridge.errors import Conflict
from tests.faults.lake.process import NAME, PATIENCE

COUNTERS, ITEMS = ("many", "counters"), ("many", "items")
COUNTER_COLUMNS = pa.schema([("key", pa.int64()), ("n", pa.int64())])
ITEM_COLUMNS = pa.schema([("key", pa.int64()), ("maker", pa.int64())])
KEYS = 8
# A client that loses so often has bad luck indeed.
TRIES = 20


def create(client: Client) -> None:
    client.create_schema(COUNTERS[0])
    client.create_table(*COUNTERS, COUNTER_COLUMNS)
    client.create_table(*ITEMS, ITEM_COLUMNS)
    client.insert(*COUNTERS, pa.table([list(range(KEYS)), [0] * KEYS], schema=COUNTER_COLUMNS))


@dataclass
class Member:
    """Act as one client; `counted`, `inserted` and `deleted` hold what was acknowledged."""

    location: str
    number: int
    statements: int
    rng: random.Random
    counted: list[tuple[int, int]] = field(default_factory=list)
    inserted: list[int] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    done: Counter = field(default_factory=Counter)

    def run(self) -> None:
        steps = (self.count, self.count, self.insert, self.delete)
        with connect(self.location, NAME) as client:
            for _ in range(self.statements):
                self.until_done(client, self.rng.choice(steps))

    def until_done(self, client: Client, step) -> None:
        """Run a transaction again until it has no conflict."""
        for _ in range(TRIES):
            try:
                with client.transaction() as view:
                    step(view)
            except Conflict:
                self.done["conflict"] += 1
                continue
            self.done[step.__name__] += 1
            return
        self.done["given up"] += 1

    def count(self, view: Client) -> None:
        """Set a counter to one more than the value that this transaction read."""
        found = view.read(*COUNTERS, ["key", "n", "rowid"]).to_pylist()
        chosen = self.rng.choice(found)
        new = chosen["n"] + 1
        view.update(*COUNTERS, pa.table({"n": [new], "rowid": [chosen["rowid"]]}))
        self.counted.append((chosen["key"], new))

    def insert(self, view: Client) -> None:
        first = (self.number + 1) * 1_000_000 + len(self.inserted)
        keys = list(range(first, first + self.rng.randrange(1, 20)))
        view.insert(*ITEMS, pa.table([keys, [self.number] * len(keys)], schema=ITEM_COLUMNS))
        self.inserted += keys

    def delete(self, view: Client) -> None:
        """Delete rows of any member."""
        found = view.read(*ITEMS, ["key", "rowid"]).to_pylist()
        chosen = self.rng.sample(found, min(len(found), 3))
        view.delete(*ITEMS, pa.array([row["rowid"] for row in chosen], pa.int64()))
        self.deleted += [row["key"] for row in chosen]


def run_all(location: str, clients: int, statements: int, seed: int) -> list[Member]:
    members = [
        Member(location, number, statements, random.Random(f"{seed}/{number}"))
        for number in range(clients)
    ]
    with ThreadPoolExecutor(clients) as pool:
        for running in [pool.submit(member.run) for member in members]:
            running.result(PATIENCE * statements)
    return members


def check_one_after_the_other(client: Client, members: list[Member]) -> None:
    """Check that the acknowledged statements ran in some order, and no other statement did.

    Each count writes one more than it read. So the written values give the order: each value occurs
    once, none is missing, and the table has the last one.
    """
    written: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for key, value in (each for member in members for each in member.counted):
        written[key].append(value)
    for key, values in written.items():
        assert sorted(values) == list(range(1, len(values) + 1)), key
    counters = client.read(*COUNTERS).to_pylist()
    assert sorted((row["key"], row["n"]) for row in counters) == [
        (key, len(values)) for key, values in sorted(written.items())
    ]
    inserted = [(key, member.number) for member in members for key in member.inserted]
    deleted = [key for member in members for key in member.deleted]
    assert len(deleted) == len(set(deleted)), "a row was deleted twice"
    items = [(row["key"], row["maker"]) for row in client.read(*ITEMS).to_pylist()]
    assert sorted(items) == sorted(each for each in inserted if each[0] not in set(deleted))
