"""Names, states and versions of the catalog, over a SQLite catalog that others write to."""

from pathlib import Path

import pytest

from jetbridge.backends.lake.files import Files
from jetbridge.backends.lake.metadata.pointers import SPOOL
from jetbridge.backends.lake.metadata.table_store import Superseded, TableStore
from jetbridge.errors import AlreadyExists, FailedPrecondition, NotFound, Unavailable
from tests.unit.backends.lake.recorded_lake import RecordedLake


def test_a_listing_has_namespaces_and_tables_by_folded_names(recorded: RecordedLake):
    recorded.catalog.create_namespace("Empty", {"comment": "nothing"})
    recorded.add("Other", recorded.metadata_files("plain")[0], space="New.Inner")
    listing = recorded.lake.tables.listing()
    assert listing.namespaces == {"s": "s", "empty": "Empty", "new.inner": "New.Inner"}
    assert sorted(listing.tables) == [("new.inner", "other"), ("s", "laid_out"), ("s", "plain")]
    assert (listing.properties_of("EMPTY") or {})["comment"] == "nothing"
    assert listing.properties_of("none") == {}


def test_names_are_found_in_any_case(recorded: RecordedLake):
    tables = recorded.lake.tables
    assert tables.load("S", "PLAIN").pointer.name == "plain"
    assert tables.find("s", "none") is None
    assert tables.pointers.find_namespace("S") == "s"
    assert tables.pointers.find_namespace("none") is None
    with pytest.raises(NotFound, match=r"s\.none"):
        tables.load("s", "none")


def test_spool_tables_are_not_listed(recorded: RecordedLake):
    recorded.add(f"{SPOOL}11111111_a", recorded.metadata_files("plain")[0])
    listing = recorded.lake.tables.listing()
    assert listing.spools == (("s", f"{SPOOL}11111111_a"),)
    assert len(listing.tables) == 2


def test_commits_of_others_count_at_once(recorded: RecordedLake):
    first = recorded.state("plain", 1)
    assert first.version == 1
    assert recorded.lake.tables.current(first).version == 1
    recorded.move("plain", recorded.metadata_files("plain")[2])
    assert recorded.lake.tables.current(first).version == 2


def test_a_table_is_followed_when_it_is_renamed(recorded: RecordedLake):
    state = recorded.state("plain")
    recorded.rename("plain", "other")
    current = recorded.lake.tables.current(state)
    assert (current.pointer.name, current.identity) == ("other", state.identity)


def test_a_table_of_the_same_name_is_another_one(recorded: RecordedLake):
    state = recorded.state("plain")
    recorded.move("plain", recorded.metadata_files("laid_out")[-1])
    recorded.remove("laid_out")
    with pytest.raises(NotFound, match=r"s\.plain"):
        recorded.lake.tables.current(state)


def test_a_damaged_table_does_not_hide_a_renamed_one(recorded: RecordedLake):
    state = recorded.state("plain")
    recorded.rename("plain", "other")
    recorded.add("broken", "recorded/none.metadata.json")
    assert recorded.lake.tables.current(state).pointer.name == "other"
    with pytest.raises(Unavailable, match=r"s\.broken.*recorded/none\.metadata\.json"):
        recorded.lake.tables.load("s", "broken")


def test_an_old_metadata_file_that_is_gone_is_superseded(recorded: RecordedLake):
    old = recorded.state("plain", 1).pointer
    recorded.state("plain", 2)
    Path(old.location).unlink()
    fresh = TableStore(recorded.lake.tables.pointers, Files({}), 1_000_000)
    with pytest.raises(Superseded, match="start a new transaction"):
        fresh.state(old)
    assert fresh.load("s", "plain").version == 2


def test_the_version_of_the_catalog_rises_with_ddl_only(recorded: RecordedLake):
    tables = recorded.lake.tables

    def version() -> int:
        return tables.version(tables.listing())

    recorded.state("plain", 1)
    first = version()
    recorded.state("plain", 2)  # INSERT
    assert version() == first
    recorded.state("plain", 3)  # ADD COLUMN
    assert version() == first + 1
    recorded.catalog.create_namespace("more")
    assert version() == first + 2
    recorded.remove("laid_out")
    assert version() == first + 3
    assert version() == first + 3


def test_namespaces_are_created_and_dropped(recorded: RecordedLake):
    namespaces = recorded.lake.namespaces
    namespaces.create("t", {"comment": "c"})
    assert namespaces.properties("t")["comment"] == "c"
    with pytest.raises(AlreadyExists):
        namespaces.create("t", {})
    namespaces.drop("t")
    with pytest.raises(NotFound):
        namespaces.properties("t")
    with pytest.raises(NotFound):
        namespaces.drop("t")
    with pytest.raises(FailedPrecondition, match="has tables"):
        namespaces.drop("s")


def test_a_catalog_that_cannot_be_read_is_unavailable(recorded: RecordedLake, tmp_path: Path):
    recorded.catalog.engine.dispose()
    (tmp_path / "catalog.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(Unavailable, match="catalog does not answer"):
        recorded.lake.tables.load("s", "plain")
