"""Tickets from before a restart stay valid, and no one else can make them."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from jetbridge.app import compose
from jetbridge.app.configuration import load_config
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import CreateTable, SchemaInfo
from jetbridge.config.credentials import KEPT, keep_seal_key
from jetbridge.service import Server
from tests.helpers.waiting import wait_until
from tests.helpers.wire_calls import Wire, read_rows, tickets_in, unpack
from tests.integration.service.test_sealing import ask_endpoints, descriptor_of, in_catalog

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
# Reads of a lake need no Spark, which would take seconds to start.
SERVE = """
import sys
from jetbridge.spark import jvm
jvm._homes = lambda: iter(())
from jetbridge.cli import main
sys.exit(main(sys.argv[1:]))
"""
NEW_KEY = "ab" * 32


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Return a lake with one table, as another engine made it."""
    folder = tmp_path / "lake"
    folder.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("sch")
    catalog.create_table("sch.tab", ROWS.schema).append(ROWS)
    catalog.close()
    return folder


@contextmanager
def serving(warehouse: Path, *lines: str) -> Iterator[Wire]:
    """Run `jetbridge serve`; kill it at the end."""
    config = warehouse.parent / "jetbridge.toml"
    server = "\n".join(("[server]", "port = 0", *lines))
    config.write_text(f"{server}\n[catalogs.lake]\ntype = 'lake'\nwarehouse = '{warehouse}'\n")
    command = [sys.executable, "-c", SERVE, "serve", "--config", str(config)]
    with (warehouse.parent / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), (warehouse.parent / "log").read_text()
        with Wire(line.split()[-1]) as wire:
            yield wire
    finally:
        process.kill()
        process.communicate()


def rows(wire: Wire, tickets: list[bytes], *headers: tuple[str, str]) -> list[int]:
    answer = wire.get(tickets, [*in_catalog("lake"), *headers])
    found: list[int] = read_rows(answer).column("n").to_pylist()
    return found


def test_tickets_and_transactions_from_before_a_kill_are_valid_after_it(warehouse: Path) -> None:
    with serving(warehouse) as wire:
        descriptor = descriptor_of(wire, "sch", "tab", "lake")
        tickets = tickets_in(ask_endpoints(wire, descriptor, "lake"))
        answer = wire.action("create_transaction", {"catalog_name": "lake"}, in_catalog("lake"))
        transaction = ("airport-transaction-id", unpack(answer.body)["identifier"])
        assert rows(wire, tickets, transaction) == [1, 2, 3]
    key = warehouse / KEPT
    assert key.stat().st_mode & 0o777 == 0o600
    with serving(warehouse) as wire:
        assert rows(wire, tickets) == [1, 2, 3]
        assert rows(wire, tickets, transaction) == [1, 2, 3]
        again = tickets_in(ask_endpoints(wire, descriptor, "lake"))
        assert rows(wire, again) == [1, 2, 3]
        assert descriptor_of(wire, "sch", "tab", "lake") == descriptor


@pytest.mark.full
def test_a_key_that_was_replaced_opens_until_it_is_removed(warehouse: Path) -> None:
    with serving(warehouse) as wire:
        old = descriptor_of(wire, "sch", "tab", "lake")
    key = warehouse / KEPT
    key.write_text(f"{NEW_KEY}\n{key.read_text()}")
    with serving(warehouse) as wire:
        new = descriptor_of(wire, "sch", "tab", "lake")
        assert new != old
        for descriptor in (old, new):
            assert ask_endpoints(wire, descriptor, "lake").status == "OK"
    key.write_text(f"{NEW_KEY}\n")
    with serving(warehouse) as wire:
        assert ask_endpoints(wire, new, "lake").status == "OK"
        refused = ask_endpoints(wire, old, "lake")
        assert refused.status == "INVALID_ARGUMENT"
        assert "DETACH and ATTACH" in refused.message


def test_servers_that_share_a_file_learn_of_a_new_key_without_a_restart(tmp_path: Path) -> None:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("sch")).create_table(CreateTable("tab", ROWS.schema))
    file = tmp_path / "seal.key"
    file.write_text("cd" * 32)
    (tmp_path / "jetbridge.toml").write_text("[server]\nseal_key_file = 'seal.key'")
    keys = [compose.seal_keys(load_config(tmp_path / "jetbridge.toml")) for _ in range(2)]
    with Server({"cat": catalog}, port=0, seal_keys=keys[0]) as first:
        first.start()
        file.write_text(f"{NEW_KEY}\n{file.read_text()}\n")
        with Server({"cat": catalog}, port=0, seal_keys=keys[1]) as second:
            second.start()
            with Wire(first.location) as one, Wire(second.location) as other:
                old = descriptor_of(one, "sch", "tab")
                new = descriptor_of(other, "sch", "tab")
                assert new != old
                for wire in (one, other):
                    assert ask_endpoints(wire, old).status == "OK"
                    assert ask_endpoints(wire, new).status == "OK"
                file.unlink()
                assert ask_endpoints(one, new[:-1] + b"x").status == "INVALID_ARGUMENT"
                assert ask_endpoints(one, new).status == "OK"


@pytest.mark.full
def test_servers_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    script = "import sys, pathlib; from jetbridge.config.credentials import keep_seal_key\n"
    script += "sys.stdin.readline(); print(keep_seal_key(pathlib.Path(sys.argv[1])).read_text())"
    for folder in (tmp_path / str(number) for number in range(3)):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        with ThreadPoolExecutor(len(processes)) as pool:
            answers = list(pool.map(lambda each: each.communicate("go\n")[0], processes))
        assert len(set(answers)) == 1
        assert len(answers[0].strip()) == 64
        assert [each.name for each in (folder / KEPT).parent.iterdir()] == ["seal.key"]


def test_without_a_lake_on_this_machine_the_key_is_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never in an object store, and no key for tables that end with the server."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "etc" / "jetbridge.toml"
    file.parent.mkdir()
    kept = file.parent / "jetbridge-data" / KEPT
    file.write_text("[catalogs.mine]\ntype = 'memory'")
    assert compose.seal_keys(load_config(file)) is None
    assert not kept.parent.exists()
    file.write_text(
        "[catalogs.far]\ntype = 'lake'\nwarehouse = 's3://bucket/lake'\n"
        "uri = 'jdbc:postgresql://db.example/lake'"
    )
    keys = compose.seal_keys(load_config(file))
    assert keys is not None
    assert keys() == (bytes.fromhex(kept.read_text().strip()),)
    assert [each.name for each in tmp_path.iterdir()] == ["etc"]


def test_a_server_starts_without_a_writable_folder_and_logs_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".jetbridge").write_text("a file where the folder would be")
    with caplog.at_level(logging.WARNING):
        assert keep_seal_key(tmp_path) is None
    assert "clients must attach again after a restart" in caplog.text


def test_a_kept_key_that_is_damaged_is_named(tmp_path: Path, warehouse: Path) -> None:
    (warehouse / ".jetbridge").mkdir()
    (warehouse / KEPT).write_text("short")
    told = pytest.raises(AssertionError, match=r"seal\.key: holds 5 bytes.*if you remove it")
    with told, serving(warehouse):
        pass


def test_a_kept_key_that_all_can_read_is_warned_about(warehouse: Path) -> None:
    keep_seal_key(warehouse)
    (warehouse / KEPT).chmod(0o644)
    with serving(warehouse):
        log = warehouse.parent / "log"
        wait_until(lambda: f"chmod 600 {warehouse / KEPT}" in log.read_text())
