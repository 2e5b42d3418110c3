"""Random tables: NULL, duplicates, no rows at all, and all flat types that Spark has."""

from random import Random

from tests.helpers.edge_values import typed

# Columns of every table beside its key `k`.
TYPES = {
    "c_tiny": "TINYINT",
    "c_small": "SMALLINT",
    "c_int": "INTEGER",
    "c_big": "BIGINT",
    "c_dec": "DECIMAL(9,2)",
    "c_wide": "DECIMAL(18,4)",
    "c_float": "FLOAT",
    "c_double": "DOUBLE",
    "c_text": "VARCHAR",
    "c_word": "VARCHAR",
    "c_bool": "BOOLEAN",
    "c_date": "DATE",
    "c_time": "TIMESTAMP",
    "c_zoned": "TIMESTAMP WITH TIME ZONE",
    "c_blob": "BLOB",
}
# A letter for what can stand for each other: integer, decimal, floating, string, boolean, date,
# timestamp, zoned timestamp, octets.
NAMES = {
    "i": "INTEGER",
    "m": "DECIMAL(9,2)",
    "f": "DOUBLE",
    "s": "VARCHAR",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "o": "BLOB",
}
LETTERS = {kind: each for each, kind in NAMES.items() if each != "m"}
LETTERS |= {"TINYINT": "i", "SMALLINT": "i", "BIGINT": "i", "FLOAT": "f"}
# Doubles are quarters, so that their sums are exact in any order.
VALUES = {
    "i": ("0", "1", "2", "3", "-1", "5", "-4"),
    "m": ("0.5", "1.25", "-2.5", "10", "0", "3.75"),
    "f": ("0.25", "-1.5", "2", "100.75", "0", "'nan'", "-0.0", "'inf'", "8"),
    "s": ("''", "'a'", "'ab'", "'Abc'", "'b%'", "' x '", "'é'", "'12'", "'a,b'", "'🦆'"),
    "b": ("true", "true", "false"),
    "d": ("'2024-02-29'", "'2023-12-31'", "'1969-07-20'", "'2024-01-01'", "'2000-03-01'"),
    "t": (
        *("'2024-02-29 12:34:56.789'", "'1969-12-31 23:59:59.5'", "'2024-01-01'"),
        *("'2023-06-15 00:00:01'", "'2023-12-31 23:00:00'"),
    ),
    "z": ("'2024-02-29 12:00:00+02'", "'1970-01-01 00:00:00+00'", "'2023-10-29 02:30:00+01'"),
    "o": ("''", "'ab'", r"'\x00\xFF'", "'b'"),
}
SIZES = {"r1": 40, "r2": 25, "r3": 6, "nothing": 0}
EDGES = 40


def letter(duckdb_type: str) -> str:
    """Return what a column of this type can stand for; none for a type that only results have."""
    return "m" if duckdb_type.startswith("DECIMAL") else LETTERS.get(duckdb_type, "")


def tables(seed: int) -> dict[str, str]:
    """Return names and queries: with rows, with few, with none, and with the edges of all types."""
    random = Random(seed)
    made = {name: _table(random, size) for name, size in SIZES.items()}
    edges = {name: typed(kind) for name, kind in TYPES.items()}
    rows = (
        f"SELECT {k} AS k, " + ", ".join(f"{random.choice(v)} AS {n}" for n, v in edges.items())
        for k in range(EDGES)
    )
    return {**made, "edges": " UNION ALL ".join(rows)}


def _table(random: Random, size: int) -> str:
    rows = " UNION ALL ".join(_row(random, k) for k in range(max(size, 1)))
    return rows if size else f"SELECT * FROM ({rows}) WHERE false"


def _row(random: Random, key: int) -> str:
    """Return values of which a fifth is NULL; the others come again and again."""
    columns = [f"{key} AS k"]
    for name, kind in TYPES.items():
        value = "NULL" if random.random() < 0.2 else random.choice(VALUES[letter(kind)])
        columns.append(f"CAST({value} AS {kind}) AS {name}")
    return f"SELECT {', '.join(columns)}"
