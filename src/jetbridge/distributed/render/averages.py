"""The average of integers and decimals from their sum and count, equal to avg() to the last bit.

avg() divides numbers of 80 bits (64 of them are the mantissa) and rounds the quotient to a DOUBLE.
SQL has no such numbers, so the division is done here with integers, and rounded twice as well.
"""

# With a literal of another type, DuckDB would compute with doubles.
_ZERO, _ONE, _TWO, _FULL = (f"CAST('{number}' AS UHUGEINT)" for number in (0, 1, 2, 2**64))
_DROPPED = 2**11
# The quotient of such numbers is never so near to the middle of two doubles that a rounding to 64
# bits before would matter: the distance is at least 2 ** -54 / divisor of the quotient.
_PLAIN_DIVISOR = 2**9
_PLAIN_TOTAL = 2**53


def average_sql(total: str, count: str, scale: int, *, short: bool) -> str:
    """Return avg() of values whose sum, a HUGEINT or a DECIMAL of `scale`, and count are SQL."""
    if scale:
        total = f"CAST(replace(CAST({total} AS VARCHAR), '.', '') AS HUGEINT)"
    divisor = f"{count} * {10**scale}"
    quotient = f"CAST({total} AS DOUBLE) / CAST({divisor} AS DOUBLE)"
    if short:
        return f"CASE WHEN {count} > 0 THEN {quotient} END"
    first = {"t": total, "n": f"CAST({count} AS UHUGEINT) * CAST({10**scale} AS UHUGEINT)"}
    steps = [_NUMBERS, _LENGTHS, _DIVIDEND, _SHIFTED, _QUOTIENT, _ROUNDED]
    plain = f"{divisor} <= {_PLAIN_DIVISOR} AND abs({total}) <= {_PLAIN_TOTAL}"
    cases = f"WHEN {count} = 0 THEN NULL WHEN {plain} THEN {quotient}"
    return f"CASE {cases} ELSE {_with(first, steps)} END"


def _half_even(number: str, power: str, rest: str = "FALSE") -> str:
    """Return number / power, rounded to an integer; `rest` says that the number is a bit larger."""
    half = f"({power} // {_TWO})"
    up = f"({rest} OR ({number} // {power}) % {_TWO} = {_ONE})"
    more = f"{number} % {power} > {half} OR ({number} % {power} = {half} AND {up})"
    return f"({number} // {power} + CASE WHEN {more} THEN {_ONE} ELSE {_ZERO} END)"


def _power(exponent: str) -> str:
    return f"CAST(pow(2, {exponent}) AS UHUGEINT)"


_NUMBERS = {"a": "CAST(abs(v.t) AS UHUGEINT)", "d": "CAST(v.n AS UHUGEINT)", "t": "v.t"}
# Powers of two: each number has one bit more, give or take one.
_LENGTHS = {
    "a": "v.a",
    "d": "v.d",
    "t": "v.t",
    "m": "CAST(floor(log2(CAST(greatest(v.a, 1) AS DOUBLE))) AS INTEGER)",
    "e": "CAST(floor(log2(CAST(v.d AS DOUBLE))) AS INTEGER)",
}
_EXACT = f"(v.m - 63 - CASE WHEN v.a < {_power('v.m')} THEN 1 ELSE 0 END)"
# A sum of more than 64 bits is rounded before it is divided.
_DIVIDEND = {
    "a": f"CASE WHEN v.a < {_FULL} THEN v.a "
    f"ELSE {_half_even('v.a', _power(_EXACT))} * {_power(_EXACT)} END",
    "d": "v.d",
    "t": "v.t",
    "k": "66 - v.m + v.e",
}
_SHIFTED = {
    "a": f"v.a * {_power('greatest(v.k, 0)')}",
    "d": f"v.d * {_power('greatest(-v.k, 0)')}",
    "t": "v.t",
    "k": "v.k",
}
_QUOTIENT = {
    "q": "v.a // v.d",
    "rest": "v.a % v.d <> 0",
    "p": "CASE WHEN v.a // v.d < CAST('36893488147419103232' AS UHUGEINT) THEN 1 "
    "WHEN v.a // v.d < CAST('73786976294838206464' AS UHUGEINT) THEN 2 "
    "WHEN v.a // v.d < CAST('147573952589676412928' AS UHUGEINT) THEN 3 ELSE 4 END",
    "t": "v.t",
    "k": "v.k",
}
_ROUNDED = {
    "q": _half_even("v.q", _power("v.p"), "v.rest"),
    "x": f"CAST({_DROPPED} * pow(2, v.p - v.k) AS DOUBLE)",
    "t": "v.t",
}
_RESULT = (
    f"CAST({_half_even('v.q', f'CAST({_DROPPED} AS UHUGEINT)')} AS DOUBLE) * v.x * "
    "CASE WHEN v.t < 0 THEN -1 ELSE 1 END"
)


def _with(fields: dict[str, str], steps: list[dict[str, str]]) -> str:
    """Return the last step over those before it, each a lambda over a list of one struct."""
    packed = ", ".join(f"{name} := {text}" for name, text in fields.items())
    value = f"[struct_pack({packed})]"
    for step in steps:
        packed = ", ".join(f"{name} := {text}" for name, text in step.items())
        value = f"list_transform({value}, lambda v: struct_pack({packed}))"
    return f"list_transform({value}, lambda v: {_RESULT})[1]"
