"""What reading and writing T-SQL's conditions have in common."""

from collections.abc import Mapping

from sqlglot import exp

OPERATORS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def plain(node: exp.Expr) -> exp.Expr:
    """Without its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


class Conditions:
    """AND, OR and NOT, whatever the conditions in them are."""

    def condition(self, node: exp.Expr) -> str:
        raise NotImplementedError

    def is_null(self, node: exp.Is, words: str = "IS NULL") -> str:
        raise NotImplementedError

    def joined(self, node: exp.Expr) -> str:
        word = " AND " if isinstance(node, exp.And) else " OR "
        # Flat: SQL Server keeps a list of IN as a chain of OR, however long.
        return f"({word.join(self.condition(each) for each in node.flatten(unnest=False))})"

    def negated(self, node: exp.Not) -> str:
        inner = plain(node.this)
        if isinstance(inner, exp.Is):
            return self.is_null(inner, "IS NOT NULL")
        return f"(NOT {self.condition(inner)})"
