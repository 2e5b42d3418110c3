"""Values as SQL Server writes them in strings."""

from collections.abc import Callable

from standins.tds.engine.errors import unknown
from standins.tds.engine.expressions.expr import Expr
from standins.tds.engine.types import family, scale

MICROSECONDS = 6


def text_of(expr: Expr, style: int | None = None) -> str:
    """The value as SQL Server writes it in a string."""
    maker = TEXTS.get(family(expr.type))
    if maker is None:
        raise unknown(f"a string from {expr.type.name}")
    return maker(expr, style)


def _plain_text(expr: Expr, style: int | None) -> str:
    return f"CAST({expr.sql} AS VARCHAR)"


def _float_text(expr: Expr, style: int | None) -> str:
    return f"regexp_replace(CAST({expr.sql} AS VARCHAR), '[.]0$', '')"


def _moment_text(expr: Expr, style: int | None) -> str:
    name, digits = expr.type.name, scale(expr.type)
    moment = {
        "date": f"CAST({expr.sql} AS TIMESTAMP)",
        "time": f"(DATE '1900-01-01' + {expr.sql})",
        "datetimeoffset": f"({expr.sql} AT TIME ZONE 'UTC')",
    }.get(name, expr.sql)
    known = STYLES.get(style)
    if known is not None:
        return known(moment, digits)
    if style is not None:
        raise unknown(f"style {style} of CONVERT")
    if name in ("datetime", "smalldatetime"):
        return (
            f"(strftime({moment}, '%b ') || lpad(CAST(day({moment}) AS VARCHAR), 2, ' ')"
            f" || strftime({moment}, ' %Y ')"
            f" || lpad(CAST((hour({moment}) + 11) % 12 + 1 AS VARCHAR), 2, ' ')"
            f" || strftime({moment}, ':%M%p'))"
        )
    if name == "date":
        return f"strftime({moment}, '%Y-%m-%d')"
    form = "%H:%M:%S" if name == "time" else "%Y-%m-%d %H:%M:%S"
    ending = " || ' +00:00'" if name == "datetimeoffset" else ""
    return f"({_with_digits(moment, form, digits)}{ending})"


def _with_digits(moment: str, form: str, digits: int) -> str:
    if digits == 0:
        return f"strftime({moment}, '{form}')"
    whole = f"strftime({moment}, '{form}.%f')"
    if digits > MICROSECONDS:
        return f"({whole} || '0')"
    return f"left({whole}, -{MICROSECONDS - digits})" if digits < MICROSECONDS else whole


def _styled(form: str, fraction: bool = False) -> Callable[[str, int], str]:
    if fraction:
        return lambda moment, digits: _with_digits(moment, form, digits)
    return lambda moment, digits: f"strftime({moment}, '{form}')"


STYLES: dict[int | None, Callable[[str, int], str]] = {
    20: _styled("%Y-%m-%d %H:%M:%S"),
    120: _styled("%Y-%m-%d %H:%M:%S"),
    21: _styled("%Y-%m-%d %H:%M:%S", True),
    25: _styled("%Y-%m-%d %H:%M:%S", True),
    121: _styled("%Y-%m-%d %H:%M:%S", True),
    126: _styled("%Y-%m-%dT%H:%M:%S", True),
    127: _styled("%Y-%m-%dT%H:%M:%S", True),
    23: _styled("%Y-%m-%d"),
    112: _styled("%Y%m%d"),
    101: _styled("%m/%d/%Y"),
    103: _styled("%d/%m/%Y"),
    104: _styled("%d.%m.%Y"),
    108: _styled("%H:%M:%S"),
    114: _styled("%H:%M:%S", True),
}
TEXTS: dict[str, Callable[[Expr, int | None], str]] = {
    "string": lambda expr, style: expr.sql,
    "int": _plain_text,
    "decimal": _plain_text,
    "bit": lambda expr, style: f"CAST(CAST({expr.sql} AS INTEGER) AS VARCHAR)",
    "float": _float_text,
    "guid": lambda expr, style: f"upper(CAST({expr.sql} AS VARCHAR))",
    "date": _moment_text,
    "time": _moment_text,
    "datetime": _moment_text,
    "offset": _moment_text,
    "variant": _plain_text,
}
