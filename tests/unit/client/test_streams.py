import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest

from jetbridge.client.connection import Answers
from jetbridge.client.streams import MAX_WORKERS, Buffer, EndpointReader, read_endpoints
from jetbridge.errors import FailedPrecondition, NotFound, ServerError
from jetbridge.wire.flight_data import encode_batch, encode_metadata, encode_schema

SCHEMA = pa.schema([("a", pa.int64())])


def rows(*values):
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


class FakeAnswers(Answers):
    """Yield messages, then an error or the end, and remember whether the call was cancelled."""

    def __init__(self, messages, error=None):
        self._messages, self._error = iter(messages), error
        self.cancelled = threading.Event()
        self.call = SimpleNamespace(cancel=self.cancelled.set)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cancelled.set()

    def __iter__(self):
        for message in self._messages:
            if self.cancelled.is_set():
                raise ServerError("cancelled")
            yield message
        if self._error:
            raise self._error


class SilentAnswers(FakeAnswers):
    """Yield messages, then wait until the call is cancelled, which the end of a block is not."""

    def __exit__(self, *_):
        pass

    def __iter__(self):
        yield from self._messages
        assert self.cancelled.wait(5), "nobody has cancelled the call"
        raise ServerError("cancelled")


class Call:
    """Stand for the call of gRPC below real answers."""

    def __init__(self, messages):
        self._messages, self.cancelled = iter(messages), False

    def __next__(self):
        return next(self._messages)

    def cancel(self):
        self.cancelled = True


def endless(values):
    yield encode_schema(SCHEMA)
    while True:
        yield encode_batch(rows(*values))


def parts_of(answers):
    return [EndpointReader(lambda call=call: call, SCHEMA) for call in answers]  # type: ignore[misc]


def part_of(*batches, error=None, schema=SCHEMA):
    messages = [encode_schema(schema), *(encode_batch(batch) for batch in batches)]
    return EndpointReader(lambda: FakeAnswers(messages, error), SCHEMA)


def values(batches):
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def scan_threads():
    return [t for t in threading.enumerate() if t.name == "jetbridge-scan"]


def test_one_part_is_read_in_order_without_a_thread():
    batches = read_endpoints([part_of(rows(1, 2), rows(), rows(3))])
    assert next(batches).num_rows == 2
    assert scan_threads() == []
    assert values(batches) == [3]


def test_no_part_gives_no_rows():
    assert values(read_endpoints([])) == []


def test_metadata_between_batches_is_skipped():
    messages = [encode_schema(SCHEMA), encode_metadata(b"x"), encode_batch(rows(1))]
    assert values(read_endpoints([EndpointReader(lambda: FakeAnswers(messages), SCHEMA)])) == [1]


def test_more_parts_than_workers_are_all_read():
    count = 3 * MAX_WORKERS
    parts = [part_of(rows(n), rows(n + 1000)) for n in range(count)]
    assert sorted(values(read_endpoints(parts))) == [*range(count), *range(1000, 1000 + count)]
    assert scan_threads() == []


def test_error_in_one_part_ends_all():
    others = [FakeAnswers(endless([1])) for _ in range(3)]
    parts = parts_of(others)
    failing = part_of(rows(5), error=NotFound("table", "t"))
    with pytest.raises(NotFound, match="'t'"):
        values(read_endpoints([*parts, failing]))
    assert all(answers.cancelled.is_set() for answers in others)
    assert scan_threads() == []


def test_closing_early_cancels_the_calls_and_ends_the_threads():
    answers = [FakeAnswers(endless([1])) for _ in range(3)]
    batches = read_endpoints(parts_of(answers))
    next(batches)
    batches.close()
    assert scan_threads() == []
    assert all(a.cancelled.is_set() for a in answers)


def test_closing_early_cancels_calls_in_which_the_server_is_silent():
    answers = [SilentAnswers([encode_schema(SCHEMA), encode_batch(rows(1))]) for _ in range(3)]
    batches = read_endpoints(parts_of(answers))
    assert values([next(batches) for _ in answers]) == [1, 1, 1]
    batches.close()
    assert scan_threads() == []
    assert all(a.cancelled.is_set() for a in answers)


def test_error_in_one_part_cancels_calls_in_which_the_server_is_silent():
    silent = [SilentAnswers([encode_schema(SCHEMA)]) for _ in range(3)]
    failing = part_of(error=NotFound("table", "t"))
    with pytest.raises(NotFound, match="'t'"):
        values(read_endpoints([*parts_of(silent), failing]))
    assert all(answers.cancelled.is_set() for answers in silent)
    assert scan_threads() == []


def test_closing_the_only_part_early_cancels_its_call():
    call = Call(endless([1]))
    batches = read_endpoints([EndpointReader(lambda: Answers(call, "grpc://h:1"), SCHEMA)])
    assert values([next(batches)]) == [1]
    assert not call.cancelled
    batches.close()
    assert call.cancelled


def test_part_cancelled_before_it_began_yields_nothing():
    part = part_of(rows(1))
    part.cancel()
    assert values(part.batches()) == []


@pytest.mark.parametrize(
    "schema", [pa.schema([("b", pa.int64())]), pa.schema([("a", pa.int32())]), pa.schema([])]
)
def test_other_columns_than_announced_are_refused(schema):
    with pytest.raises(FailedPrecondition, match="altered"):
        values(read_endpoints([part_of(schema=schema)]))


@pytest.mark.parametrize("message", [b"\xff", encode_batch(rows(1))[:-3]])
def test_malformed_message_is_the_servers_error(message):
    part = EndpointReader(lambda: FakeAnswers([encode_schema(SCHEMA), message]), SCHEMA)
    with pytest.raises(ServerError, match="the server's answer to DoGet") as caught:
        values(part.batches())
    assert caught.value.status == "INTERNAL"


def test_full_buffer_waits_for_room():
    buffer: Buffer[int] = Buffer(1)
    buffer.put(1)
    writer = threading.Thread(target=buffer.put, args=(2,))
    writer.start()
    writer.join(0.02)
    assert writer.is_alive()
    assert next(buffer) == 1
    writer.join(5)
    buffer.finish()
    assert list(buffer) == [2]


def test_closed_buffer_frees_both_sides():
    buffer: Buffer[int] = Buffer(1)
    buffer.put(1)
    took = []
    writer = threading.Thread(target=lambda: took.append(buffer.put(2)))
    writer.start()
    buffer.close()
    writer.join(5)
    assert took == [False]
    assert list(buffer) == []
