import pytest

from jetbridge.duckdb_syntax.types import (
    array_of,
    enum_of,
    kind_of,
    list_of,
    map_of,
    struct_of,
)
from jetbridge.expr import (
    And,
    Between,
    Case,
    Cast,
    Coalesce,
    Column,
    Comparison,
    Constant,
    Expr,
    Function,
    In,
    IsNull,
    Not,
    Or,
    children_of,
    columns_of,
    walk,
)

A, B, C, ONE = Column("a"), Column("b"), Column("c"), Constant("INTEGER", 1)

CHILDREN = [
    (A, ()),
    (ONE, ()),
    (Comparison("=", A, ONE), (A, ONE)),
    (And((A, B)), (A, B)),
    (Or((A, B)), (A, B)),
    (Not(A), (A,)),
    (IsNull(A), (A,)),
    (In(A, (ONE, B)), (A, ONE, B)),
    (Between(A, B, C), (A, B, C)),
    (Coalesce((A, B)), (A, B)),
    (Case(((A, B),), C), (A, B, C)),
    (Cast(A, "DATE"), (A,)),
    (Function("+", (A, B), operator=True), (A, B)),
]


@pytest.mark.parametrize(("node", "children"), CHILDREN)
def test_children_come_in_written_order(node, children):
    assert tuple(children_of(node)) == children


def test_columns_of_a_tree_are_each_named_once():
    assert columns_of(And((Comparison("=", A, B), Not(IsNull(A)), ONE))) == {"a", "b"}


def test_walk_needs_no_stack():
    node: Expr = A
    for _ in range(5000):
        node = Not(node)
    assert sum(1 for _ in walk(node)) == 5001


TYPES = [
    (list_of("INTEGER"), "INTEGER[]", "LIST"),
    (array_of("INTEGER", 3), "INTEGER[3]", "LIST"),
    (map_of("VARCHAR", "DATE"), "MAP(VARCHAR, DATE)", "MAP"),
    (struct_of([('a"b', "DATE")]), 'STRUCT("a""b" DATE)', "STRUCT"),
    (enum_of(["it's", "b"]), "ENUM('it''s', 'b')", "ENUM"),
    ("DECIMAL(12,2)", "DECIMAL(12,2)", "DECIMAL"),
]


@pytest.mark.parametrize(("built", "name", "kind"), TYPES)
def test_nested_types_are_named_as_duckdb_names_them(built, name, kind):
    assert (built, kind_of(built)) == (name, kind)
