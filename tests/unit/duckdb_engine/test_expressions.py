import pyarrow as pa
import pytest

from jetbridge.duckdb_engine import (
    check_expression,
    default_expression,
    default_values,
    duckdb_type,
    evaluate,
    first_violation,
    mask,
    microseconds,
    parse,
    renamed,
    row_expression,
)
from jetbridge.errors import BadRequest

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("b", pa.string()),
        ("j", pa.json_()),
        ("s", pa.struct([("f", pa.int32())])),
        ("d", pa.date32()),
        ('we"ird', pa.int8()),
    ]
)
DATA = pa.table({"a": pa.array([1, 5, None, 0]), "b": ["x", None, "y", "z"]})


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a > 1", {"a"}),
        ("(a > 1)", {"a"}),
        ("A > 1 AND b LIKE 'x%'", {"a", "b"}),
        ("a IN (1, 2) OR b IS NULL", {"a", "b"}),
        ("CASE WHEN a = 1 THEN true END", {"a"}),
        ("a::DECIMAL(10,2) > 1.5", {"a"}),
        ("(j->'$.x') IS NOT NULL", {"j"}),
        ("(s).f > 1", {"s"}),
        ("d > DATE '2020-01-01'", {"d"}),
        ('"we""ird" > 1', {'we"ird'}),
        ("a > 1 -- why not", {"a"}),
        ("length(b) /* ) */ < 5", {"b"}),
        ("true", set()),
    ],
)
def test_good_checks_are_taken(text, columns):
    assert check_expression(text, SCHEMA).columns == columns


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "syntax"),
        ("a >", "syntax"),
        ("a > 1), (b", "not one expression"),
        ("a > 1), x INT --", "INT"),
        ("a > 1) AND (a < 5", "syntax"),
        ("a > 1, a < 5", "not one expression"),
        ("a > 1;", "syntax"),
        ("age(d) > INTERVAL 1 DAY", "age"),
        ("1) FROM duckdb_settings() WHERE (true", "not one expression"),
        ("1) AS x WHERE (true", "not one expression"),
        ("1) UNION ALL SELECT (2", "not one expression"),
        ("1) ORDER BY (1", "not one expression"),
        ("1); DROP TABLE t; SELECT (1", ""),
        ("a > 1 /*", "comment"),
        ("(SELECT 1) = 1", "subquery"),
        ("a IN (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("sum(a) > 1", "aggregate"),
        ("row_number() OVER () > 1", "window"),
        ("a > ?", "parameter"),
        ("a > $x", "parameter"),
        ("COLUMNS(*) > 1", "star"),
        ("nope > 1", "nope"),
        ("a > other.b", "other"),
        ("no_such_function(a) > 1", "no_such_function"),
        ("read_csv('/etc/passwd') IS NULL", "read_csv"),
        ("random() > 0.5", "random"),
        ("now() > d", "now"),
        ("current_date > d", "current_date"),
        ("current_setting('threads') = '1'", "current_setting"),
        ("getvariable('x') = 1", "getvariable"),
        ("nextval('s') > 1", "nextval"),
        ("b + 1", "+"),
        ("x" * 10_001, "long"),
        ("NOT " * 900 + "true", "deeply"),
        ("NOT " * 2_000 + "true", ""),
        ("[" * 4000 + "]" * 4000, ""),
    ],
)
def test_bad_checks_are_refused_by_name(text, named):
    with pytest.raises(BadRequest) as error:
        check_expression(text, SCHEMA)
    assert named in str(error.value)
    assert len(str(error.value)) < 500


def test_the_table_may_stand_before_a_column():
    schema = pa.schema([("n", pa.int32()), ("s", pa.struct([("f", pa.int32())]))])
    assert check_expression("T.n > 0", schema, "t").sql == "(n > 0)"
    assert check_expression("(t.s).f > 0", schema, "t").columns == {"s"}
    assert check_expression("(s).f > 0", schema, "s").columns == {"s"}
    with pytest.raises(BadRequest, match="other"):
        check_expression("other.n > 0", schema, "t")


@pytest.mark.parametrize("text", ["(qty > 0)", "'none'", "42", "now()", "(a IN (1, 2))"])
def test_the_spelling_of_duckdb_is_kept_as_it_is(text):
    assert parse(text).sql == text


@pytest.mark.parametrize(
    "text",
    [
        "list_transform([a], x -> x + a)",
        "list_filter([1], lambda q: q > a)",
        "[x + 1 for x in [a]]",
        "list_reduce([1, 2], (x, y) -> x + y)",
    ],
)
def test_lambdas_are_refused(text):
    with pytest.raises(BadRequest, match="must not call list_"):
        row_expression(text, SCHEMA)


def test_row_expressions_take_no_aggregates_and_only_known_columns():
    for text in ("sum(a)", "nope", "(SELECT 1)", "current_setting('threads')"):
        with pytest.raises(BadRequest):
            row_expression(text, SCHEMA)


def test_renaming_rewrites_every_reference():
    text = "a > 1 AND list_contains([b], 'a') AND (A + 1) < 7"
    again = renamed(text, "a", 'new "one')
    assert parse(again).columns == {'new "one', "b"}
    assert renamed("b > 'a'", "a", "z") == "b > 'a'"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a", pa.field("x", pa.int32())),
        ("'x'", pa.field("x", pa.int32())),
        ("300", pa.field("x", pa.int8())),
        ("(SELECT 1)", pa.field("x", pa.int32())),
        ("nextval('q')", pa.field("x", pa.int32())),
        ("sum(1)", pa.field("x", pa.int32())),
        ("1, 2", pa.field("x", pa.int32())),
        ("1) || (2", pa.field("x", pa.string())),
    ],
)
def test_bad_defaults_are_refused(text, field):
    with pytest.raises(BadRequest, match="x"):
        default_expression(text, field)


def test_defaults_give_values_of_the_column_type():
    field = pa.field("x", pa.uuid())
    default_expression("uuid()", field)
    values = default_values("uuid()", field, 10)
    assert values.type == pa.uuid()
    assert len(set(values.to_pylist())) == 10
    when = pa.field("t", pa.timestamp("us", "Europe/Berlin"))
    default_expression("current_timestamp", when)
    assert default_values("current_timestamp", when, 2).type == when.type
    assert default_values("42", pa.field("n", pa.int8()), 0).to_pylist() == []


def test_evaluation_gives_the_wanted_type():
    assert evaluate("a + 1", DATA, pa.field("x", pa.string())).to_pylist() == ["2", "6", None, "1"]
    with pytest.raises(BadRequest, match="x"):
        evaluate("b", DATA, pa.field("x", pa.int32()))


def test_slices_of_nested_data_are_read_right():
    values = [{"s": {"b": True}, "l": [1]}, {"s": {"b": None}, "l": [2]}, {"s": None, "l": None}]
    data = pa.table({"v": pa.array(values)}).slice(1)
    found = evaluate("(v).s", data, pa.field("s", data.schema.field("v").type.field("s").type))
    assert found.to_pylist() == [{"b": None}, None]


def test_false_violates_and_null_passes():
    assert first_violation("a > 0", DATA) == 3
    assert first_violation("a >= 0", DATA) is None
    with pytest.raises(BadRequest):
        first_violation("b::INTEGER > 0", DATA)


def test_masks_are_true_where_the_filter_is_and_unknown_on_errors():
    found = mask('("a" > 1)', DATA)
    assert found is not None
    assert found.tolist() == [False, True, False, False]
    assert mask("true", DATA.select([])) is not None
    assert mask("nonsense(", DATA) is None
    assert mask("CAST(b AS INTEGER) = 1", DATA) is None


def test_timestamps_are_read_as_duckdb_writes_them():
    assert microseconds("1970-01-01 00:00:01") == 1_000_000
    assert microseconds("1970-01-01 01:00:00.5+01") == 500_000
    assert microseconds("infinity") == 2**63 - 1
    assert microseconds("290000-01-01") == 9_089_348_860_800_000_000
    assert microseconds("soon") is None


def test_types_have_their_duckdb_names():
    geometry = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}
    assert duckdb_type(pa.field("g", pa.binary(), metadata=geometry)) == "GEOMETRY"
    assert duckdb_type(pa.field("b", pa.binary())) == "BLOB"
    with pytest.raises(BadRequest, match="halffloat"):
        duckdb_type(pa.field("h", pa.float16()))
