import datetime
import threading
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from jetbridge.catalog import (
    AsOf,
    AtUnit,
    CanAlter,
    CanCount,
    CanDelete,
    CanInsert,
    CanSplit,
    CanTravel,
    CanUpdate,
    RenameColumn,
    Scan,
)
from jetbridge.errors import BadRequest, NotFound
from jetbridge.expr import (
    And,
    Between,
    Cast,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    IsNull,
    Not,
    Or,
)
from tests.conformance.harness import delete, insert, read, rowids, rows, update

COUNT = 150_000
# Of a writer beside readers: each takes a third of a second on a lake.
CHANGES = 12


@pytest.fixture(autouse=True)
def _claims(needs):
    needs(CanInsert)


def test_columns_come_as_asked_in_that_order(orders):
    assert read(orders, ("name", "rowid", "id")).schema.names == ["name", "rowid", "id"]
    assert read(orders, ("id",)).to_pydict() == {"id": [1, 2, 3]}
    assert read(orders).schema.names == ["id", "name", "rowid"]


def test_batches_have_exactly_the_types_of_the_table(harness, schema, create):
    columns = [pa.field("id", pa.int64(), False), pa.field("s", pa.large_string())]
    table = create("t", columns)
    insert(table, {"id": pa.array([1], pa.int8()), "s": ["x"]})
    insert(table, {"id": [2], "s": pa.array(["y"], pa.large_string())})
    table = schema.load_table("t")
    types = [table.info().schema.field(name).type for name in ("s", "id")]
    if not harness.own_types:
        assert types == [pa.large_string(), pa.int64()]
    for batch in table.scan(Scan(("s", "id"))):
        assert batch.schema.types == types
    assert rows(table) == [(1, "x"), (2, "y")]


def test_no_columns_still_count_the_rows(orders):
    batches = list(orders.scan(Scan(())))
    assert sum(batch.num_rows for batch in batches) == 3
    assert all(batch.num_columns == 0 for batch in batches)
    wanted = Comparison(">", Column("id"), Constant("BIGINT", 2))
    assert sum(b.num_rows for b in orders.scan(Scan((), wanted))) == 1


def test_an_unknown_column_is_a_bad_request(orders):
    with pytest.raises(BadRequest, match="nope"):
        list(orders.scan(Scan(("nope",))))


def test_an_empty_table_has_no_rows(create):
    assert sum(batch.num_rows for batch in create().scan(Scan())) == 0


def test_a_scan_can_be_left_early(needs, schema, create):
    insert(create(), {"id": np.arange(COUNT), "name": ["x"] * COUNT})
    batches = iter(schema.load_table("orders").scan(Scan()))
    assert next(batches).num_rows > 0
    close = getattr(batches, "close", None)
    if close is not None:
        close()


def _int(value: int | None) -> Constant:
    return Constant("BIGINT", value)


def _id(op, value) -> Comparison:
    return Comparison(op, Column("id"), _int(value))


FILTERS: list[tuple[Expr, set[int]]] = [
    (_id("=", 2), {2}),
    (_id("<>", 2), {1, 3}),
    (_id("<", 2), {1}),
    (_id("<=", 2), {1, 2}),
    (_id(">", 2), {3}),
    (_id(">=", 2), {2, 3}),
    (Comparison("<", _int(2), Column("id")), {3}),
    (_id("=", None), set()),
    (Comparison("IS NOT DISTINCT FROM", Column("name"), Constant("VARCHAR", None)), {3}),
    (Comparison("=", Column("name"), Constant("VARCHAR", "b")), {2}),
    (And((_id(">", 1), Comparison("=", Column("name"), Constant("VARCHAR", "b")))), {2}),
    (Or((_id("=", 1), IsNull(Column("name")))), {1, 3}),
    (IsNull(Column("name"), negated=True), {1, 2}),
    (Not(_id("=", 2)), {1, 3}),
    (In(Column("id"), (_int(1), _int(3), _int(None))), {1, 3}),
    (In(Column("id"), (_int(1),), negated=True), {2, 3}),
    (Between(Column("id"), _int(2), _int(3)), {2, 3}),
    (Between(Column("id"), _int(1), _int(3), False, False), {2}),
    (Comparison("=", Function("upper", (Column("name"),)), Constant("VARCHAR", "A")), {1}),
    (Comparison("=", Column("rowid"), _int(0)), {1}),
    (Comparison("=", Cast(Column("id"), "VARCHAR"), Constant("VARCHAR", "3")), {3}),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("condition", "wanted"), FILTERS, ids=range(len(FILTERS)))
def test_a_filter_never_loses_a_row(orders, condition, wanted):
    found = {row[0] for row in rows(orders, "id", filter=condition)}
    assert found >= wanted
    assert found <= {1, 2, 3}


@pytest.mark.parametrize("name", ["no_such_function", "error"])
def test_a_filter_that_cannot_be_evaluated_keeps_every_row(orders, name):
    condition = Comparison("=", Function(name, (Column("name"),)), Constant("VARCHAR", "A"))
    assert rows(orders, "id", filter=condition) == [(1,), (2,), (3,)]
    broken = Comparison("=", Cast(Column("name"), "INTEGER"), Constant("INTEGER", 1))
    assert {(1,), (2,)} <= set(rows(orders, "id", filter=broken)) <= {(1,), (2,), (3,)}


def test_filters_leave_out_deleted_rows(needs, schema, orders):
    needs(CanDelete)
    delete(orders, rowids(orders, "id", 2))
    table = schema.load_table("orders")
    assert rows(table, "id", filter=_id(">", 1)) == [(3,)]
    assert rows(table, "id", filter=Or((_id(">", 1), IsNull(Column("name"))))) == [(3,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "values", "constant", "wanted"),
    [
        (pa.float64(), [1.0, float("nan"), None], Constant("DOUBLE", 5.0), {1}),
        (
            pa.timestamp("ms"),
            [datetime.datetime(2020, 1, 1), datetime.datetime(2024, 1, 1), None],
            Constant("TIMESTAMP_MS", 1_600_000_000_000),
            {1},
        ),
        (pa.date32(), [0, 20_000, None], Constant("DATE", 10_000), {1}),
        (pa.decimal128(9, 2), [1, 100, None], Constant("DECIMAL(9,2)", 5_000), {1}),
        (pa.uint64(), [1, 2**64 - 1, None], Constant("UBIGINT", 2**63), {1}),
        (pa.string(), ["a", "z", None], Constant("VARCHAR", "m"), {1}),
    ],
)
def test_greater_than_follows_the_order_of_duckdb(
    harness, schema, create, kind, values, constant, wanted
):
    if pa.types.is_floating(kind) and ("DOUBLE", "lossless") in harness.refuses:
        values = [1.0, 9.0, None]
    insert(create("t", [("n", pa.int64()), ("v", kind)]), {"n": [0, 1, 2], "v": _of(values, kind)})
    condition = Comparison(">", Column("v"), constant)
    found = {row[0] for row in rows(schema.load_table("t"), "n", filter=condition)}
    assert wanted <= found


def _of(values, kind):
    plain = (
        [None if v is None else Decimal(v) for v in values] if pa.types.is_decimal(kind) else values
    )
    return pa.array(plain, kind)


def test_parts_hold_every_row_once(needs, schema, create):
    needs(CanSplit)
    insert(create(), {"id": np.arange(COUNT * 4), "name": ["x"] * COUNT * 4})
    table = schema.load_table("orders")
    parts = table.split(Scan())
    assert len(parts) >= 1
    found = [read(table, ("id",), part=part).column("id").to_pylist() for part in parts]
    assert sorted(i for part in found for i in part) == list(range(COUNT * 4))
    with pytest.raises(BadRequest):
        read(table, ("id",), part="nonsense")


def test_an_empty_table_has_at_least_one_part(needs, create):
    needs(CanSplit)
    table = create()
    parts = table.split(Scan())
    assert [read(table, ("id",), part=part).num_rows for part in parts] == [0] * len(parts)
    assert parts


def test_rows_are_counted(needs, harness, schema, orders):
    needs(CanCount, CanDelete)
    delete(orders, rowids(orders, "id", 1))
    assert orders.count_rows() == (3 if harness.frozen else 2)
    assert schema.load_table("orders").count_rows() == 2


def _version(table, number):
    return table.at(AsOf(AtUnit.VERSION, str(number)))


def test_every_version_can_be_read_again(needs, schema, create):
    needs(CanTravel, CanUpdate, CanDelete, CanAlter)
    table = create()
    assert table.info().version == 0
    insert(table, {"id": [1, 2], "name": ["a", "b"]})
    update(schema.load_table("orders"), {"name": ["A"], "rowid": [0]})
    delete(schema.load_table("orders"), [1])
    last = schema.load_table("orders").alter(RenameColumn("name", "title"))
    assert last.info().version == 4
    seen = [rows(_version(last, n)) for n in range(5)]
    assert seen == [[], [(1, "a"), (2, "b")], [(1, "A"), (2, "b")], [(1, "A")], [(1, "A")]]
    assert _version(last, 3).info().schema.names == ["id", "name"]
    assert _version(last, 4).info().schema.names == ["id", "title"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", ["2", "7", "-1"])
def test_a_version_that_is_not_kept_is_not_found(needs, orders, number):
    needs(CanTravel)
    with pytest.raises(NotFound, match="0 to 1"):
        _version(orders, number)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("unit", "value"),
    [(AtUnit.VERSION, "x"), (AtUnit.VERSION, ""), (AtUnit.TIMESTAMP, "soon")],
)
def test_a_point_in_time_must_make_sense(needs, orders, unit, value):
    needs(CanTravel)
    with pytest.raises(BadRequest):
        orders.at(AsOf(unit, value))


def test_a_timestamp_gives_the_version_of_that_moment(needs, schema, orders):
    needs(CanTravel)
    moment = datetime.datetime.now(datetime.UTC)
    insert(orders, {"id": [4], "name": ["d"]})
    table = schema.load_table("orders")
    later = moment + datetime.timedelta(hours=1)
    before = table.at(AsOf(AtUnit.TIMESTAMP, f"{moment:%Y-%m-%d %H:%M:%S.%f}"))
    after = table.at(AsOf(AtUnit.TIMESTAMP, f"{later:%Y-%m-%d %H:%M:%S}+00"))
    assert rows(before) == [(1, "a"), (2, "b"), (3, None)]
    assert len(rows(after)) == 4
    with pytest.raises(NotFound):
        table.at(AsOf(AtUnit.TIMESTAMP, "1999-01-01 00:00:00"))


def test_readers_see_whole_statements_while_writers_work(needs, harness, catalog, schema, create):
    needs(CanUpdate)
    columns = [("id", pa.int64()), ("a", pa.int64())]
    insert(create("t", columns), {"id": np.arange(1000), "a": [0] * 1000})
    stop = threading.Event()

    def work():
        try:
            for value in range(1, CHANGES + 1):
                table = schema.load_table("t")
                update(table, {"a": [value] * 1000, "rowid": np.arange(1000)})
        finally:
            stop.set()

    def look():
        reader = schema if harness.frozen else catalog.snapshot().load_schema("sales")
        return read(reader.load_table("t"), ("a",)).column("a").to_pylist()

    writer = threading.Thread(target=work)
    writer.start()
    seen = set()
    while not stop.is_set():
        seen.add(frozenset(look()))
    writer.join()
    assert look() == [CHANGES] * 1000
    assert all(len(values) == 1 for values in seen)
