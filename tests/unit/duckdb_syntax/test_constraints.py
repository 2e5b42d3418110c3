import pytest

from jetbridge.catalog import AddCheck, AddKey, UniqueKey
from jetbridge.duckdb_syntax.constraints import parse_check, parse_constraint
from jetbridge.errors import BadRequest, NotSupported

PARSED = [
    ("UNIQUE(x, y)", AddKey(UniqueKey(("x", "y")))),
    ('unique ( "a b" ,y)', AddKey(UniqueKey(("a b", "y")))),
    ('UNIQUE("a""b", "c,d)")', AddKey(UniqueKey(('a"b', "c,d)")))),
    ("PRIMARY KEY(x)", AddKey(UniqueKey(("x",), primary=True))),
    ("CONSTRAINT pk PRIMARY  KEY (Größe)", AddKey(UniqueKey(("Größe",), primary=True))),
    ('CONSTRAINT "CHECK" UNIQUE(x)', AddKey(UniqueKey(("x",)))),
    ("CHECK((x > 0))", AddCheck("(x > 0)")),
    ("CHECK(x > 0)", AddCheck("x > 0")),
    ("CONSTRAINT c CHECK((s <> ')'';'))", AddCheck("(s <> ')'';')")),
    ('CHECK(("a)" IN (1, 2)) AND (l[1] = {\'k\': 1}.k))',
     AddCheck('("a)" IN (1, 2)) AND (l[1] = {\'k\': 1}.k)')),
    ("CHECK((s <> E'\\')') AND (name = 'x\\'))", AddCheck("(s <> E'\\')') AND (name = 'x\\')")),
    ("(qty > 0)", AddCheck("(qty > 0)")),
    ("(a > 0) OR (b > 0)", AddCheck("(a > 0) OR (b > 0)")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "change"), PARSED)
def test_constraint_is_parsed(text, change):
    assert parse_constraint(text) == change


REFUSED = [
    "",
    "  ",
    "x",
    "CONSTRAINT",
    "CONSTRAINT c",
    "UNIQUE",
    "UNIQUE()",
    "UNIQUE(x",
    "UNIQUE x)",
    "UNIQUE(x,)",
    "UNIQUE(x y)",
    "UNIQUE(x, X)",
    "UNIQUE(x) y",
    "UNIQUE('x')",
    'UNIQUE("")',
    'UNIQUE("x)',
    "UNIQUE(x ',' y)",
    "PRIMARY(x)",
    '"UNIQUE"(x)',
    "CHECK",
    "CHECK x > 0",
    "CHECK()",
    "CHECK(x) y",
    "CHECK(x))",
    "CHECK((x)",
    "CHECK((x])",
    "CHECK('x)",
    "CHECK(E'\\')",
    "CHECK(x; DROP TABLE t)",
    "CHECK(x -- )\n)",
    "CHECK(x /* ) */)",
    "CHECK($$)$$ = x)",
    "CHECK(x\0)",
    "(x > 0",
    "(x > 0))",
    "DROP TABLE t",
]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_a_bad_request(text):
    with pytest.raises(BadRequest):
        parse_constraint(text)


def test_foreign_key_is_not_supported():
    with pytest.raises(NotSupported, match="foreign"):
        parse_constraint("FOREIGN KEY (x) REFERENCES t(y)")


def test_bare_check_needs_no_parentheses():
    assert parse_check(" starts_with(s, 'a') ") == AddCheck("starts_with(s, 'a')")
