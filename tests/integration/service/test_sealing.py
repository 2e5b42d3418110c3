"""Tickets and descriptors that were altered, borrowed or outlived by their table."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import AddColumn, CreateTable, DMLOptions, SchemaInfo
from jetbridge.config.model import Token
from jetbridge.service import Server
from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    Answer,
    Wire,
    as_bytes,
    batch_messages,
    pack,
    read_rows,
    schema_message,
    tickets_in,
    unpack,
)

FLIPS = (0x01, 0x80, 0xFF)
# Names that differ in one bit from cat, sch and tab.
CATALOGS = ("cat", "bat", "c`t", "cau")
SCHEMAS = ("sch", "rch", "sbh", "sci")
TABLES = ("tab", "uab", "t`b", "tac")
COLUMNS = pa.schema([("where", pa.string())])
REFUSED = {"INVALID_ARGUMENT", "NOT_FOUND"}


def add_rows(catalog: MemoryCatalog, schema: str, name: str, *values: str) -> None:
    table = catalog.load_schema(schema).load_table(name)
    with table.inserting(DMLOptions()) as write:
        write(pa.RecordBatch.from_arrays([pa.array(values)], schema=table.info().schema))


@pytest.fixture(scope="module")
def catalogs() -> dict[str, MemoryCatalog]:
    """Return one table for each mix of the names; its rows name the table and the version."""
    made = {name: MemoryCatalog() for name in CATALOGS}
    for catalog_name, catalog in made.items():
        for schema in SCHEMAS:
            catalog.create_schema(SchemaInfo(schema))
            for table in TABLES:
                catalog.load_schema(schema).create_table(CreateTable(table, COLUMNS))
                for version in ("1", "2", "3"):
                    where = f"{catalog_name}.{schema}.{table}"
                    add_rows(catalog, schema, table, f"{where} {version}")
    return made


@pytest.fixture(scope="module")
def wire(catalogs: dict[str, MemoryCatalog]) -> Iterator[Wire]:
    with Server(catalogs, port=0) as server:
        server.start()
        with Wire(server.location) as raw:
            yield raw


def in_catalog(name: str, token: str = "") -> list[tuple[str, str]]:
    bearer = [("authorization", f"Bearer {token}")] if token else []
    return [("airport-catalog", name), *bearer]


def descriptor_of(
    wire: Wire, schema: str, table: str, catalog: str = "cat", token: str = ""
) -> bytes:
    """Return the descriptor as the client gets it: from a listing."""
    listed = wire.call("ListFlights", b"", in_catalog(catalog, token))
    assert listed.status == "OK", listed.message
    for message in listed.messages:
        flight = pb.FlightInfo.FromString(message)
        about = unpack(flight.app_metadata)
        if (about["schema"], about["name"]) == (schema, table):
            return flight.flight_descriptor.SerializeToString()
    raise LookupError(table)


def ask_endpoints(
    wire: Wire, descriptor: bytes, catalog: str = "cat", version: str = "", token: str = ""
) -> Answer:
    parameters = {
        "json_filters": "",
        "column_ids": [0],
        "table_function_parameters": "",
        "table_function_input_schema": "",
        "at_unit": "VERSION" if version else "",
        "at_value": version,
    }
    body = {"descriptor": descriptor, "parameters": parameters}
    return wire.action("endpoints", pack(body), in_catalog(catalog, token))


def scan(wire: Wire, descriptor: bytes, catalog: str = "cat", version: str = "") -> list[str]:
    tickets = tickets_in(ask_endpoints(wire, descriptor, catalog, version))
    rows: list[str] = read_rows(wire.get(tickets, in_catalog(catalog))).column(0).to_pylist()
    return rows


def flipped(data: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(data):
        for flip in FLIPS:
            yield data[:at] + bytes([byte ^ flip]) + data[at + 1 :]


def insert(wire: Wire, descriptor: bytes, rows: pa.RecordBatch, catalog: str = "cat") -> Answer:
    headers = [*in_catalog(catalog), ("airport-operation", "insert"), ("return-chunks", "0")]
    exchange = wire.exchange(headers)
    # The descriptor as it is, also when it is no protobuf message: field 1 of FlightData.
    schema = schema_message(rows.schema)
    exchange.send(b"\x0a" + bytes([len(descriptor)]) + descriptor + schema)
    for message in batch_messages(rows):
        exchange.send(message)
    exchange.half_close()
    return exchange.rest()


EXPECTED = ["cat.sch.tab 1", "cat.sch.tab 2", "cat.sch.tab 3"]


@pytest.mark.parametrize("version", ["", "2", "3"])
def test_a_ticket_with_any_byte_changed_is_refused(wire: Wire, version: str) -> None:
    descriptor = descriptor_of(wire, "sch", "tab")
    (ticket,) = tickets_in(ask_endpoints(wire, descriptor, version=version))
    for altered in flipped(ticket):
        answer = wire.get([altered], in_catalog("cat"))
        assert answer.status == "INVALID_ARGUMENT", altered
        assert answer.messages == []


def test_a_ticket_message_with_any_byte_changed_is_refused(wire: Wire) -> None:
    """Change every byte, also of the protobuf around the ticket."""
    (ticket,) = tickets_in(ask_endpoints(wire, descriptor_of(wire, "sch", "tab")))
    for altered in flipped(pb.Ticket(ticket=ticket).SerializeToString()):
        answer = wire.call("DoGet", altered, in_catalog("cat"))
        assert (answer.status, answer.messages) == ("INVALID_ARGUMENT", []), altered


def test_a_ticket_cut_short_or_made_longer_is_refused(wire: Wire) -> None:
    (ticket,) = tickets_in(ask_endpoints(wire, descriptor_of(wire, "sch", "tab")))
    cut = [ticket[:length] for length in range(len(ticket))]
    for altered in (*cut, ticket + b"\0", ticket + ticket):
        assert wire.get([altered], in_catalog("cat")).status == "INVALID_ARGUMENT"


def test_a_descriptor_with_any_byte_changed_never_reads_another_table(wire: Wire) -> None:
    outcomes = set()
    for altered in flipped(descriptor_of(wire, "sch", "tab")):
        answer = ask_endpoints(wire, altered)
        outcomes.add(answer.status)
        if answer.status == "OK":  # only the seal has gone: a plain name, looked up as such
            parsed = pb.FlightDescriptor.FromString(altered)
            assert list(parsed.path) == ["sch", "tab"]
            rows = read_rows(wire.get(tickets_in(answer), in_catalog("cat")))
            assert rows.column(0).to_pylist() == EXPECTED
    assert outcomes - {"OK"} <= REFUSED
    assert "INVALID_ARGUMENT" in outcomes


def test_a_part_of_a_descriptor_with_any_byte_changed_is_refused(wire: Wire) -> None:
    sealed = pb.FlightDescriptor.FromString(descriptor_of(wire, "sch", "tab"))
    for at, part in enumerate(sealed.path):
        for altered in flipped(part.encode()):
            path = b"".join(
                b"\x1a" + bytes([len(p)]) + p
                for p in (altered if i == at else q.encode() for i, q in enumerate(sealed.path))
            )
            answer = ask_endpoints(wire, b"\x08\x01" + path)
            assert answer.status == "INVALID_ARGUMENT", altered


def test_flight_info_of_an_altered_descriptor_never_tells_of_another_table(wire: Wire) -> None:
    descriptor = descriptor_of(wire, "sch", "tab")
    for altered in flipped(descriptor):
        body = pack({"descriptor": altered, "at_unit": "", "at_value": ""})
        answer = wire.action("flight_info", body, in_catalog("cat"))
        if answer.status != "OK":
            assert answer.status in REFUSED
            continue
        about = unpack(pb.FlightInfo.FromString(answer.body).app_metadata)
        assert (about["catalog"], about["schema"], about["name"]) == ("cat", "sch", "tab")


def test_get_flight_info_of_an_altered_descriptor_never_tells_of_another_table(
    wire: Wire,
) -> None:
    for altered in flipped(descriptor_of(wire, "sch", "tab")):
        answer = wire.call("GetFlightInfo", altered, in_catalog("cat"))
        if answer.status != "OK":
            assert answer.status in REFUSED
            continue
        about = unpack(pb.FlightInfo.FromString(answer.messages[0]).app_metadata)
        assert (about["catalog"], about["schema"], about["name"]) == ("cat", "sch", "tab")


def test_an_insert_by_an_altered_descriptor_reaches_no_other_table() -> None:
    """Check that every accepted row went to the one table, and all others are as they were."""
    catalog = MemoryCatalog()
    for schema in SCHEMAS:
        catalog.create_schema(SchemaInfo(schema))
        for table in TABLES:
            catalog.load_schema(schema).create_table(CreateTable(table, COLUMNS))
    row = pa.RecordBatch.from_arrays([pa.array(["new"])], schema=COLUMNS)
    accepted = 0
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            for altered in flipped(descriptor_of(wire, "sch", "tab")):
                answer = insert(wire, altered, row)
                accepted += answer.status == "OK"
                assert answer.status in {*REFUSED, "OK"}
    counts = {
        (schema, table): catalog.load_schema(schema).load_table(table).count_rows()
        for schema in SCHEMAS
        for table in TABLES
    }
    assert counts == {key: accepted if key == ("sch", "tab") else 0 for key in counts}


def test_a_ticket_reads_its_own_catalog_whatever_the_header_says(wire: Wire) -> None:
    tickets = tickets_in(ask_endpoints(wire, descriptor_of(wire, "sch", "tab")))
    for other in CATALOGS:
        rows = read_rows(wire.get(tickets, in_catalog(other)))
        assert rows.column(0).to_pylist() == EXPECTED


def test_a_descriptor_of_one_catalog_is_refused_in_another(wire: Wire) -> None:
    descriptor = descriptor_of(wire, "sch", "tab")
    for other in CATALOGS[1:]:
        answer = ask_endpoints(wire, descriptor, other)
        assert answer.status == "INVALID_ARGUMENT"
        assert "sch.tab" in answer.message


def test_a_descriptor_of_one_server_is_refused_by_another(
    wire: Wire, catalogs: dict[str, MemoryCatalog]
) -> None:
    descriptor = descriptor_of(wire, "sch", "tab")
    tickets = tickets_in(ask_endpoints(wire, descriptor))
    with Server(catalogs, port=0) as other:
        other.start()
        with Wire(other.location) as elsewhere:
            assert ask_endpoints(elsewhere, descriptor).status == "INVALID_ARGUMENT"
            assert elsewhere.get(tickets, in_catalog("cat")).status == "INVALID_ARGUMENT"


def test_a_seal_key_keeps_descriptors_and_tickets_good_over_a_restart(
    catalogs: dict[str, MemoryCatalog],
) -> None:
    keys = lambda: [b"k" * 32]  # noqa: E731
    with Server(catalogs, port=0, seal_keys=keys) as server:
        server.start()
        with Wire(server.location) as wire:
            descriptor = descriptor_of(wire, "sch", "tab")
            tickets = tickets_in(ask_endpoints(wire, descriptor))
    with Server(catalogs, port=0, seal_keys=keys) as server:
        server.start()
        with Wire(server.location) as wire:
            assert scan(wire, descriptor) == EXPECTED
            rows = read_rows(wire.get(tickets, in_catalog("cat")))
            assert rows.column(0).to_pylist() == EXPECTED


def test_a_token_for_one_catalog_reads_no_ticket_of_another(
    catalogs: dict[str, MemoryCatalog],
) -> None:
    tokens = [
        Token("all", "sesame"),
        Token("one", "secret", frozenset({"bat"})),
    ]
    with Server(catalogs, port=0, tokens=tokens) as server:
        server.start()
        with Wire(server.location) as wire:
            descriptor = descriptor_of(wire, "sch", "tab", token="sesame")
            tickets = tickets_in(ask_endpoints(wire, descriptor, token="sesame"))
            for named in ("cat", "bat"):
                answer = wire.get(tickets, in_catalog(named, "secret"))
                assert (answer.status, answer.messages) == ("PERMISSION_DENIED", [])
                assert "'cat'" in answer.message
            assert wire.get(tickets, in_catalog("cat")).status == "UNAUTHENTICATED"
            borrowed = ask_endpoints(wire, descriptor, "cat", token="secret")
            assert borrowed.status == "PERMISSION_DENIED"
            moved = ask_endpoints(wire, descriptor, "bat", token="secret")
            assert moved.status == "INVALID_ARGUMENT"


def test_a_ticket_of_a_version_reads_that_version_whatever_came_after(
    wire: Wire, catalogs: dict[str, MemoryCatalog]
) -> None:
    descriptor = descriptor_of(wire, "sci", "tac")
    before = tickets_in(ask_endpoints(wire, descriptor))
    where = "cat.sci.tac"
    for version in ("1", "2", "3"):
        expected = [f"{where} {n}" for n in range(1, int(version) + 1)]
        assert scan(wire, descriptor, version=version) == expected
    add_rows(catalogs["cat"], "sci", "tac", f"{where} 4")
    rows = read_rows(wire.get(before, in_catalog("cat")))
    assert rows.column(0).to_pylist() == [f"{where} {n}" for n in (1, 2, 3)]
    assert scan(wire, descriptor) == [f"{where} {n}" for n in (1, 2, 3, 4)]


# ---- names ----------------------------------------------------------------------------------

NAMES = ["größe", "tä%ble ☃", "a/b", "new\nline", "100%25", "..", "ta\x7fb", "日本", "?x=1&y"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_travels_in_a_printable_path_and_is_found(name: str) -> None:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo(name))
    columns = pa.schema([(name, pa.string())])
    catalog.load_schema(name).create_table(CreateTable(name, columns))
    row = pa.RecordBatch.from_arrays([pa.array(["found"])], schema=columns)
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            descriptor = descriptor_of(wire, name, name)
            path = pb.FlightDescriptor.FromString(descriptor).path
            assert all(part.isascii() and part.isprintable() for part in path)
            assert insert(wire, descriptor, row).status == "OK"
            assert scan(wire, descriptor) == ["found"]
            plain = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=path[:2])
            assert scan(wire, plain.SerializeToString()) == ["found"]
            info = wire.call("GetFlightInfo", descriptor, in_catalog("cat"))
            about = unpack(pb.FlightInfo.FromString(info.messages[0]).app_metadata)
            assert (about["schema"], about["name"]) == (name, name)


@pytest.fixture
def altered() -> Iterator[tuple[Wire, bytes, bytes]]:
    """Provide a table that another client altered: its descriptor of before, and that of now."""
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("sch"))
    catalog.load_schema("sch").create_table(CreateTable("tab", COLUMNS))
    add_rows(catalog, "sch", "tab", "old")
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            stale = descriptor_of(wire, "sch", "tab")
            added = AddColumn(pa.field("extra", pa.int64()))
            catalog.load_schema("sch").load_table("tab").alter(added)
            yield wire, stale, descriptor_of(wire, "sch", "tab")


def test_a_scan_by_one_who_knows_other_columns_is_refused(
    altered: tuple[Wire, bytes, bytes],
) -> None:
    wire, stale, _ = altered
    answer = ask_endpoints(wire, stale)
    assert answer.status == "FAILED_PRECONDITION"
    assert "sch.tab" in answer.message
    assert "ATTACH" in answer.message


def test_a_scan_by_a_fresh_descriptor_has_the_new_columns(
    altered: tuple[Wire, bytes, bytes],
) -> None:
    wire, stale, fresh = altered
    assert fresh != stale
    rows = read_rows(wire.get(tickets_in(ask_endpoints(wire, fresh)), in_catalog("cat")))
    assert rows.schema.names == ["where", "extra", "rowid"]
    assert rows.column("where").to_pylist() == ["old"]


def test_an_insert_by_one_who_knows_fewer_columns_still_works(
    altered: tuple[Wire, bytes, bytes],
) -> None:
    wire, stale, fresh = altered
    row = pa.RecordBatch.from_arrays([pa.array(["new"])], schema=COLUMNS)
    answer = insert(wire, stale, row)
    assert answer.status == "OK", answer.message
    count = pb.FlightData.FromString(answer.messages[-1]).app_metadata
    assert unpack(as_bytes(count)) == {"total_changed": 1}
    assert scan(wire, fresh) == ["old", "new"]


def test_a_descriptor_of_a_dropped_and_made_anew_table_reads_the_new_one_if_it_is_alike() -> None:
    catalog = MemoryCatalog()
    catalog.create_schema(SchemaInfo("sch"))
    schema = catalog.load_schema("sch")
    schema.create_table(CreateTable("tab", COLUMNS))
    with Server({"cat": catalog}, port=0) as server:
        server.start()
        with Wire(server.location) as wire:
            descriptor = descriptor_of(wire, "sch", "tab")
            schema.drop_table("tab")
            assert ask_endpoints(wire, descriptor).status == "NOT_FOUND"
            schema.create_table(CreateTable("tab", COLUMNS))
            add_rows(catalog, "sch", "tab", "second")
            assert scan(wire, descriptor) == ["second"]
            schema.drop_table("tab")
            schema.create_table(CreateTable("tab", pa.schema([("other", pa.int32())])))
            assert ask_endpoints(wire, descriptor).status == "FAILED_PRECONDITION"
