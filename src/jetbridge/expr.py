"""Predicates that scans push down: immutable nodes, and functions that walk them.

A predicate is a tree of these nodes. Wherever a node has a `type`, it is the name of a DuckDB type,
such as `BIGINT` or `DECIMAL(12,2)`.

Examples:
    The predicate `city = 'Ulm' AND price BETWEEN 10 AND 20`:

    >>> city = Comparison("=", Column("city"), Constant("VARCHAR", "Ulm"))
    >>> low, high = Constant("DOUBLE", 10.0), Constant("DOUBLE", 20.0)
    >>> predicate = And((city, Between(Column("price"), low, high)))
    >>> sorted(columns_of(predicate))
    ['city', 'price']
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

__all__ = [
    "And",
    "Between",
    "Case",
    "Cast",
    "Coalesce",
    "Column",
    "Comparison",
    "ComparisonOp",
    "Constant",
    "Expr",
    "Function",
    "In",
    "IsNull",
    "Not",
    "Or",
    "children_of",
    "columns_of",
    "walk",
]

# The operators of `Comparison`.
ComparisonOp = Literal["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


@dataclass(frozen=True)
class Column:
    """Read a column of the table that is scanned.

    Attributes:
        name: The name of the column, matched without regard to case.
        type: The DuckDB type of the column; empty where only the table knows it.

    Examples:
        >>> Column("price", "DOUBLE")
        Column(name='price', type='DOUBLE')
    """

    name: str
    type: str = ""


@dataclass(frozen=True)
class Constant:
    """Hold a value of a DuckDB type.

    The value is what DuckDB serialises, as a hashable Python value. The client also takes
    `datetime`, `date`, `time`, `Decimal` and `UUID` values and converts them.

        None                      NULL of any type
        bool, int, float, str     BOOLEAN, the integers, FLOAT and DOUBLE, VARCHAR and JSON
        int                       DECIMAL: unscaled; DATE: days; TIME and TIMESTAMP: the unit of the
                                  type since midnight or 1970, with the largest integer and its
                                  negative for infinity
        int                       TIME WITH TIME ZONE: microseconds << 24 | (57599 - offset seconds)
        bytes                     BLOB
        str                       UUID: canonical text; ENUM: the label
        (months, days, micros)    INTERVAL
        tuple of Constant         LIST, ARRAY
        tuple of (name, Constant) STRUCT
        tuple of (key, value)     MAP, both Constants

    Attributes:
        type: The DuckDB type of the value.
        value: The value, in the form of the list above.

    Examples:
        The number 12.50:

        >>> Constant("DECIMAL(12,2)", 1250)
        Constant(type='DECIMAL(12,2)', value=1250)
    """

    type: str
    value: Any


@dataclass(frozen=True)
class Comparison:
    """Compare two expressions of one type.

    Attributes:
        op: The operator, as SQL writes it.
        left: The expression before the operator.
        right: The expression behind it.

    Examples:
        >>> Comparison(">=", Column("price"), Constant("DOUBLE", 9.5)).op
        '>='
    """

    op: ComparisonOp
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True)
class And:
    """Join predicates of which all must be true.

    Attributes:
        children: The predicates, at least one.

    Examples:
        >>> len(And((Not(Column("sold")), IsNull(Column("price")))).children)
        2
    """

    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Or:
    """Join predicates of which one must be true.

    Attributes:
        children: The predicates, at least one.

    Examples:
        >>> len(Or((Column("sold"), IsNull(Column("price")))).children)
        2
    """

    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Not:
    """Negate a predicate; the negation of NULL is NULL.

    Attributes:
        child: The predicate.

    Examples:
        >>> Not(Column("sold")).child.name
        'sold'
    """

    child: "Expr"


@dataclass(frozen=True)
class IsNull:
    """Test whether an expression is NULL.

    Attributes:
        child: The expression.
        negated: Whether the test is IS NOT NULL.

    Examples:
        >>> IsNull(Column("price"), negated=True).negated
        True
    """

    child: "Expr"
    negated: bool = False


@dataclass(frozen=True)
class In:
    """Test whether an expression equals one of several.

    Attributes:
        child: The expression before IN.
        items: The expressions in the list, at least one.
        negated: Whether the test is NOT IN.

    Examples:
        >>> cities = (Constant("VARCHAR", "Ulm"), Constant("VARCHAR", "Bonn"))
        >>> [item.value for item in In(Column("city"), cities).items]
        ['Ulm', 'Bonn']
    """

    child: "Expr"
    items: tuple["Expr", ...]
    negated: bool = False


@dataclass(frozen=True)
class Between:
    """Test whether an expression lies between two bounds.

    Attributes:
        child: The expression before BETWEEN.
        lower: The lower bound.
        upper: The upper bound.
        lower_inclusive: Whether the lower bound itself passes, as in SQL.
        upper_inclusive: Whether the upper bound itself passes, as in SQL.

    Examples:
        The range `0 <= price < 10`:

        >>> zero, ten = Constant("DOUBLE", 0.0), Constant("DOUBLE", 10.0)
        >>> Between(Column("price"), zero, ten, upper_inclusive=False).upper_inclusive
        False
    """

    child: "Expr"
    lower: "Expr"
    upper: "Expr"
    lower_inclusive: bool = True
    upper_inclusive: bool = True


@dataclass(frozen=True)
class Coalesce:
    """Take the first expression that is not NULL.

    Attributes:
        children: The expressions, in the order in which they are tried.

    Examples:
        >>> price = Coalesce((Column("sale_price"), Column("price")))
        >>> sorted(columns_of(price))
        ['price', 'sale_price']
    """

    children: tuple["Expr", ...]


@dataclass(frozen=True)
class Case:
    """Take the expression behind the first condition that is true.

    Attributes:
        whens: Pairs of a condition and the expression to take.
        otherwise: The expression to take where no condition is true.

    Examples:
        >>> price = Case(((Column("on_sale"), Column("sale_price")),), Column("price"))
        >>> price.otherwise.name
        'price'
    """

    whens: tuple[tuple["Expr", "Expr"], ...]
    otherwise: "Expr"


@dataclass(frozen=True)
class Cast:
    """Convert an expression to another type.

    Attributes:
        child: The expression.
        type: The DuckDB type to convert to.
        attempt: Whether a value that cannot be converted becomes NULL, as with TRY_CAST.

    Examples:
        >>> Cast(Column("price"), "DECIMAL(12,2)", attempt=True).type
        'DECIMAL(12,2)'
    """

    child: "Expr"
    type: str
    attempt: bool = False


@dataclass(frozen=True)
class Function:
    """Call a function of DuckDB.

    Attributes:
        name: The name that DuckDB gives the function.
        arguments: The arguments, in order.
        operator: Whether the name is written between two arguments, or before one.

    Examples:
        >>> Function("+", (Column("price"), Column("tax")), operator=True).name
        '+'
    """

    name: str
    arguments: tuple["Expr", ...]
    operator: bool = False


# Any node of a predicate.
Expr = (
    Column
    | Constant
    | Comparison
    | And
    | Or
    | Not
    | IsNull
    | In
    | Between
    | Coalesce
    | Case
    | Cast
    | Function
)


_CHILDREN: dict[type[Any], Callable[[Any], Iterable[Expr]]] = {
    Column: lambda node: (),
    Constant: lambda node: (),
    Comparison: lambda node: (node.left, node.right),
    And: lambda node: node.children,
    Or: lambda node: node.children,
    Not: lambda node: (node.child,),
    IsNull: lambda node: (node.child,),
    In: lambda node: (node.child, *node.items),
    Between: lambda node: (node.child, node.lower, node.upper),
    Coalesce: lambda node: node.children,
    Case: lambda node: (*chain.from_iterable(node.whens), node.otherwise),
    Cast: lambda node: (node.child,),
    Function: lambda node: node.arguments,
}


def children_of(node: Expr) -> Iterable[Expr]:
    """Return the expressions directly beneath a node, in the order in which SQL writes them.

    Args:
        node: Any node of a predicate.

    Returns:
        The children; none for a column or a constant.

    Raises:
        KeyError: The node is of no class of this module.

    Examples:
        >>> [child.name for child in children_of(Comparison("=", Column("a"), Column("b")))]
        ['a', 'b']
    """
    return _CHILDREN[type(node)](node)


def walk(node: Expr) -> Iterator[Expr]:
    """Yield a node and every expression beneath it, however deep the tree is.

    Args:
        node: The root of the tree.

    Returns:
        An iterator over the nodes, the root first.

    Raises:
        KeyError: A node is of no class of this module.

    Examples:
        >>> sum(isinstance(part, Column) for part in walk(Not(IsNull(Column("a")))))
        1
    """
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(children_of(current))


def columns_of(node: Expr) -> frozenset[str]:
    """Return the names of all columns that a predicate reads.

    Args:
        node: The root of the tree.

    Returns:
        Each name once, spelled as in the predicate.

    Raises:
        KeyError: A node is of no class of this module.

    Examples:
        >>> columns_of(IsNull(Column("price")))
        frozenset({'price'})
    """
    return frozenset(part.name for part in walk(node) if isinstance(part, Column))
