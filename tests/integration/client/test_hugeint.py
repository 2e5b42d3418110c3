"""HUGEINT for Python callers of the client."""

from decimal import Decimal

import pyarrow as pa
import pytest

from jetbridge.errors import BadRequest


def test_read_gives_hugeint_as_decimals_and_the_exact_form_by_request(client):
    hugeint = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
    decimal = pa.decimal128(38, 0)
    values = [value.to_bytes(16, "little", signed=True) for value in (45, -1, 2**127 - 1)]
    wide = pa.ExtensionArray.from_storage(hugeint, pa.array(values, pa.binary(16)))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 2], pa.int32()), wide)
    data = pa.table({"id": pa.array([1, 2, 3]), "n": wide, "l": lists})
    client.create_schema("s")
    client.create_table("s", "t", data.schema)
    client.insert("s", "t", data.slice(0, 2))
    rows = client.read("s", "t")
    assert rows.schema.types == [pa.int64(), decimal, pa.list_(decimal)]
    assert rows.to_pydict() == {
        "id": [1, 2],
        "n": [Decimal(45), Decimal(-1)],
        "l": [[Decimal(45)], [Decimal(-1)]],
    }
    # What was read can be written again.
    client.insert("s", "t", rows.set_column(0, "id", pa.array([11, 12])))
    assert client.read("s", "t", ["n"]).to_pydict() == {"n": [Decimal(45), Decimal(-1)] * 2}
    client.insert("s", "t", data.slice(2, 1))
    with pytest.raises(BadRequest, match=f"'n' has the HUGEINT {2**127 - 1}.*exact_hugeint=True"):
        client.read("s", "t")
    exact = client.read("s", "t", ["n"], exact_hugeint=True)
    assert exact.schema.types == [hugeint]
    assert sorted(exact["n"].to_pylist()) == sorted([*values, *values[:2]])
    with client.scan("s", "t", ["n"]) as scan:
        assert scan.read_all() == exact
