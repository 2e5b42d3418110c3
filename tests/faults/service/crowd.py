"""Clients that work at once: each has a model of its own tables, and all share one table."""

import random
import threading
from collections import Counter
from typing import Any

import pyarrow as pa

from jetbridge.client import Client, connect
from jetbridge.errors import AlreadyExists, Conflict, NotFound, ServerError

SHARED = ("shared", "accounts")
ACCOUNTS = 16
START = 1000
ACCOUNT_COLUMNS = pa.schema([("account", pa.int64()), ("money", pa.int64())])
OWN_COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def open_accounts(client: Client) -> None:
    client.create_schema(SHARED[0])
    client.create_table(*SHARED, ACCOUNT_COLUMNS)
    rows = [list(range(ACCOUNTS)), [START] * ACCOUNTS]
    client.insert(*SHARED, pa.table(rows, schema=ACCOUNT_COLUMNS))


def money_is_all_there(client: Client) -> bool:
    """Check that every snapshot has the same accounts and the same sum."""
    found = client.read(*SHARED)
    accounts = sorted(found["account"].to_pylist())
    return accounts == list(range(ACCOUNTS)) and sum(found["money"].to_pylist()) == ACCOUNTS * START


class Member:
    """Act as one client with its own schema, which must read what it wrote."""

    def __init__(self, location: str, number: int, seed: int) -> None:
        self.client = connect(location, "memory")
        self.schema = f"own{number}"
        self.rng = random.Random(f"{seed}/{number}")
        self.tables: dict[str, dict[int, list[int]]] = {}
        self.done: Counter = Counter()
        self.client.create_schema(self.schema)

    def run(self, stop: threading.Event) -> None:
        steps = (self.create, self.drop, self.insert, self.insert, self.update, self.delete)
        with self.client:
            while not stop.is_set():
                step = self.rng.choice([*steps, self.move_money, self.look_at_money])
                step()
                self.done[step.__name__] += 1
                self.check()

    def check(self) -> None:
        for name, rows in self.tables.items():
            found = self.client.read(self.schema, name, ["id", "v", "rowid"]).sort_by("rowid")
            expected = [{"id": i, "v": v, "rowid": r} for r, (i, v) in sorted(rows.items())]
            assert found.to_pylist() == expected

    def create(self) -> None:
        name = f"t{self.rng.randrange(3)}"
        try:
            self.client.create_table(self.schema, name, OWN_COLUMNS)
        except AlreadyExists:
            assert name in self.tables
            return
        assert name not in self.tables
        self.tables[name] = {}

    def drop(self) -> None:
        name = f"t{self.rng.randrange(3)}"
        try:
            self.client.drop_table(self.schema, name)
        except NotFound:
            assert name not in self.tables
            return
        del self.tables[name]

    def insert(self) -> None:
        for name, rows in self.tables.items():
            values = [self.rng.randrange(100) for _ in range(self.rng.randrange(1, 40))]
            sent = pa.table([list(range(len(values))), values], schema=OWN_COLUMNS)
            done = self.client.insert(self.schema, name, sent, True, self.rng.randrange(1, 20))
            assert done.returning is not None
            new = done.returning["rowid"].to_pylist()
            assert rows.keys().isdisjoint(new)
            rows.update(
                {r: [i, v] for r, i, v in zip(new, range(len(values)), values, strict=True)}
            )

    def update(self) -> None:
        for name, rows in self.tables.items():
            chosen = [r for r in rows if self.rng.random() < 0.3]
            values = [self.rng.randrange(100) for _ in chosen]
            columns: dict[str, Any] = {"v": pa.array(values, pa.int64())}
            columns["rowid"] = pa.array(chosen, pa.int64())
            self.client.update(self.schema, name, pa.table(columns))
            for rowid, value in zip(chosen, values, strict=True):
                rows[rowid][1] = value

    def delete(self) -> None:
        for name, rows in self.tables.items():
            chosen = [r for r in rows if self.rng.random() < 0.3]
            self.client.delete(self.schema, name, pa.array(chosen, pa.int64()))
            for rowid in chosen:
                del rows[rowid]

    def move_money(self) -> None:
        """Read and write in one transaction; a conflict is allowed but must change nothing."""
        try:
            with self.client.transaction() as view:
                found = view.read(*SHARED, ["money", "rowid"]).to_pylist()
                giver, taker = self.rng.sample(found, 2)
                amount = self.rng.randrange(100)
                money = [giver["money"] - amount, taker["money"] + amount]
                rowids = [giver["rowid"], taker["rowid"]]
                view.update(*SHARED, pa.table({"money": money, "rowid": rowids}))
        except Conflict:
            self.done["conflict"] += 1

    def look_at_money(self) -> None:
        assert money_is_all_there(self.client)


def run_members(
    members: list[Member], stop: threading.Event, seconds: float
) -> list[BaseException]:
    """Run the members in threads; return their errors."""
    wrong: list[BaseException] = []

    def work(member: Member) -> None:
        try:
            member.run(stop)
        except (AssertionError, ServerError) as error:
            wrong.append(error)
            stop.set()

    threads = [threading.Thread(target=work, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join(60)
    return wrong
