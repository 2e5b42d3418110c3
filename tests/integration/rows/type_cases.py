"""Every type of DuckDB with values, and the calls that send them as DuckDB exports them."""

from collections.abc import Sequence
from typing import NamedTuple

import duckdb
import pyarrow as pa

from jetbridge.wire import flight_pb2 as pb
from tests.helpers.wire_calls import (
    Answer,
    Wire,
    batch_messages,
    pack,
    read_rows,
    read_stream,
    schema_message,
    tickets_in,
)

HEADERS = [("airport-catalog", "cat"), ("airport-user-agent", "airport/20250723")]


class Case(NamedTuple):
    """Hold values in SQL; those of `lossless_only` do not survive the other export of DuckDB."""

    type: str
    values: tuple[str, ...]
    lossless_only: tuple[str, ...] = ()


def integer(name: str, bits: int, signed: bool) -> Case:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return Case(name, (str(low), "0", "1", str(high)))


FLOATS = ("0", "-0.5", "1e-30", "'NaN'", "'Infinity'", "'-Infinity'")
TIMES = ("'00:00:00'", "'03:04:05.678901'", "'23:59:59.999999'", "'24:00:00'")
STAMPS = ("'1970-01-01 00:00:00'", "'1969-12-31 23:59:59'", "'2026-01-02 03:04:05'")
NINES = "9" * 38

CASES = (
    Case("BOOLEAN", ("true", "false")),
    integer("TINYINT", 8, signed=True),
    integer("SMALLINT", 16, signed=True),
    integer("INTEGER", 32, signed=True),
    integer("BIGINT", 64, signed=True),
    integer("UTINYINT", 8, signed=False),
    integer("USMALLINT", 16, signed=False),
    integer("UINTEGER", 32, signed=False),
    integer("UBIGINT", 64, signed=False),
    Case("FLOAT", (*FLOATS, "3.4028235e38", "1.17549435e-38")),
    Case("DOUBLE", (*FLOATS, "1.7976931348623157e308", "5e-324")),
    Case("HUGEINT", ("0", "-1", NINES, f"-{NINES}"), (f"'{-(2**127)}'", f"'{2**127 - 1}'")),
    Case("UHUGEINT", ("0", "1", NINES), (f"'{2**128 - 1}'",)),
    Case("BIGNUM", ("'0'", "'-1'", f"'{10**60}'", f"'-{10**60}'")),
    Case("DECIMAL(4,2)", ("0", "-99.99", "99.99")),
    Case("DECIMAL(9,0)", ("0", "-999999999", "999999999")),
    Case("DECIMAL(18,3)", ("'999999999999999.999'", "-0.001")),
    Case("DECIMAL(38,10)", (f"'{'9' * 28}.{'9' * 10}'", f"'-{'9' * 28}.{'9' * 10}'", "1")),
    Case("VARCHAR", ("''", "'a'", "'é☃ 日本'", "'a' || chr(0) || 'b'", "repeat('x', 5000)")),
    Case("JSON", ("'{}'", "'[1, \"é\", null]'", "'\"x\"'")),
    Case("BLOB", ("''", "'\\x00\\xAA\\xFF'", "'abc'")),
    Case("BIT", ("'0'", "'1'", "'101010101'", "'1111111111111111'")),
    Case(
        "UUID",
        (
            "'00000000-0000-0000-0000-000000000000'",
            "'12345678-1234-5678-1234-567812345678'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ),
    ),
    Case("DATE", ("'1970-01-01'", "'0001-01-01'", "'9999-12-31'", "'infinity'", "'-infinity'")),
    Case("TIME", TIMES),
    Case("TIME_NS", ("'00:00:00'", "'03:04:05.678901234'", "'23:59:59.999999999'")),
    Case(
        "TIMETZ",
        ("'00:00:00+00'", "'03:04:05.678901+00'"),
        ("'03:04:05+05:30'", "'23:59:59.999999-15:59:59'", "'00:00:00+15:59:59'"),
    ),
    Case("TIMESTAMP", (*STAMPS, "'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'infinity'")),
    Case("TIMESTAMP_S", (*STAMPS, "'0001-01-01'", "'9999-12-31 23:59:59'")),
    Case("TIMESTAMP_MS", (*STAMPS, "'2026-01-02 03:04:05.123'", "'9999-12-31 23:59:59.999'")),
    Case("TIMESTAMP_NS", (*STAMPS, "'2026-01-02 03:04:05.678901234'", "'1677-09-22'")),
    Case("TIMESTAMPTZ", (*STAMPS, "'2026-01-02 03:04:05.678901+02'", "'9999-12-31 23:59:59+00'")),
    Case(
        "INTERVAL",
        ("'0 days'", "'1 month 2 days 3 microseconds'", "'-1 year'", "'99999 days'"),
    ),
    Case("INTEGER[]", ("[]", "[1]", "[1, NULL, -3]", "range(100)::INTEGER[]")),
    Case("VARCHAR[][]", ("[]", "[[]]", "[['a', NULL], NULL, ['é']]")),
    Case("INTEGER[3]", ("[1, 2, 3]", "[NULL, 0, -1]")),
    Case("VARCHAR[2][]", ("[['a', 'b'], NULL]", "[]")),
    Case(
        "STRUCT(x INTEGER, y VARCHAR, z STRUCT(q DOUBLE[]))",
        ("{'x': 1, 'y': 'z', 'z': {'q': [1.5, NULL]}}", "{'x': NULL, 'y': '', 'z': NULL}"),
    ),
    Case("MAP(VARCHAR, INTEGER)", ("MAP {}", "MAP {'k': 1, 'l': NULL}", "MAP {'é': -1}")),
    Case("MAP(INTEGER, VARCHAR[])", ("MAP {1: ['a'], 2: NULL, 3: []}",)),
    Case(
        "UNION(num INTEGER, str VARCHAR)",
        ("union_value(num := 1)", "union_value(str := 'é')", "union_value(num := -5)"),
    ),
    Case("ENUM('red', 'grün', '')", ("'red'", "'grün'", "''")),
    Case("GEOMETRY", ("'POINT (1 2)'", "'LINESTRING (0 0, 1 1, 2 0)'", "'POINT EMPTY'")),
    # The types that differ between the two ways, inside others.
    Case("BOOLEAN[]", ("[true, NULL, false]", "[]")),
    Case("UUID[]", ("['12345678-1234-5678-1234-567812345678', NULL]", "[]")),
    Case("STRUCT(h HUGEINT, b BOOLEAN)", ("{'h': -5, 'b': true}", "{'h': NULL, 'b': NULL}")),
    Case("MAP(VARCHAR, UUID)", ("MAP {'k': '12345678-1234-5678-1234-567812345678'::UUID}",)),
)

LOSSLESS, PLAIN = True, False
NAMES = {LOSSLESS: "lossless", PLAIN: "plain"}
SAME_WAYS = ((PLAIN, PLAIN), (LOSSLESS, LOSSLESS))
MIXED_WAYS = ((PLAIN, LOSSLESS), (LOSSLESS, PLAIN))
# The types that DuckDB exports in two ways; for all others the mixed ways are the same ways.
TWO_WAYS = frozenset(
    (
        *("BOOLEAN", "HUGEINT", "UHUGEINT", "JSON", "BIT", "UUID", "TIMETZ"),
        *("BOOLEAN[]", "UUID[]", "STRUCT(h HUGEINT, b BOOLEAN)", "MAP(VARCHAR, UUID)"),
    )
)


def export(
    local: duckdb.DuckDBPyConnection, kind: str, values: Sequence[str], lossless: bool
) -> pa.RecordBatch:
    """Return one column `c` as DuckDB hands it to Arrow, with the numbers of the rows in `n`."""
    local.execute(f"SET arrow_lossless_conversion = {lossless}")
    rows = ", ".join(f"({n}, CAST({value} AS {kind}))" for n, value in enumerate(values))
    table = local.execute(f"SELECT * FROM (VALUES {rows}) t(n, c) ORDER BY n").to_arrow_table()
    (batch,) = table.combine_chunks().to_batches()
    return batch


def descriptor(name: str) -> bytes:
    plain = pb.FlightDescriptor(type=pb.FlightDescriptor.PATH, path=["s", name])
    return plain.SerializeToString()


def create(wire: Wire, name: str, schema: pa.Schema) -> Answer:
    body = {
        "catalog_name": "cat",
        "schema_name": "s",
        "table_name": name,
        "arrow_schema": schema.serialize().to_pybytes(),
        "on_conflict": "replace",
        "not_null_constraints": [],
        "unique_constraints": [],
        "check_constraints": [],
    }
    answer = wire.action("create_table", pack(body), HEADERS)
    assert answer.status == "OK", answer.message
    return answer


def run(
    wire: Wire, operation: str, name: str, *batches: pa.RecordBatch, returning: bool = False
) -> Answer:
    chunks = ("return-chunks", "1" if returning else "0")
    exchange = wire.exchange([*HEADERS, ("airport-operation", operation), chunks])
    exchange.send(schema_message(batches[0].schema, descriptor(name)))
    for batch in batches:
        for message in batch_messages(batch):
            exchange.send(message)
    exchange.half_close()
    return exchange.rest()


def returned(answer: Answer) -> pa.Table:
    assert answer.status == "OK", answer.message
    schema, batches = read_stream(answer.messages)
    return pa.Table.from_batches(batches, schema=schema)


def scan(wire: Wire, name: str) -> pa.Table:
    asked = wire.action("endpoints", {"descriptor": descriptor(name)}, HEADERS)
    return read_rows(wire.get(tickets_in(asked), HEADERS))


def assert_same_rows(
    local: duckdb.DuckDBPyConnection, got: pa.Table, expected: pa.Table, columns: str = "n, c"
) -> None:
    """Let DuckDB judge: EXCEPT both ways, and the same type on both sides."""
    with local.cursor() as cursor:
        cursor.register("got", got)
        cursor.register("expected", expected)
        one, other = (f"SELECT {columns} FROM {table}" for table in ("got", "expected"))
        sql = f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})"
        assert cursor.execute(f"SELECT count(*) FROM ({sql})").fetchone() == (0,)


def values_for(case: Case, *ways: bool) -> tuple[str, ...]:
    extra = case.lossless_only if all(ways) else ()
    return (*case.values, *extra, "NULL")
