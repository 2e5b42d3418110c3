"""The table of translations: its form, its constants, and the page made of it."""

import re

import pytest

from jetbridge.pipeline.translate.entries import ENTRIES, Entry
from jetbridge.pipeline.translate.entries.entry import around
from jetbridge.pipeline.translate.entries.formats import java_format
from jetbridge.pipeline.translate.entries.missing import MISSING
from jetbridge.pipeline.translate.entries.patterns import escaped_like, java, safe
from tests.helpers.edge_values import REPRESENTATIVES, VALUES
from tools.translations_page import PAGE, page


def test_page_and_table_agree() -> None:
    assert PAGE.read_text() == page(), "run: python tools/translations_page.py"


# All entries in one test: a thousand of them took longer to count than to check.
def test_every_entry_is_complete() -> None:
    assert [entry.duckdb for entry in ENTRIES if not _is_complete(entry)] == []


def _is_complete(entry: Entry) -> bool:
    marks = [f"{{{at}}}" for at in range(len(entry.takes))]
    return (
        all(mark in entry.duckdb for mark in marks)
        and set(entry.constants) == set(entry.examples)
        and all(len(examples) > 1 for examples in entry.examples.values())
        and all(
            constant(value) is not None
            for at, constant in entry.constants.items()
            for value in entry.examples[at]
        )
    )


def test_no_count_of_a_regular_expression_looks_like_an_argument() -> None:
    for entry in ENTRIES:
        counts = re.findall(r"[\w\])}?*]\{(\d+)\}", entry.spark)
        assert all(int(each) >= len(entry.takes) for each in counts), entry.duckdb


def test_no_template_can_stop_where_try_cast_has_an_answer() -> None:
    texts = [entry for entry in ENTRIES if entry.duckdb.startswith("TRY_CAST")]
    assert not any("raise_error" in entry.spark for entry in texts)


def test_every_kind_has_edge_values() -> None:
    kinds = {
        kind
        for entry in ENTRIES
        for at, kinds in enumerate(entry.takes)
        if at not in entry.constants
        for kind in kinds
    }
    assert {each for kind in kinds for each in REPRESENTATIVES.get(kind, (kind,))} <= set(VALUES)


def test_aggregate_calls_are_decorated_once_each() -> None:
    text = around("CAST(sum({0}) AS DOUBLE) / count({0})", distinct=True, behind=" OVER w")
    assert text == "CAST(sum(DISTINCT {0}) OVER w AS DOUBLE) / count(DISTINCT {0}) OVER w"


def test_calls_inside_of_a_call_are_left_alone() -> None:
    assert around("max(max({0}))", behind=" F") == "max(max({0})) F"


@pytest.mark.parametrize("pattern", ["a", "^a$", "[a-c]+x?", r"\d{2,3}", "(?:ab|c)d", r"\.", ""])
def test_plain_pattern_is_safe(pattern: str) -> None:
    assert safe(pattern) == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        *("a|b", "(a", "a)", "(?i)a", r"\b", "[[:alpha:]]", "a**", "*a", "[a&&b]", r"\p{L}", "é"),
        *("a$b", "a^b", r"\z", "(?=a)", "a++", r"\s", None, 5),
    ],
)
def test_other_pattern_is_refused(pattern: object) -> None:
    assert java(pattern) is None


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("%Y-%m-%d", "'yyyy\\'-\\'MM\\'-\\'dd'"),
        ("%Y%Y", None),
        ("%U", None),
        ("", None),
        (7, None),
    ],
)
def test_format_in_the_letters_of_java(given: object, made: str | None) -> None:
    expected = made and made.replace("\\'", "\\'")
    assert java_format(given) == expected


def test_escape_of_like_becomes_a_backslash() -> None:
    assert escaped_like("!", "a!%b!!c") == r"'a\\%b!c'"
    assert escaped_like("!", "a!") is None


def test_what_is_missing_has_a_reason() -> None:
    assert all(reason.endswith(".") for reason in MISSING.values())
