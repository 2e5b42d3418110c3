"""Comparing by T-SQL's rules: types made equal, strings by their collation."""

import re

from standins.tds.engine.errors import error, quoted
from standins.tds.engine.expressions.convert import cast_to
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.types import family, unified

EQUALITY = {"=", "<>", "IS NOT DISTINCT FROM", "IS DISTINCT FROM"}
LONG = {"text", "ntext", "image", "xml"}


def compared(sign: str, left: Expr, right: Expr) -> str:
    if left.null or right.null:
        if "DISTINCT" in sign:
            return f"({left.sql} {sign} {right.sql})"
        return "NULL::BOOLEAN"
    target = unified(left.type, right.type)
    if target.name in LONG:
        raise error(306)
    collation = collation_of(left, right)
    one, two = cast_to(left, target), cast_to(right, target)
    if family(target) == "string":
        fold = equal_key if sign in EQUALITY else sort_text
        return f"({fold(one, collation)} {sign} {fold(two, collation)})"
    if family(target) == "guid" and sign not in EQUALITY:
        return f"(_guid({one}) {sign} _guid({two}))"
    return f"({one} {sign} {two})"


def collation_of(left: Expr, right: Expr) -> str:
    if left.collation and right.collation and left.collation.lower() != right.collation.lower():
        raise error(468, left.collation, right.collation, "equal to")
    return left.collation or right.collation


def equal_key(sql: str, collation: str) -> str:
    """Two strings are equal in SQL Server where these are."""
    name = collation.upper()
    if "BIN" in name or "_CS" in name:
        return f"rtrim({sql}, ' ')"
    return f"_fold({sql})"


def sort_text(sql: str, collation: str) -> str:
    """Their order, too. With the default collation it is that of letters, not of code points."""
    if "BIN" in collation.upper():
        return f"rtrim({sql}, ' ')"
    if "_CS" in collation.upper():
        return f"(_sort({sql}) || rtrim({sql}, ' '))"
    return f"_sort({sql})"


def sort_key(expr: Expr) -> str:
    """What to order by."""
    if expr.type.name in LONG:
        raise error(306)
    if family(expr.type) == "string":
        return sort_text(expr.sql, expr.collation)
    if family(expr.type) == "guid":
        return f"_guid({expr.sql})"
    return expr.sql


def group_key(expr: Expr) -> str:
    """What is the same for equal values."""
    if family(expr.type) == "string":
        return equal_key(expr.sql, expr.collation)
    return expr.sql


def pattern_matched(value: Expr, pattern: str, escape: str) -> str:
    """LIKE; trailing spaces count there, unlike in comparisons of another kind."""
    name = value.collation.upper()
    options = "s" if "BIN" in name or "_CS" in name else "si"
    text = value.sql if family(value.type) == "string" else f"CAST({value.sql} AS VARCHAR)"
    if value.type.name in ("char", "nchar"):
        text = f"rtrim({text}, ' ')"
        pattern = pattern.rstrip(" ")
    return f"regexp_full_match({text}, {quoted(as_regex(pattern, escape))}, '{options}')"


def as_regex(pattern: str, escape: str = "") -> str:
    found, place = [], 0
    while place < len(pattern):
        sign = pattern[place]
        place += 1
        if escape and sign == escape and place < len(pattern):
            found.append(re.escape(pattern[place]))
            place += 1
        elif sign in "%_":
            found.append({"%": ".*", "_": "."}[sign])
        elif sign == "[" and "]" in pattern[place:]:
            end = pattern.index("]", place)
            found.append(_set(pattern[place:end]))
            place = end + 1
        else:
            found.append(re.escape(sign))
    return "".join(found)


def _set(inside: str) -> str:
    sign = "^" if inside.startswith("^") else ""
    kept = inside.removeprefix("^")
    return "[" + sign + re.sub(r"([\\\[\]^&~])", r"\\\1", kept) + "]"
