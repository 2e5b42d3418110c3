"""Combine statements at random with text on which tokenizers disagree."""

import random
from collections.abc import Iterator

STATEMENTS = (
    "SELECT a, b + 1 AS c FROM mema.s.t WHERE a > 0 AND b IN (1, 2) ORDER BY 1",
    "SELECT 'it''s', \"a\"\"b\", e'\\'', $$x;y$$, $t$ -- $t$, x'ab' FROM t",
    "SELECT {'a': {'b': 1}}, MAP {1: 2}, [1, 2][1], a->'$.b', a->>'b', x[1:-1] FROM t",
    "SELECT 1_000, 1e5, .5, 5., t.1, #1, a::INT, a @> b, a <@ b, a ^@ b, -1 FROM t",
    "WITH x AS (SELECT 1 AS i) SELECT * FROM x /* a /* b */ c */ -- end",
    "CREATE TABLE mema.s.q (x INT, y VARCHAR DEFAULT ('a' || 'b'), CHECK (x > 0))",
    "CREATE TABLE mema.s.q (x INT, y INT GENERATED ALWAYS AS (x + 1))",
    "CREATE OR REPLACE TABLE mema.s.q AS SELECT CASE WHEN a THEN 'b' END AS c FROM t",
    "INSERT INTO mema.s.t VALUES (1, DEFAULT), (2, 'b') RETURNING a, b AS c",
    "UPDATE mema.s.t SET a = a + 1, b = (SELECT max(b) FROM u) FROM u WHERE t.a = u.a",
    "DELETE FROM mema.s.t USING u WHERE t.a = u.a AND t.b IS DISTINCT FROM 1 RETURNING *",
    "MERGE INTO mema.s.t USING (SELECT 1 AS a) AS s ON t.a = s.a WHEN MATCHED AND s.a > 0 THEN "
    "UPDATE SET b = 'x' WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, 'y')",
    "ALTER TABLE mema.s.t ALTER COLUMN a TYPE BIGINT USING a * 2",
    "ALTER TABLE mema.s.t ADD COLUMN c STRUCT(x INT, y VARCHAR[])",
    "SELECT * FROM t AT (VERSION => 1); SELECT 2",
    "SET engine = 'duckdb'; BEGIN; COMMIT",
    "EXPLAIN SELECT list_transform([1], lambda x: x + 1)",
)
EXPRESSIONS = (
    "a + 1 > 0 AND b IN (1, 2)",
    "CASE WHEN a THEN 'b' ELSE {'c': [1, 2]} END",
    "list_transform([1, 2], lambda x: x + 1)",
    "(SELECT max(a) FROM t WHERE b = 'c')",
    "CAST(a AS STRUCT(x INT)[]) -- c\n",
    "MAP {1: 2}[1] || $$x$$ || e'\\''",
    "a BETWEEN 1 AND 2 OR sum(b) OVER (PARTITION BY c) IS NULL",
)
# Tokenizers disagree about these, or they open or end something.
PIECES = (
    *(
        "'",
        "''",
        '"',
        '""',
        "`",
        "$",
        "$$",
        "$t$",
        "$1",
        "e'",
        "E'\\",
        "\\",
        "\\'",
        "x'",
        "U&'",
        "N'",
    ),
    *(
        "--",
        "-- x\n",
        "--\r",
        "/*",
        "*/",
        "/**/",
        "/*/",
        "/*+",
        "#",
        "{#",
        "#}",
        "{{",
        "}}",
        "{%",
        "%}",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ";",
        ",",
        ".",
        ":",
        "::",
        ":=",
        "=>",
        "?",
        "@>-1--",
        "@/*",
        "<->",
        "@-",
    ),
    *(
        "\n",
        "\r",
        "\t",
        "\v",
        "\f",
        "\0",
        "\x1c",
        "\x85",
        "\u00a0",
        "\u2003",
        "\u2028",
        "\u200b",
        "\u3000",
    ),
    *(
        "\ufeff",
        "\u2060",
        "é",
        "日本",
        "0x1F",
        "1_0",
        "1e",
        "1..2",
        ".5",
        "1$$",
        "a$$",
        "_",
        "b'1'",
    ),
    *(
        "; SELECT 2",
        "; COPY t TO 'x'; --",
        ") FROM t; --",
        "), (",
        " AS ",
        " UNION ",
        "SELECT",
        "END",
    ),
    *(
        " CASE ",
        " RETURNING ",
        " WHEN ",
        " WHERE ",
        "'a'\n'b'",
        "'a' -- b\n'c'",
        "PRAGMA x",
        "''''",
    ),
)


def mutated(seeds: tuple[str, ...], count: int, seed: int) -> Iterator[str]:
    """Return this number of texts, which depend only on the seed."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for number in range(count):
        text = seeds[number % len(seeds)]
        for _ in range(chance.randint(1, 3)):
            text = _changed(text, seeds, chance)
        yield text


def _changed(text: str, seeds: tuple[str, ...], chance: random.Random) -> str:
    start = chance.randint(0, len(text))
    end = min(len(text), start + chance.randint(0, 8))
    match chance.randint(0, 4):
        case 0:
            return text[:start] + text[end:]
        case 1:
            other = chance.choice(seeds)
            return text[:start] + other[chance.randint(0, len(other)) :]
        case 2:
            return text[:start] + chance.choice(PIECES) + text[end:]
        case _:
            return text[:start] + chance.choice(PIECES) + text[start:]
