"""DuckDB's extensions are loaded for queries that need them, and not for others."""

import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session

LOADED = "SELECT count(*)::INT AS n FROM duckdb_extensions() WHERE loaded AND {}"


@pytest.fixture(scope="module")
def session():
    made = Session({"m": MemoryCatalog()})
    yield made
    made.close()


@pytest.mark.parametrize(
    ("condition", "loaded"),
    [
        ("extension_name[1:3] IN ('ice', 'avr', 'htt')", 0),
        ("extension_name IN ('iceberg', 'avro', 'httpfs')", 3),
        ("extension_name[1:3] IN ('ice', 'avr', 'htt') AND 's3://b/f' <> ''", 3),
    ],
)
def test_by_the_words_of_a_query(session, condition, loaded):
    (outcome,) = run(session, LOADED.format(condition))
    assert outcome.table().to_pylist() == [{"n": loaded}]
