"""A small shop: tables with NULLs, ties, nested values and text in many spellings."""

from collections.abc import Mapping
from types import MappingProxyType

import duckdb

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.plan import TableName
from jetbridge.distributed.staging import QueryStager
from tests.distributed.shared_plans import SharedPlans

TABLES = (
    """CREATE TABLE customers AS SELECT
        CAST(i AS INTEGER) AS id,
        CASE WHEN i % 11 <> 0 THEN 'Customer ' || (i % 37) END AS name,
        (['DE', 'FR', 'NL', 'de'])[i % 4 + 1] AS country,
        DATE '2020-01-01' + CAST(i * 7 % 900 AS INTEGER) AS since,
        CAST(CASE WHEN i % 5 > 0 THEN i * 1.25 END AS DECIMAL(9, 2)) AS credit,
        CAST((['new', 'regular', 'gold'])[i % 3 + 1] AS ENUM('new', 'regular', 'gold')) AS rank
    FROM range(120) AS t(i)""",
    """CREATE TABLE orders AS SELECT
        i AS id,
        CAST(CASE WHEN i % 13 <> 0 THEN (i * 31) % 150 END AS INTEGER) AS customer,
        TIMESTAMP '2024-01-01 08:00:00' + to_minutes(i * 97 % 50000) AS placed,
        CAST(i * 37 % 10000 / 100 AS DECIMAL(10, 2)) AS amount,
        CASE i % 4 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' END AS state,
        (i * 7919 % 1000) / 8.0 AS weight
    FROM range(1000) AS t(i)""",
    """CREATE TABLE lines AS SELECT
        i // 3 AS order_id,
        CAST(i % 3 AS SMALLINT) AS number,
        CAST(i * 17 % 41 AS INTEGER) AS product,
        CAST(i % 9 AS TINYINT) AS quantity,
        CAST(i * 13 % 500 / 10 AS DECIMAL(8, 3)) AS price
    FROM range(2500) AS t(i)""",
    """CREATE TABLE products AS SELECT
        CAST(i AS INTEGER) AS id,
        'Product ''' || i || '''' AS title,
        [i % 5, i % 7, NULL] AS tags,
        {'w': i / 2.0, 'dim': {'x': i, 'y': -i}} AS size,
        MAP(['a', 'b'], [i, i + 1]) AS attributes
    FROM range(45) AS t(i)""",
    """CREATE TABLE prices AS SELECT
        CAST(i % 20 AS INTEGER) AS product,
        TIMESTAMP '2024-01-01' + to_hours(i * 5) AS since,
        CAST(10 + i % 7 AS DECIMAL(6, 2)) AS price
    FROM range(300) AS t(i)""",
    "CREATE TABLE excluded AS SELECT * FROM (VALUES (3), (7), (NULL), (77)) AS t(id)",
    "CREATE TABLE nothing (id INTEGER, name VARCHAR, amount DECIMAL(10, 2))",
)


def open_shop(config: Mapping[str, str] = MappingProxyType({})) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB with the tables of the shop."""
    connection = duckdb.connect(config={"threads": 1, **config})
    for table in TABLES:
        connection.execute(table)
    return connection


def stager(connection: duckdb.DuckDBPyConnection) -> QueryStager:
    """Return what cuts queries over the tables of a connection."""
    return QueryStager(SharedPlans(connection))


def unknown_rows(table: TableName) -> int | None:
    """Know nothing of a table, so that no side of a join is small."""
    return None


def few_rows(table: TableName) -> int | None:
    """Say that all tables are small, so that every join is by broadcast that may be."""
    return 1


BY_KEYS = CutOptions(unknown_rows, 0)
BY_BROADCAST = CutOptions(few_rows, 1_000_000)
