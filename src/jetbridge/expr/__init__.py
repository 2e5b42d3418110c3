"""Predicates that scans push down: immutable nodes and one generic visitor."""

from jetbridge.expr.nodes import (
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
    columns_of,
)

__all__ = [
    "And",
    "Between",
    "Case",
    "Cast",
    "Coalesce",
    "Column",
    "Comparison",
    "Constant",
    "Expr",
    "Function",
    "In",
    "IsNull",
    "Not",
    "Or",
    "columns_of",
]
