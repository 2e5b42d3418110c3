"""A compiled expression: DuckDB's SQL with the T-SQL type that its values have."""

from dataclasses import dataclass, replace

from standins.tds.engine.types import INT
from standins.tds.values import Column, SqlType


@dataclass(frozen=True)
class Expr:
    """`constant`: no row is needed to know its value. `null`: the NULL literal.

    `untyped` names a parameter whose type is not declared, and asked for.
    """

    sql: str
    type: SqlType
    nullable: bool = True
    name: str = ""
    identity: bool = False
    collation: str = ""
    constant: bool = False
    null: bool = False
    untyped: str = ""
    literal: str | None = None  # the text of a string that is known

    def named(self, name: str) -> "Expr":
        return replace(self, name=name)

    def column(self) -> Column:
        return Column(self.name, self.type, self.nullable, self.identity, self.collation)


NULL = Expr("NULL", INT, constant=True, null=True)
