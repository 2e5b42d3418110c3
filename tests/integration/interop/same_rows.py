"""Whether two engines read the same rows: count, DISTINCT, SUM, and EXCEPT both ways."""

import duckdb
import pyarrow as pa

from jetbridge.duckdb_engine.instance import extension_file


def assert_same_rows(one: pa.Table, other: pa.Table) -> None:
    """Compare values; types may differ: one engine says string, another large_string."""
    assert [name.lower() for name in one.column_names] == [n.lower() for n in other.column_names]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("one", one)
        connection.register("other", other)
        assert summary(connection, "one", one) == summary(connection, "other", one)
        for this, that in (("one", "other"), ("other", "one")):
            missing = connection.execute(f"FROM {this} EXCEPT ALL FROM {that}").fetchall()
            assert missing == [], f"only in {this}"


def summary(connection: duckdb.DuckDBPyConnection, name: str, like: pa.Table) -> list[object]:
    numbers = [field.name for field in like.schema if pa.types.is_integer(field.type)]
    sums = "".join(f', sum("{each}"), count("{each}")' for each in numbers)
    distinct = f"SELECT count(*){sums} FROM (SELECT DISTINCT * FROM {name})"
    return [
        connection.execute(f"SELECT count(*){sums} FROM {name}").fetchone(),
        connection.execute(distinct).fetchone(),
    ]


def plain_duckdb() -> duckdb.DuckDBPyConnection:
    """Open a DuckDB of its own, with the extensions from their packages."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{extension_file(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection
