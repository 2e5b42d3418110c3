"""Every verified translation, over edge values of every type that it takes.

The tests are made from the table: DuckDB evaluates the pattern and Spark the template, and values,
NULLs, errors and types are compared. Many entries share one statement, so the first test of a kind
takes the time of all.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.entries import ENTRIES, Entry
from jetbridge.pipeline.translate.entries.letters import LOWER, UPPER
from jetbridge.spark.engine import SparkConnection
from tests.helpers.edge_values import VALUES
from tests.helpers.lakes import engine
from tests.integration.translate.cases import connected
from tests.integration.translate.checks import Problems, check_scalars, differences
from tests.integration.translate.groups import check_groups

pytestmark = pytest.mark.lake

SCALARS = [entry for entry in ENTRIES if entry.kind == "scalar"]
OTHERS = [entry for entry in ENTRIES if entry.kind != "scalar"]
# Cases of an entry in a usual run, of scalar and of other entries; the rest is left to the soak.
SOME = (1, 1)
ALL = 10_000


@pytest.fixture(scope="module")
def session() -> Iterator[SparkConnection]:
    with engine().session() as running:
        yield running


@pytest.fixture(scope="module")
def scalars(session: SparkConnection, request: pytest.FixtureRequest) -> Problems:
    return check_scalars(session, chosen(request, "scalars"), SOME[0])


@pytest.fixture(scope="module")
def others(session: SparkConnection, request: pytest.FixtureRequest) -> Problems:
    return check_groups(session, chosen(request, "others"), SOME[1])


def chosen(request: pytest.FixtureRequest, fixture: str) -> list[Entry]:
    """Return the entries that this run has tests of."""
    items: list[Any] = request.session.items
    tests = [item for item in items if fixture in getattr(item, "fixturenames", ())]
    return [item.callspec.params["entry"] for item in tests if item.path == request.path]


def named(entries: list[Entry]) -> list:
    return [pytest.param(entry, id=f"{at} {entry.duckdb}") for at, entry in enumerate(entries)]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("entry", named(SCALARS))
def test_scalar_is_the_same(entry: Entry, scalars: Problems) -> None:
    assert scalars.get(entry, []) == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("entry", named(OTHERS))
def test_aggregate_or_window_function_is_the_same(entry: Entry, others: Problems) -> None:
    assert others.get(entry, []) == []


def test_every_format_reads_what_it_writes(session: SparkConnection) -> None:
    """Check formats by themselves: the edge values have texts of a few only."""
    readings = [entry for entry in SCALARS if entry.duckdb.startswith(("strptime", "try_strptime"))]
    formats = sorted({entry.duckdb.split("'")[1] for entry in readings})
    times = [each for each in VALUES["TIMESTAMP"] if each != "NULL"]
    with connected().cursor() as own:
        for each in formats:
            texts = ", ".join(f"strftime(TIMESTAMP {time}, '{each}')" for time in times)
            rows = f"(SELECT unnest([{texts}]) AS t)"
            entries = [entry for entry in readings if f"'{each}'" in entry.duckdb]
            listed = ", ".join(entry.duckdb.replace("{0}", "t") for entry in entries)
            expected = own.execute(f"SELECT t, {listed} FROM {rows} ORDER BY t").fetchall()
            given = ", ".join(f"({literal(text)})" for text, *_ in expected)
            spark = ", ".join(entry.spark.replace("{0}", "t") for entry in entries)
            found = session.sql(f"SELECT t, {spark} FROM VALUES {given} AS v(t)").collect()
            assert sorted(map(tuple, found)) == sorted(expected), each
            assert len({row[1] for row in expected}) > 1


@pytest.mark.parametrize("text", ["epoch", " -Infinity\n"])
@pytest.mark.parametrize("name", ["strptime", "try_strptime"])
def test_words_that_duckdb_takes_for_any_format_are_an_error(session, name, text) -> None:
    (entry,) = (each for each in SCALARS if each.duckdb == f"{name}({{0}}, '%Y-%m-%d')")
    answer = session.sql(
        f"SELECT {entry.spark} FROM VALUES ({literal(text)})".replace("{0}", "col1")
    )
    with pytest.raises(Exception, match="does not have the form"):
        answer.collect()


@pytest.mark.parametrize(
    "end",
    # The first two planes have all letters that have a case.
    [
        pytest.param(0x2_0000, id="letters"),
        pytest.param(0x11_0000, id="all", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize(("function", "template"), [("upper", UPPER), ("lower", LOWER)])
def test_case_of_every_code_point_is_the_same(
    session: SparkConnection, function: str, template: str, end: int
) -> None:
    numbers = f"range(1, {end}) r(i) WHERE i NOT BETWEEN 55296 AND 57343"
    points = f"SELECT chr(i::INTEGER) AS c FROM {numbers}"
    # A letter before it makes the text one that is not ASCII.
    text = f"SELECT 'é' || c AS c, {function}('é' || c) AS d FROM ({points})"
    rows = connected().execute(text).to_arrow_table()
    session.spark.createDataFrame(rows).createOrReplaceTempView("points")
    found = session.sql(f"SELECT c FROM points WHERE {template.replace('{0}', 'c')} <> d")
    assert found.collect() == []


@pytest.mark.parametrize(
    ("pattern", "template"),
    [
        ("{0} + {1}", "{0} - {1}"),
        ("{0} + {1}", "try_add({0}, {1})"),
        ("{0} + {1}", "CAST({0} + {1} AS DECIMAL(38,0))"),
        ("{0} = {1}", "{0} <=> {1}"),
    ],
)
def test_a_wrong_translation_is_found(
    session: SparkConnection, pattern: str, template: str
) -> None:
    entry = Entry(pattern, template, (frozenset({"BIGINT"}), frozenset({"BIGINT"})))
    assert check_scalars(session, [entry])[entry]


def test_zeros_have_signs_and_all_nan_are_one() -> None:
    one = pa.chunked_array([[0.0, float("nan"), None, 1.0]])
    assert differences(one, pa.chunked_array([[0.0, -float("nan"), None, 1.0]]), loose="") == []
    assert differences(one, pa.chunked_array([[-0.0, 0.0, 0.0, None]]), loose="") == [0, 1, 2, 3]


@pytest.mark.soak
def test_all_scalar_cases(session: SparkConnection) -> None:
    assert check_scalars(session, SCALARS, ALL) == {}


@pytest.mark.soak
def test_all_aggregate_and_window_cases(session: SparkConnection) -> None:
    assert check_groups(session, OTHERS, ALL) == {}
