"""Expressions evaluated by themselves: for variables, PRINT, arguments of procedures."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from standins.tds.engine.execute.selects import fetched, into_variable
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.expressions.scope import Scope
from standins.tds.engine.parse.dialect import parse_expression
from standins.tds.engine.queries.reading import again
from standins.tds.values import SqlType


@dataclass
class Variable:
    type: SqlType
    value: Any = None


def scalar(session: Any, text: str) -> Any:
    """The value of an expression without a table of its own; subqueries may have some."""
    return evaluated(session, text, lambda expr: expr.sql)


def evaluated(session: Any, text: str, made: Callable[[Expr], str]) -> Any:
    return again(lambda: _once(session, text, made))


def _once(session: Any, text: str, made: Callable[[Expr], str]) -> Any:
    with session.statement() as transaction:
        compiler = session.compiler()
        sql = made(compiler.value(parse_expression(text), Scope()))
        ((found,),) = fetched(session, transaction, compiler, f"SELECT {sql}")
        return found


def set_variable(session: Any, name: str, text: str) -> None:
    session.variable(name)
    value = evaluated(session, text, lambda expr: into_variable(session, name, expr))
    session.variables[name.lower()].value = value
