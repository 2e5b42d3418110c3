"""The client's scans and DML, against a running server; contents are compared."""

import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from jetbridge.catalog import AsOf, AtUnit
from jetbridge.client.scan import _make_plan
from jetbridge.errors import (
    BadRequest,
    Conflict,
    ConstraintViolation,
    DuplicateKey,
    NotFound,
    ServerError,
    Unavailable,
)
from jetbridge.expr import And, Between, Column, Comparison, Constant, In, IsNull, Not
from tests.helpers.waiting import wait_until

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("Name", pa.string())])
ROWS = {"id": [1, 2, 3], "Name": ["a", None, "c"]}
ID, NAME = Column("id"), Column("NAME")
BIG = 600_000  # rows enough for several endpoints


def bigint(value):
    return Constant("BIGINT", value)


@pytest.fixture
def table(client):
    client.create_schema("s")
    client.create_table("s", "t", COLUMNS, checks=["id > 0"], primary_key=["id"])
    client.insert("s", "t", pa.table(ROWS, schema=COLUMNS))
    return client


@pytest.fixture
def big(client):
    client.create_schema("s")
    client.create_table("s", "big", pa.schema([("n", pa.int64()), ("text", pa.string())]))
    numbers = pa.array(range(BIG), pa.int64())
    data = pa.table({"n": numbers, "text": numbers.cast(pa.string())})
    assert client.insert("s", "big", data, batch_rows=50_000).affected_rows == BIG
    return client


def client_threads():
    return [t for t in threading.enumerate() if t.name == "jetbridge-scan"]


def read(client, **options):
    return client.read("s", "t", **options).to_pydict()


def test_read_gives_the_visible_columns(table):
    assert read(table) == ROWS


def test_read_gives_the_columns_asked_for_in_that_order(table):
    assert read(table, columns=["NAME", "rowid"]) == {"Name": ROWS["Name"], "rowid": [0, 1, 2]}


def test_read_without_columns_counts_rows(table):
    assert table.read("s", "t", []).num_rows == 3


def test_unknown_column_or_table_is_not_found(table):
    with pytest.raises(NotFound, match="nope.*id, Name, rowid"):
        read(table, columns=["nope"])
    with pytest.raises(NotFound, match="nope"):
        read(table, filters=IsNull(Column("nope")))
    with pytest.raises(NotFound, match="no_table"):
        table.read("s", "no_table")


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (Comparison("=", ID, bigint(2)), [2]),
        (Between(ID, bigint(1), bigint(3), upper_inclusive=False), [1, 2]),
        (In(ID, (bigint(1), bigint(3))), [1, 3]),
        (IsNull(NAME), [2]),
        (Not(Comparison("=", NAME, Constant("VARCHAR", "a"))), [3]),
        (And((Comparison(">", ID, bigint(1)), IsNull(NAME, negated=True))), [3]),
        (Comparison("<", Column("rowid"), bigint(1)), [1]),
    ],
    ids=repr,
)
def test_filter_leaves_rows_out_by_columns_that_are_not_read(table, predicate, ids):
    assert read(table, columns=["id"], filters=predicate) == {"id": ids}
    json_text = _make_plan(table.table("s", "t"), ["id"], predicate).json_filters
    assert read(table, columns=["id"], filters=json_text) == {"id": ids}


def test_filter_text_that_is_no_json_is_a_bad_request(table):
    with pytest.raises(BadRequest, match="json_filters"):
        read(table, filters="{")


def test_time_travel_by_version_and_timestamp(table):
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    table.delete("s", "t", [0, 1, 2])
    table.add_column("s", "t", pa.field("extra", pa.int8()))
    assert read(table) == {"id": [], "Name": [], "extra": []}
    created, filled = AsOf(AtUnit.VERSION, "0"), AsOf(AtUnit.VERSION, "1")
    assert read(table, at=created) == {"id": [], "Name": []}
    assert read(table, at=filled) == ROWS
    assert read(table, at=AsOf(AtUnit.TIMESTAMP, moment)) == ROWS
    assert table.flight_info("s", "t", filled).schema.names == ["id", "Name"]
    assert table.flight_info("s", "t").schema.names == ["id", "Name", "extra"]


@pytest.mark.parametrize(
    "point",
    [AsOf(AtUnit.VERSION, "99999"), AsOf(AtUnit.TIMESTAMP, "2001-01-01 00:00:00")],
    ids=["future", "past"],
)
def test_time_without_the_table_is_not_found(table, point):
    with pytest.raises(NotFound):
        read(table, at=point)


def test_several_endpoints_are_read_in_parallel_and_give_every_row_once(big):
    table = big.read("s", "big")
    assert table.num_rows == BIG
    assert table.sort_by("n")["n"].to_numpy().tolist() == list(range(BIG))
    assert table["text"].cast(pa.int64()).equals(table["n"])
    assert client_threads() == []


def test_scan_closed_early_leaves_no_thread_and_no_call(big):
    with big.scan("s", "big") as reader:
        assert reader.schema.names == ["n", "text"]
        assert next(reader).num_rows
    assert client_threads() == []
    with pytest.raises(ValueError, match="closed"):
        reader.read_all()


def test_scan_that_is_forgotten_leaves_no_thread(big):
    reader = big.scan("s", "big")
    next(reader)
    del reader
    assert client_threads() == []


def test_scan_that_is_never_read_makes_no_call(big):
    big.scan("s", "big").close()
    assert client_threads() == []


def test_scan_is_an_arrow_stream(table):
    assert pa.table(table.scan("s", "t")).to_pydict() == ROWS
    assert table.scan("s", "t").to_reader().read_all().to_pydict() == ROWS


def test_error_in_the_middle_of_a_scan_keeps_its_class(server, big):
    reader = big.scan("s", "big")
    next(reader)
    server.stop(0)
    with pytest.raises(ServerError) as caught:
        reader.read_all()
    assert caught.value.status in {"UNAVAILABLE", "CANCELLED"}
    assert client_threads() == []


def test_transaction_sees_one_version_and_its_own_changes(table):
    with table.transaction() as tx:
        assert read(tx) == ROWS
        table.insert("s", "t", pa.table({"id": [4]}))
        assert read(tx) == ROWS
        assert read(table)["id"] == [1, 2, 3, 4]
        tx.insert("s", "t", pa.table({"id": [5]}))
        assert read(tx)["id"] == [1, 2, 3, 4, 5]
    assert read(table)["id"] == [1, 2, 3, 4, 5]


def test_transaction_keeps_its_columns_when_another_alters_the_table(table):
    with table.transaction() as tx:
        assert read(tx) == ROWS
        table.add_column("s", "t", pa.field("extra", pa.int8()))
        assert read(tx) == ROWS
        assert list(read(table)) == ["id", "Name", "extra"]


def test_transaction_sees_the_columns_it_altered_itself(table):
    with table.transaction() as tx:
        assert read(tx) == ROWS
        tx.add_column("s", "t", pa.field("extra", pa.int8()))
        assert list(read(tx)) == ["id", "Name", "extra"]


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        lambda data: data.to_reader(),
        lambda data: data.to_batches()[0],
        lambda data: data.to_batches(max_chunksize=2),
        lambda data: (batch for batch in data.to_batches(max_chunksize=1)),
    ],
    ids=["table", "reader", "batch", "batches", "generator"],
)
def test_insert_takes_rows_in_every_form(table, form):
    data = pa.table({"Name": ["d", "e", "f"], "id": pa.array([4, 5, 6], pa.int16())})
    result = table.insert("s", "t", form(data))
    assert (result.affected_rows, result.returning) == (3, None)
    assert read(table) == {"id": [1, 2, 3, 4, 5, 6], "Name": ["a", None, "c", "d", "e", "f"]}


def test_insert_takes_any_arrow_stream(table):
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"id": [4]}).__arrow_c_stream__(requested_schema)

    table.insert("s", "t", Frame())
    assert read(table)["id"] == [1, 2, 3, 4]


def test_batches_of_no_rows_are_refused(table):
    with pytest.raises(ValueError, match="batch_rows"):
        table.insert("s", "t", pa.table({"id": [4]}), batch_rows=0)
    assert read(table) == ROWS


def test_insert_of_nothing_changes_nothing(table):
    assert table.insert("s", "t", []).affected_rows == 0
    result = table.insert("s", "t", pa.table(COLUMNS.empty_table()), returning=True)
    assert (result.affected_rows, result.returning.num_rows) == (0, 0)


def test_insert_takes_dictionaries_and_a_scan_of_the_same_table(table):
    names = pa.array(["x", "y", "x"]).dictionary_encode()
    table.insert("s", "t", pa.table({"id": [10, 11, 12], "Name": names}))
    assert read(table)["Name"] == ["a", None, "c", "x", "y", "x"]
    table.create_table("s", "copy", COLUMNS)
    table.insert("s", "copy", table.scan("s", "t"))
    assert table.read("s", "copy").equals(table.read("s", "t").cast(COLUMNS))


def test_returning_answers_every_row_that_was_sent(table):
    data = pa.table({"id": range(100, 5100)})
    result = table.insert("s", "t", data, returning=True, batch_rows=1000)
    assert result.affected_rows == 5000
    assert result.returning["id"].to_pylist() == list(range(100, 5100))
    assert result.returning["rowid"].to_pylist() == list(range(3, 5003))
    assert result.returning["Name"].null_count == 5000


def test_update_by_row_id(table):
    data = pa.table({"rowid": [2, 0], "Name": ["C", "A"]})
    result = table.update("s", "t", data, returning=True)
    assert result.affected_rows == 2
    assert result.returning.to_pydict() == {"Name": ["C", "A"], "rowid": [2, 0]}
    assert read(table) == {"id": [1, 2, 3], "Name": ["A", None, "C"]}
    with pytest.raises(BadRequest, match="rowid"):
        table.update("s", "t", pa.table({"Name": ["x"]}))


@pytest.mark.parametrize("form", [list, pa.array, lambda ids: pa.chunked_array([ids[:1], ids[1:]])])
def test_delete_by_row_id(table, form):
    result = table.delete("s", "t", form([0, 2]), returning=True)
    assert result.affected_rows == 2
    assert result.returning.to_pydict() == {"id": [1, 3], "Name": ["a", "c"], "rowid": [0, 2]}
    assert read(table) == {"id": [2], "Name": [None]}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"id": [-1]}, ConstraintViolation),
        ({"id": pa.array([None], pa.int64())}, ConstraintViolation),
        ({"id": [4, 4]}, DuplicateKey),
        ({"id": [3]}, DuplicateKey),
        ({"id": ["x"]}, BadRequest),
        ({"id": [4], "nope": [1]}, BadRequest),
    ],
)
def test_refused_insert_leaves_the_table_as_it_was(table, data, kind):
    with pytest.raises(kind) as caught:
        table.insert("s", "t", pa.table(data))
    assert type(caught.value) is kind
    assert read(table) == ROWS


def test_second_change_of_a_row_is_a_conflict(table):
    sent = pa.schema([("rowid", pa.int64())])
    one = pa.record_batch([pa.array([0])], schema=sent)
    with pytest.raises(Conflict), table.exchange("delete", "s", "t", sent) as late:
        table.delete("s", "t", [0])
        late.write(one)
    assert read(table)["id"] == [2, 3]


def test_exchange_publishes_when_it_finishes(table):
    sent = pa.schema([("id", pa.int64())])
    with table.exchange("insert", "s", "t", sent, returning=True) as exchange:
        assert exchange.returning_schema.names == ["id", "Name", "rowid"]
        answer = exchange.write(pa.record_batch([pa.array([7])], schema=sent))
        assert answer.to_pydict() == {"id": [7], "Name": [None], "rowid": [3]}
        assert read(table) == ROWS
        assert exchange.finish() == 1
        assert exchange.finish() == 1
        assert read(table)["id"] == [1, 2, 3, 7]
        with pytest.raises(ValueError, match="ended"):
            exchange.write(answer)


def test_clean_exit_finishes_an_exchange(table):
    sent = pa.schema([("id", pa.int64())])
    with table.exchange("insert", "s", "t", sent) as exchange:
        assert exchange.write(pa.record_batch([pa.array([7])], schema=sent)) is None
    assert read(table)["id"] == [1, 2, 3, 7]


def test_cancelled_exchange_publishes_nothing(table):
    sent = pa.schema([("id", pa.int64())])
    with table.exchange("insert", "s", "t", sent, returning=True) as exchange:
        exchange.write(pa.record_batch([pa.array([7])], schema=sent))
        exchange.cancel()
        with pytest.raises(ValueError, match="cancelled"):
            exchange.finish()
    with pytest.raises(ZeroDivisionError):
        table.insert("s", "t", (1 / 0 for _ in range(2)))
    assert read(table) == ROWS


def test_batch_of_other_columns_is_refused_before_it_is_sent(table):
    exchange = table.exchange("insert", "s", "t", pa.schema([("id", pa.int64())]))
    with pytest.raises(ValueError, match="the columns of the batch differ"), exchange:
        exchange.write(pa.record_batch({"id": ["x"]}))
    batches = [pa.record_batch({"id": [5]}), pa.record_batch({"Name": ["x"]})]
    with pytest.raises(BadRequest, match="the first one had"):
        table.insert("s", "t", batches)
    assert read(table) == ROWS


def test_error_reaches_a_writer_that_never_waits_for_answers(table):
    """Refuse the first batch: the client must neither block nor send them all."""
    batch = pa.record_batch({"id": pa.nulls(2048, pa.int64())})
    batches = iter([batch] * 10_000)
    with pytest.raises(ConstraintViolation, match="NOT NULL"):
        table.insert("s", "t", batches)
    assert next(batches, None) is not None
    assert read(table) == ROWS


def test_server_that_stops_ends_a_writer(server, table):
    sent = pa.schema([("id", pa.int64())])
    batch = pa.record_batch([pa.array(range(10, 2000))], schema=sent)
    with pytest.raises(ServerError) as caught, table.exchange("insert", "s", "t", sent) as exchange:
        server.stop(0)
        for _ in range(100):
            exchange.write(batch)
    assert isinstance(caught.value, Unavailable) or caught.value.status == "CANCELLED"


def test_statements_leave_no_threads(table):
    def own_threads():  # not those of the server's pool
        return [t for t in threading.enumerate() if not t.name.startswith("jetbridge-call")]

    before = len(own_threads())
    for _ in range(20):
        table.insert("s", "t", [], returning=True)
        with pytest.raises(ConstraintViolation):
            table.insert("s", "t", pa.table({"id": [-1]}))
    wait_until(lambda: len(own_threads()) <= before + 1)  # gRPC keeps one to poll the channel
