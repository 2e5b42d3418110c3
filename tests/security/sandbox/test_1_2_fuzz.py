"""Our cursor against DuckDB: DuckDB reads a text as we do, or the text is refused.

The oracle is DuckDB's own parser over the whole text, which counts its statements, and its
tokenizer over each of them.
"""

import json
import re
from collections import Counter
from inspect import unwrap

import duckdb
import pytest

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.duckdb_engine.statements import check_expression_text, in_brackets, kind_of_statement
from jetbridge.errors import BadRequest, ServerError
from jetbridge.pipeline.access import AccessRules, FileScope
from jetbridge.pipeline.parsing.tokens import TokenCursor, split_text
from jetbridge.pipeline.run import run
from jetbridge.pipeline.session import Session, SessionResources
from tests.security.sandbox.mutations import EXPRESSIONS, STATEMENTS, mutated

COUNTS = [2_000, pytest.param(60_000, marks=pytest.mark.soak)]
ROWS = "SELECT 1 AS a, 'x' AS b"
# What stands around an expression of a user, and the kind of the whole.
PLACES = {
    "SELECT ({0}) FROM t": "SELECT",
    "SELECT CAST(({0}) AS VARCHAR) AS c FROM t WHERE {0}": "SELECT",
    "CREATE TABLE t (x INT, CHECK ({0}))": "CREATE",
    "CREATE TABLE t (x INT DEFAULT ({0}))": "CREATE",
    "UPDATE t SET a = {0}, b = 1 WHERE {0}": "UPDATE",
}


@pytest.fixture(scope="module")
def parser():
    with duckdb.connect(":memory:", config={"enable_external_access": False}) as connection:
        yield connection


def kinds(parser, text: str) -> list[str] | None:
    """Return the kinds of statements in a text, or None. A NUL hides the text after it."""
    if "\0" in text:
        return None
    try:
        return [each.type.name for each in parser.extract_statements(text)]
    except duckdb.Error:
        return None


def ours(text: str) -> list[str] | None:
    try:
        return split_text(text)
    except BadRequest:
        return None


@pytest.mark.parametrize("count", COUNTS)
def test_1_2_fuzz_statements_are_those_of_duckdb(parser, count: int) -> None:
    verdicts: Counter[str] = Counter()
    for text in mutated(STATEMENTS, count, seed=count):
        pieces, theirs = ours(text), kinds(parser, text)
        if pieces is None:
            verdicts["refused"] += 1
            continue
        found = [kinds(parser, piece) for piece in pieces]
        if theirs is None or None in found:
            verdicts["refused by DuckDB"] += 1
            # After e'\'' DuckDB no longer knows which of these spaces are within quotes.
            assert None in found or not text.isascii(), text
            continue
        verdicts["read"] += 1
        assert [kind for each in found for kind in each or ()] == theirs, text
        for piece in pieces:
            compare_tokens(piece)
    # The mutations are worth something only if all of this happens.
    assert min(verdicts[each] for each in ("refused", "refused by DuckDB", "read")) > count / 20


def compare_tokens(piece: str) -> None:
    """Check that strings and quoted names begin and end where DuckDB sees them."""
    words = TokenCursor(piece)._tokens
    encoded = piece.encode()
    found = dict(duckdb.tokenize(piece))
    for word in words:
        place = len(piece[: word.start].encode())
        if word.string:
            assert found[place] == duckdb.token_type.string_const, piece
        elif word.quoted:
            assert encoded[place : place + 1] == b'"', piece
            assert found[place] == duckdb.token_type.identifier, piece
    strings = [place for place, kind in found.items() if kind == duckdb.token_type.string_const]
    assert len(strings) == sum(word.string for word in words), piece


@pytest.mark.parametrize("count", COUNTS)
def test_1_2_fuzz_expressions_stay_in_their_place(parser, count: int) -> None:
    verdicts: Counter[bool] = Counter()
    for text in mutated(EXPRESSIONS, count, seed=count):
        try:
            unwrap(check_expression_text)(text)
        except BadRequest:
            verdicts[False] += 1
            continue
        verdicts[True] += 1
        for place, kind in PLACES.items():
            whole = place.format(text)
            assert kinds(parser, whole) in ([kind], None), whole
        assert kind_of_statement(f"SELECT ({text}) FROM t") == "SELECT", text
        assert tree(parser, f"SELECT 1, ({text}), 2 FROM t")[1] == tree(parser, f"SELECT {text}")[0]
    assert min(verdicts.values()) > count / 20


def tree(parser, text: str) -> list[str]:
    """Return the items of a SELECT as JSON, without their positions in the text."""
    row = parser.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    items = json.loads(row[0])["statements"][0]["node"]["select_list"]
    return [re.sub(r'"query_location": \d+', "", json.dumps(each)) for each in items]


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_1_2_fuzz_lists_in_brackets_are_columns(parser, count: int) -> None:
    """CREATE TABLE with such a list is one statement, and never CREATE TABLE AS."""
    seeds = tuple(s[s.index("(") :] for s in STATEMENTS if s.startswith("CREATE TABLE"))
    accepted = 0
    for text in mutated(seeds, count, seed=count):
        try:
            in_brackets(text)
        except (BadRequest, UnicodeEncodeError):
            continue
        accepted += 1
        assert kinds(parser, f"CREATE TABLE t {text}") in (["CREATE"], None), text
        assert kinds(parser, f"CREATE TABLE t {text} AS SELECT 1") in (["CREATE"], None), text
        assert kinds(parser, f"SELECT * FROM f{text} AS x") in (["SELECT"], None), text
    assert accepted > count / 20


@pytest.mark.parametrize("count", [500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_1_2_fuzz_statements_of_clients_end_in_errors_of_ours(count: int) -> None:
    """A statement that is wrong in any way gets an error, and nothing breaks."""
    ran = 0
    for number, text in enumerate(mutated(STATEMENTS, count, seed=count + 1)):
        if number % 100 == 0:
            session = new_session()
        try:
            for outcome in run(session, text):
                outcome.table()
            ran += 1
        except ServerError:
            continue
    assert ran


def new_session() -> Session:
    session = Session({"mema": MemoryCatalog()}, SessionResources(AccessRules(FileScope.NONE)))
    for table in ("t", "u"):
        for each in run(
            session, f"CREATE SCHEMA IF NOT EXISTS s; CREATE TABLE s.{table} AS {ROWS}"
        ):
            each.table()
    return session


def test_1_2_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(BadRequest, match="name of a table is empty"):
        list(run(new_session(), "DELETE FROM mema.s.t USING ''u WHERE t.a = u.a"))
