"""Doubles in Spark that are bit for bit DuckDB's."""

from jetbridge.pipeline.translate.entries.kinds import digits, is_exact

# So many digits a double always holds exactly.
DOUBLE_DIGITS = 15
# A float that is not merely a cast: Spark drops CAST(... AS FLOAT) below a CAST(... AS DOUBLE).
FLOAT_OF = "(CAST({} AS FLOAT) * CAST(1 AS FLOAT))"


def plain(types: tuple[str, ...], result: str) -> bool:
    """Whether all exact arguments become the same double in both engines by a mere cast."""
    return result == "DOUBLE" and all(_is_plain(each) for each in types)


def split(types: tuple[str, ...], result: str) -> bool:
    """Whether `split_double` is right for all exact arguments."""
    exact = (each for each in types if is_exact(each))
    return result == "DOUBLE" and all(digits(each)[1] <= DOUBLE_DIGITS for each in exact)


def _is_plain(duckdb_type: str) -> bool:
    if not duckdb_type.startswith("DECIMAL"):
        return True
    return digits(duckdb_type)[0] <= DOUBLE_DIGITS


def as_double(argument: str) -> str:
    """An integer, a float or a decimal of few digits."""
    return f"CAST({argument} AS DOUBLE)"


def split_double(argument: str) -> str:
    """A decimal of many digits: DuckDB rounds twice if its digits make more than 2 ** 53."""
    once = as_double(argument)
    whole = f"if({argument} < 0, ceil({argument}), floor({argument}))"
    twice = f"CAST({whole} AS DOUBLE) + CAST({argument} % 1 AS DOUBLE)"
    digits_ = f"CAST(translate(CAST({argument} AS STRING), '-.', '') AS DECIMAL(38,0))"
    return (
        f"(CASE WHEN {once} = {twice} OR {digits_} <= 9007199254740992 THEN {once} "
        f"ELSE {twice} END)"
    )


def divided(dividend: str, divisor: str) -> str:
    """IEEE division: Spark raises for a divisor of zero, but its power of -1 is an infinity."""
    return (
        f"CASE WHEN {divisor} = 0 THEN {dividend} * power({divisor}, -1) "
        f"ELSE {dividend} / {divisor} END"
    )
