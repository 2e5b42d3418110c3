"""Upper and lower case as DuckDB has them: letter by letter, one for one.

Spark changes the case of whole words by newer tables of Unicode, in which a letter may become two.
The test compares every code point.
"""

# Letters of Unicode 16, whose case DuckDB 1.5 does not know.
_NEW_UPPER = "\u019b\u0264\u1c8a\ua7cd\ua7db" + "".join(map(chr, range(0x10D70, 0x10D86)))
_NEW_LOWER = "\u1c89\ua7cb\ua7cc\ua7da\ua7dc" + "".join(map(chr, range(0x10D50, 0x10D66)))
_GREEK = [*range(0x1F80, 0x1F88), *range(0x1F90, 0x1F98), *range(0x1FA0, 0x1FA8)]
_GREEK_PAIRS = [(each, each + 8) for each in _GREEK]
_PAIRS = [
    *((0xDF, 0x1E9E), (0x1FB3, 0x1FBC), (0x1FC3, 0x1FCC), (0x1FF3, 0x1FFC)),
    *_GREEK_PAIRS,
]
_FROM = "".join(chr(small) for small, _ in _PAIRS)
_TO = "".join(chr(large) for _, large in _PAIRS)
_LETTERS = "array_join(transform(split({0}, ''), letter -> {each}), '')"


def _by_letter(function: str, each: str) -> str:
    """Text in ASCII, which is most, is left to Spark's function."""
    plain = "length({0}) = octet_length({0})"
    return f"CASE WHEN {plain} THEN {function}({{0}}) ELSE {_LETTERS.replace('{each}', each)} END"


UPPER = _by_letter(
    "upper",
    f"CASE WHEN instr('{_NEW_UPPER}', letter) > 0 THEN letter "
    f"WHEN length(upper(letter)) = 1 THEN upper(letter) "
    f"ELSE translate(letter, '{_FROM}', '{_TO}') END",
)
LOWER = _by_letter(
    "lower",
    f"CASE WHEN instr('{_NEW_LOWER}', letter) > 0 THEN letter "
    "WHEN letter = '\u0130' THEN 'i' ELSE lower(letter) END",
)
