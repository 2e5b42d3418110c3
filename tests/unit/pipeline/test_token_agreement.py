"""Words of a statement are only then read when DuckDB's tokenizer sees the same ones."""

import re

import pytest

from jetbridge.errors import BadRequest
from jetbridge.pipeline.parsing.tokens import SPARK, TokenCursor, split_text

AGREED = [
    "SELECT a.b, .5, 5., t.1, 1_000, 1e5, 1.5e-3",
    "SELECT {'a':{'b':-1}}, map{'a':1}, [1,2][1], x[:-1], x[1:2]",
    "SELECT e'\\'; -- ', x'ab', X'00', b'01', n'a', N'b', r'a'",
    "SELECT $$a;$$, $t$ $u$ ; -- $t$, 'a' 'b', 'a'\n'b;'",
    "SELECT a->b, a->>'b', a**b, a//b, a::b, a!=-1, a@>-1, a !~~* b, a ^@ b, a ? b",
    'SELECT \'é; \' AS é, 日本 FROM "ß;"."a""b"',
    "SELECT '\u00a0', \"\u200b\"",
    "SELECT #1, ?, $1, $a, :x",
    "'x'",
    "CREATE TABLE t (a INT PRIMARY KEY NOT NULL DEFAULT 1)",
]


@pytest.mark.parametrize("text", AGREED)
def test_statement_stays_as_it_was_written(text):
    assert split_text(f"{text};{text}\n;") == [text, text]
    assert TokenCursor(text).rest() == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("SELECT 1 -- x ; ' \n, 2", "SELECT 1 , 2"),
        ("SELECT 1 /* ; /* ' */ ; */ , 2", "SELECT 1 , 2"),
        ("SELECT\u00a01 /* \u00a0 ' */, 'c\u00a0'", "SELECT 1 , 'c\u00a0'"),
        ("-- first\nSELECT 1-- last", "SELECT 1"),
        ("\ufeffSELECT 1", "SELECT 1"),
    ],
)
def test_comments_and_other_spaces_become_spaces(text, plain):
    (found,) = split_text(text)
    assert re.sub("[ \n]+", " ", found) == plain
    assert found.count("\n") == text.strip("\n").count("\n") or text.startswith("--")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT {#1: 2}); SELECT 2; --#})",
        "SELECT {%1%}",
        "SELECT {{-1}}",
        "SELECT 1 -- x\r; SELECT 2\n",
        "SELECT a /*/**/*/ ; SELECT 2 /* */",
        "SELECT a$$; SELECT $$",
        "SELECT U&'a'",
        'SELECT U&"a"',
        "SELECT 1\x0b+ 1",
        "SELECT 1\x1c",
        "SELECT 1\u2028",
        "SELECT 1\0; SELECT 2",
        "SELECT $a$ ; $b$",
        "SELECT 'a",
        "SELECT a /* b",
        "SELECT /*+ a",
        "SELECT 'a' -- b\n'c'",
    ],
)
def test_statement_that_can_be_read_in_two_ways_is_refused(text):
    with pytest.raises(BadRequest, match="in two ways|cannot be read"):
        split_text(text)


def test_refusal_shows_no_piece_of_a_password():
    with pytest.raises(BadRequest, match="may contain a password"):
        split_text("CREATE SECRET x (PASSWORD 'hidden', {#1})")


def test_spark_reads_its_own_text():
    assert split_text("SELECT `a` -- b\n, '\\n'", SPARK) == ["SELECT `a` -- b\n, '\\n'"]
