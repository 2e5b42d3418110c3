"""NOT NULL is inferred where it is certain, and nowhere else."""

import pyarrow as pa
import pytest

from jetbridge.pipeline.query.nullability import never_null

SOURCES = {
    ("lake", "s", "t"): pa.schema([pa.field("ID", pa.int64(), nullable=False), ("x", pa.string())]),
    ("lake", "s", "u"): pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("y", pa.string(), nullable=False)]
    ),
}
JOINED = "SELECT t.id, u.y FROM lake.s.t t {} JOIN lake.s.u u ON t.id = u.id"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 AS id, 'x' AS name", "TF"),
        ("SELECT true, -1, 1.5, DATE '2020-01-01', NULL", "TTTTF"),
        (
            "SELECT '1'::INT, TRY_CAST('a' AS INT), 'a'::VARCHAR, CAST(x AS INT) FROM lake.s.t",
            "TFFF",
        ),
        ("FROM lake.s.t", "TF"),
        ("SELECT * FROM LAKE.S.T WHERE x IS NULL ORDER BY 1 LIMIT 5", "TF"),
        ('SELECT ID AS "Weird Name" FROM lake.s.t', "T"),
        ("SELECT id + 1, (id), abs(id) FROM lake.s.t", "FTF"),
        ("SELECT * EXCLUDE x FROM lake.s.t", "T"),
        ("SELECT * REPLACE (1 AS x) FROM lake.s.t", "TT"),
        (JOINED.format(""), "TT"),
        (JOINED.format("LEFT"), "TF"),
        (JOINED.format("RIGHT"), "FT"),
        (JOINED.format("FULL"), "FF"),
        (JOINED.format("ASOF LEFT").replace("t.id = u.id", "t.id >= u.id"), "TF"),
        ("SELECT t.* FROM lake.s.t, lake.s.u", "TF"),
        ("SELECT id FROM lake.s.t SEMI JOIN lake.s.u USING (id)", "T"),
        ("SELECT id FROM lake.s.t FULL JOIN lake.s.u USING (id)", "F"),
        ("SELECT count(*), count(x), sum(id), max(id) FROM lake.s.t", "TTFF"),
        ("SELECT row_number() OVER (), count(*) OVER (), lag(id) OVER () FROM lake.s.t", "TTF"),
        ("SELECT id, count(*) FROM lake.s.t GROUP BY ALL", "TT"),
        ("SELECT id, count(*) FROM lake.s.t GROUP BY ROLLUP (id)", "FT"),
        ("SELECT id, count(*) FROM lake.s.t GROUP BY GROUPING SETS ((id), ())", "FT"),
        ("WITH q AS (SELECT id, x FROM lake.s.t) SELECT x, id FROM q", "FT"),
        ("SELECT q.id FROM (SELECT id FROM lake.s.t) q LEFT JOIN lake.s.u USING (id)", "T"),
        ("SELECT id FROM lake.s.t UNION ALL SELECT id FROM lake.s.u", "F"),
        ("SELECT a FROM (SELECT id AS a FROM lake.s.t EXCEPT SELECT 1) q", "F"),
        ("SELECT id FROM lake.s.t QUALIFY row_number() OVER () = 1", "T"),
        ("SELECT DISTINCT ON (id) id FROM lake.s.t", "T"),
        ("SELECT (SELECT id FROM lake.s.u LIMIT 1)", "F"),
        ("SELECT unnest([1, 2])", "F"),
        ("VALUES (1, 'a')", "FF"),
        ("SELECT CASE WHEN true THEN 1 END, coalesce(1, 2)", "FF"),
        ("SELECT id FROM lake.s.t POSITIONAL JOIN lake.s.u", "F"),
        ("SELECT t.id, u.y FROM lake.s.t t POSITIONAL JOIN lake.s.u u", "FF"),
        ("SELECT t.id, u.y, v.y FROM lake.s.t t, lake.s.u u POSITIONAL JOIN lake.s.u v", "FFF"),
        ("SELECT t.id, u.y, v.y FROM lake.s.t t POSITIONAL JOIN lake.s.u u, lake.s.u v", "FFT"),
        ("PIVOT lake.s.t ON x USING count(*)", "FF"),
        ("SELECT id FROM elsewhere", "F"),
        ("this is no query", "F"),
        (
            "WITH RECURSIVE r AS (SELECT id FROM lake.s.t UNION ALL SELECT id + 1 FROM r) "
            "SELECT id FROM r",
            "F",
        ),
    ],
)
def test_columns_that_are_never_null(query, expected):
    names = tuple(f"c{index}" for index in range(len(expected)))
    found = never_null(query, names, SOURCES)
    assert "".join("T" if each else "F" for each in found) == expected


def test_nothing_is_inferred_of_a_very_long_query():
    """To look through all of it would take minutes, and nothing would end that."""
    assert never_null("SELECT 1 AS n", ("n",), {}) == (True,)
    assert never_null("SELECT 1 AS n" + " UNION ALL SELECT 1" * 50_000, ("n",), {}) == (False,)
