"""DuckDB SQL into Spark SQL that answers the same."""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.pipeline.translate.bind import Binder
from jetbridge.pipeline.translate.bound import Bound
from jetbridge.pipeline.translate.match import Matcher, matcher
from jetbridge.pipeline.translate.reading import misread
from jetbridge.pipeline.translate.render import Renderer
from jetbridge.pipeline.translate.types import NULL
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.values import Question
from jetbridge.pipeline.translate.work import Work


def translate(question: Question, desk: StatementConnection, table: Matcher | None = None) -> str:
    """Spark SQL whose columns have the planned names, and exactly `spark_type` of their types.

    `desk` has the tables of the question declared. Raises Untranslatable.
    """
    work = Work(question, desk, table or matcher())
    try:
        tree = _parsed(question.query)
        doubt = misread(desk, question.query, tree)  # said last: other refusals say more
        bound = Binder(work)(tree, None)
        if len(bound.fields) != len(question.names):
            raise Untranslatable("other columns than planned")
        _settle(bound)
        text = Renderer(work).whole(bound, question.names)
        _check(question, bound)
        if doubt is not None:
            raise Untranslatable(doubt)
    except RecursionError:
        raise Untranslatable("a query so deep") from None
    return text


def _parsed(query: str) -> exp.Expr:
    try:
        trees = sqlglot.parse(query, read="duckdb")
    except SqlglotError:
        raise Untranslatable("a query that only DuckDB can read") from None
    if len(trees) != 1 or trees[0] is None:
        raise Untranslatable("more than one statement")
    return trees[0]


def _settle(bound: Bound) -> None:
    """A column of nothing but NULL is planned as this."""
    for each in bound.fields:
        if each.type == NULL:
            each.type = "INTEGER"


def _check(question: Question, bound: Bound) -> None:
    """What we found must be what DuckDB planned."""
    if [each.type for each in bound.fields] != list(question.types):
        raise Untranslatable(f"columns that are planned as {', '.join(question.types)}")
