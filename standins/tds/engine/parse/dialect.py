"""sqlglot's T-SQL, with functions left as they are written: their meaning is ours to give."""

from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from standins.tds.engine.errors import error
from standins.tds.engine.types import KINDS, SYSNAME, made
from standins.tds.values import SqlType

KEPT = ("CAST", "TRY_CAST", "CONVERT", "TRY_CONVERT", "STRING_AGG")
KEYWORDS = {
    "ADD", "ALL", "ALTER", "AND", "AS", "BEGIN", "BETWEEN", "BY", "CASE", "CREATE", "DELETE",
    "DROP", "ELSE", "END", "EXEC", "FROM", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO", "IS",
    "JOIN", "LIKE", "NOT", "NULL", "ON", "OR", "ORDER", "SELECT", "SET", "TABLE", "THEN", "TOP",
    "UNION", "UPDATE", "VALUES", "WHEN", "WHERE", "WITH",
}  # fmt: skip


class Raw(TSQL):
    """`real` and `float` are told apart, which sqlglot's own T-SQL does not."""

    class Tokenizer(TSQL.Tokenizer):
        KEYWORDS = {
            **TSQL.Tokenizer.KEYWORDS,
            "FLOAT": TokenType.DOUBLE,
            "REAL": TokenType.FLOAT,
        }

    class Parser(TSQL.Parser):  # type: ignore[misc, valid-type]
        FUNCTIONS: dict[str, Any] = {}
        NO_PAREN_FUNCTIONS: dict[Any, Any] = {}
        FUNCTION_PARSERS = {
            name: parser for name, parser in TSQL.Parser.FUNCTION_PARSERS.items() if name in KEPT
        }


NAMES = {
    exp.DType.UTINYINT: "tinyint",
    exp.DType.DOUBLE: "float",
    exp.DType.FLOAT: "real",
    exp.DType.UUID: "uniqueidentifier",
    exp.DType.TIMESTAMPTZ: "datetimeoffset",
}


def parse(text: str) -> exp.Expr:
    """A tree of the caller's own: compilers change what they are given."""
    return _parsed(text).copy()


def check_syntax(text: str) -> None:
    _parsed(text)


@lru_cache(maxsize=2000)
def _parsed(text: str) -> exp.Expr:
    try:
        found = Raw().parse(text)
    except (ParseError, TokenError) as failure:
        raise syntax_error(failure) from None
    if len(found) != 1 or found[0] is None:
        raise error(102, text[:20])
    return found[0]


def syntax_error(failure: ParseError | TokenError) -> Exception:
    details = failure.errors[0] if isinstance(failure, ParseError) and failure.errors else {}
    word = (str(details.get("highlight") or "").split() or [""])[0]
    return error(156 if word.upper() in KEYWORDS else 102, word)


def parse_expression(text: str) -> exp.Expr:
    found = parse(f"SELECT {text}")
    if not isinstance(found, exp.Select) or len(found.expressions) != 1 or found.args.get("from_"):
        raise error(102, text[:20])
    node: exp.Expr = found.expressions[0]
    return node


def parse_condition(text: str) -> exp.Expr:
    """A predicate; `SELECT a = 1` would be read as an alias, hence the WHERE."""
    found = parse(f"SELECT 1 WHERE {text}")
    where = found.args.get("where")
    if where is None:
        raise error(102, text[:20])
    node: exp.Expr = where.this
    return node


def parse_from(text: str) -> exp.Select:
    """What stands after FROM, with its WHERE."""
    found = parse(f"SELECT 1 FROM {text}")
    if not isinstance(found, exp.Select):
        raise error(102, text[:20])
    return found


def type_of(node: exp.DataType) -> SqlType:
    """The T-SQL type of a CAST; a string without a length has 30 characters there."""
    if node.this == exp.DType.USERDEFINED:
        if str(node.args.get("kind")).lower() == "sysname":
            return SYSNAME
        raise error(2715, 1, node.args.get("kind"))
    name = NAMES.get(node.this, node.this.value.lower())
    if name not in KINDS:
        raise error(2715, 1, name)
    one, two, *_ = [each.name for each in node.expressions] + [None, None]
    return made(name, one, two, cast=True)
