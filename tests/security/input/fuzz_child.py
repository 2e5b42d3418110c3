"""Decode broken inputs, and compute with accepted ones, in a process of its own.

`python -m tests.security.input.fuzz_child FIRST COUNT FOLDER` writes each input to a file in the
folder before it is decoded: a crash leaves it there. At its end it prints what it has seen as JSON.
"""

import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from jetbridge.catalog import FunctionInfo, Parameter
from jetbridge.errors import ServerError
from jetbridge.service.do_action.registry import list_actions
from jetbridge.wire.arrow_input import BatchDecoder, cast_arguments, read_arguments
from jetbridge.wire.codec import decode
from jetbridge.wire.flight_data import split
from jetbridge.wire.flight_pb2 import Action
from jetbridge.wire.ipc_headers import split_stream
from jetbridge.wire.schemas import encapsulate, read_schema, wire_type
from tests.faults.service.mutation import BYTES, hand_made, recorded
from tests.security.input.corpus import flight_data, stream, streams, words

RUN = FunctionInfo("f", (Parameter("string", pa.string()), Parameter("int64", pa.int64())))
# Python has no value for it, or DuckDB no type: neither reads outside of a buffer.
NO_VALUE = (ValueError, OverflowError, KeyError, pa.ArrowNotImplementedError)
NO_TYPE = (duckdb.NotImplementedException, duckdb.ConversionException)
MOST_PROBLEMS = 20
Input = tuple[str, Any]


def word(rng: random.Random, data: bytes) -> bytes:
    """Replace a number of the format: aligned, of four or eight bytes."""
    size = rng.choice([4, 8])
    at = rng.randrange(max(1, len(data) // size)) * size
    small = rng.randrange(-4, len(data) + 8)
    power = rng.choice([1, -1]) * 2 ** rng.randrange(8 * size - 1)
    value = rng.choice([0, 1, -1, small, small, power, 2 ** (8 * size - 1) - 1])
    changed: bytes = data[:at] + value.to_bytes(size, "little", signed=True) + data[at + size :]
    return changed


def broken(rng: random.Random, data: bytes, other: bytes) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if data:
            data = word(rng, data) if rng.random() < 0.6 else rng.choice(BYTES)(rng, data, other)
    return data


class Inputs:
    """Generate inputs; input `n` is always the same one."""

    def __init__(self) -> None:
        made = [*streams(), *(stream(batch, None, copies=1) for batch in words())]
        self._streams = [list(split_stream(memoryview(data))) for data in made]
        self._bodies = [
            (action.type, action.body)
            for request in [*recorded(), *hand_made()]
            if request.method == "DoAction"
            for action in (Action.FromString(message) for message in request.messages)
            if action.type in list_actions()
        ]

    def make(self, number: int) -> Input:
        rng = random.Random(number)
        kind = rng.choice(["arguments", "arguments", "exchange", "exchange", "schema", "msgpack"])
        if kind == "msgpack":
            name, packed = rng.choice(self._bodies)
            return kind, [name.encode(), broken(rng, packed, rng.choice(self._bodies)[1])]
        messages, others = list(rng.choice(self._streams)), rng.choice(self._streams)
        if kind == "schema":
            messages = messages[:1]
        at = rng.randrange(len(messages))
        header, body = messages[at]
        if len(body) and rng.random() < 0.6:
            changed = broken(rng, bytes(body), bytes(rng.choice(others)[1]))
            messages[at] = header, memoryview(changed)
        else:
            changed = broken(rng, bytes(header), bytes(rng.choice(others)[0]))
            messages[at] = memoryview(changed), body
        if kind == "exchange":
            return kind, [flight_data(*message) for message in messages]
        framed = b"".join(b"".join((*encapsulate(h), b)) for h, b in messages)
        return kind, broken(rng, framed, b"\0") if rng.random() < 0.1 else framed  # noqa: PLR2004


def decode_arguments(data: bytes) -> list[pa.RecordBatch]:
    return [cast_arguments(read_arguments(data), RUN)]


def decode_exchange(messages: list[bytes]) -> list[pa.RecordBatch]:
    decoder, found = None, list[pa.RecordBatch]()
    for number, message in enumerate(messages):
        data = split(message)
        if data.header is None:
            continue
        if decoder is None:
            decoder = BatchDecoder(data.header)
            continue
        decoder.feed(data)
        if len(messages) % 2 or number == len(messages) - 1:
            found += decoder.flush()
    return found


def decode_schema(data: bytes) -> list[pa.RecordBatch]:
    schema = read_schema(data, "the schema")
    kinds = [wire_type(kind) for kind in schema.types]
    return [pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in kinds], schema.names)]


def decode_body(parts: list[bytes]) -> list[pa.RecordBatch]:
    name = parts[0].decode()
    decode(list_actions()[name].message, parts[1], name)
    return []


DECODERS: dict[str, Callable[[Any], list[pa.RecordBatch]]] = {
    "arguments": decode_arguments,
    "exchange": decode_exchange,
    "schema": decode_schema,
    "msgpack": decode_body,
}


@contextmanager
def known_to_duckdb() -> Iterator[None]:
    try:
        yield
    except duckdb.InvalidInputException as error:
        if "no fields to DuckDB which is not supported" not in str(error):
            raise


@contextmanager
def text_is_utf8() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise AssertionError("text that is not UTF-8 was accepted") from error


def compute(batch: pa.RecordBatch, connection: duckdb.DuckDBPyConnection) -> None:
    """Read accepted input by many functions, which crash if it is not valid."""
    with suppress(*NO_VALUE), text_is_utf8():
        batch.to_pylist()
    with pa.ipc.new_stream(pa.BufferOutputStream(), batch.schema) as writer:
        writer.write(batch)
    if batch.num_columns:
        with suppress(*NO_VALUE):
            pa.Table.from_batches([batch, batch]).combine_chunks().take([0] * min(1, len(batch)))
        with suppress(*NO_VALUE, *NO_TYPE), known_to_duckdb():
            connection.from_arrow(pa.Table.from_batches([batch])).to_arrow_table()


def main(first: int, count: int, folder: Path) -> None:
    inputs, connection = Inputs(), duckdb.connect()
    connection.execute("SET threads = 1")
    outcomes: Counter[str] = Counter()
    problems: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, first + count):
        kind, data = inputs.make(number)
        (folder / "input").write_bytes(data if isinstance(data, bytes) else b"\0\0".join(data))
        (folder / "number").write_text(f"{number} {kind}")
        try:
            for batch in DECODERS[kind](data):
                compute(batch, connection)
            outcomes[f"{kind} accepted"] += 1
        except ServerError as error:
            outcomes[f"{kind} {error.status}"] += 1
        except Exception as error:
            if len(problems) < MOST_PROBLEMS:
                problems.append(f"{number} {kind}: {error!r}"[:500])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = {"outcomes": outcomes, "problems": problems, "grown": (peak - before) * 1024}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
