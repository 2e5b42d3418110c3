"""Functions of text; its parts are code points in both engines."""

from collections.abc import Iterator
from typing import Any

from jetbridge.dialects.spark import literal
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import BLOB, INTEGERS, TEXT, Kinds
from jetbridge.pipeline.translate.entries.letters import LOWER, UPPER

# What DuckDB's trim takes away: the blanks of Unicode; Spark's takes U+0020 only.
BLANKS = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"
# Lengths and places that DuckDB takes as 64-bit numbers, Spark as 32-bit ones.
_SMALL: Kinds = INTEGERS
_MOST = 1_000_000


def quoted(value: Any) -> str | None:
    return literal(value) if isinstance(value, str) and "\0" not in value else None


def quoted_full(value: Any) -> str | None:
    """Not the empty text."""
    return quoted(value) if value else None


def number(value: Any) -> str | None:
    """A small whole number, which is the same place or length for both."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if whole and -_MOST <= value <= _MOST else None


def positive(value: Any) -> str | None:
    text = number(value)
    return text if text and value > 0 else None


def place_of(value: Any) -> str | None:
    """DuckDB's place 0 is before the text, Spark's is its beginning."""
    return number(value) if value != 0 else None


def natural(value: Any) -> str | None:
    text = number(value)
    return text if text and value >= 0 else None


def separator(value: Any) -> str | None:
    """As a regular expression that matches just this."""
    if not isinstance(value, str) or not value or "\\E" in value or "\0" in value:
        return None
    return literal(f"\\Q{value}\\E")


def _plain() -> tuple[Entry, ...]:
    one, two, three = (TEXT,), (TEXT, TEXT), (TEXT, TEXT, TEXT)
    return (
        *(Entry(f"{name}({{0}})", UPPER, one) for name in ("upper", "ucase")),
        *(Entry(f"{name}({{0}})", LOWER, one) for name in ("lower", "lcase")),
        *(
            Entry(f"{name}({{0}})", "CAST(length({0}) AS BIGINT)", one)
            for name in ("length", "len", "char_length", "character_length")
        ),
        Entry("strlen({0})", "CAST(octet_length({0}) AS BIGINT)", one),
        Entry("octet_length({0})", "CAST(octet_length({0}) AS BIGINT)", (BLOB,)),
        Entry("replace({0}, {1}, {2})", "replace({0}, {1}, {2})", three),
        Entry("{0} || {1}", "{0} || {1}", two),
        *(Entry(f"{n}({{0}}, {{1}})", "startswith({0}, {1})", two) for n in _STARTS),
        *(Entry(f"{n}({{0}}, {{1}})", "endswith({0}, {1})", two) for n in _ENDS),
        Entry("contains({0}, {1})", "contains({0}, {1})", two),
        *(Entry(p, "CAST(instr({0}, {1}) AS BIGINT)", two) for p in _PLACES),
        Entry("md5({0})", "md5(CAST({0} AS BINARY))", one),
        Entry("sha256({0})", "sha2(CAST({0} AS BINARY), 256)", one),
        Entry("sha1({0})", "sha1(CAST({0} AS BINARY))", one),
        *(Entry(f"{n}({{0}})", "hex({0})", (TEXT | BLOB,)) for n in ("hex", "to_hex")),
        Entry("ascii({0})", "ascii({0})", one),
        *(
            Entry(f"{n}({{0}})", "CASE WHEN {0} = '' THEN -1 ELSE ascii({0}) END", one)
            for n in ("unicode", "ord")
        ),
        Entry("translate({0}, {1}, {2})", "translate({0}, {1}, {2})", three),
    )


_STARTS = ("starts_with", "prefix")
_ENDS = ("ends_with", "suffix")
_PLACES = ("position({1} IN {0})", "instr({0}, {1})", "strpos({0}, {1})")


def _trims() -> tuple[Entry, ...]:
    sides = {"trim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}
    blanks = literal(BLANKS)
    return (
        *(
            Entry(f"{n}({{0}})", f"trim({s} {blanks} FROM {{0}})", (TEXT,))
            for n, s in sides.items()
        ),
        *(
            Entry(
                f"{name}({{0}}, {{1}})",
                f"trim({side} {{1}} FROM {{0}})",
                (TEXT, TEXT),
                {1: quoted_full},
                {1: ("a", " b", "xyz\u00e9", "-")},
            )
            for name, side in sides.items()
        ),
    )


def _concats() -> tuple[Entry, ...]:
    """DuckDB's concat leaves NULLs out, Spark's is NULL for one."""
    found = []
    for count in range(1, 5):
        marks = [f"{{{at}}}" for at in range(count)]
        texts = ", ".join(f"coalesce({mark}, '')" for mark in marks)
        found.append(Entry(f"concat({', '.join(marks)})", f"concat({texts})", (TEXT,) * count))
        given = ", ".join(f"{{{at + 1}}}" for at in range(count))
        found.append(
            Entry(
                f"concat_ws({{0}}, {given})",
                f"concat_ws({{0}}, {given})",
                (TEXT,) * (count + 1),
                {0: quoted},
                {0: (",", "", "é ")},
            )
        )
    return tuple(found)


def _parts() -> tuple[Entry, ...]:
    """The places and lengths are constants; those that count from the end are left to DuckDB."""
    place, length = {1: place_of, 2: natural}, {1: (1, 2, -2, -100), 2: (0, 1, 3, 100)}
    count, counts = {1: natural}, {1: (0, 1, 3, 100)}
    return (
        *(
            Entry(
                f"{n}({{0}}, {{1}}, {{2}})", _SUBSTRING, (TEXT, INTEGERS, INTEGERS), place, length
            )
            for n in ("substring", "substr")
        ),
        *(
            Entry(
                f"{n}({{0}}, {{1}})",
                "substring({0}, {1})",
                (TEXT, INTEGERS),
                {1: positive},
                {1: (1, 2, 100)},
            )
            for n in ("substring", "substr")
        ),
        Entry(
            "{0}[{1}:{2}]",
            "substring({0}, {1}, {2} - {1} + 1)",
            (TEXT, INTEGERS, INTEGERS),
            {1: positive, 2: natural},
            {1: (1, 2, 50), 2: (0, 1, 3, 100)},
        ),
        Entry("left({0}, {1})", "left({0}, {1})", (TEXT, INTEGERS), count, counts),
        Entry("right({0}, {1})", "right({0}, {1})", (TEXT, INTEGERS), count, counts),
        Entry("repeat({0}, {1})", "repeat({0}, {1})", (TEXT, INTEGERS), count, {1: (0, 1, 3)}),
    )


def _pads() -> Iterator[Entry]:
    for name in ("lpad", "rpad"):
        call = f"{name}({{0}}, {{1}}, {{2}})"
        constants = {1: natural, 2: quoted_full}
        examples = {1: (0, 2, 7), 2: (" ", "xy", "é")}
        yield Entry(call, call, (TEXT, INTEGERS, TEXT), constants, examples)


_SUBSTRING = "substring({0}, {1}, {2})"


def _splits() -> tuple[Entry, ...]:
    commas = (",", "a", " ", "bc", ".")
    return (
        Entry(
            "split_part({0}, {1}, {2})",
            "split_part({0}, {1}, {2})",
            (TEXT, TEXT, INTEGERS),
            {1: quoted_full, 2: positive},
            {1: commas, 2: (1, 2, 9)},
        ),
        *(
            Entry(
                f"{name}({{0}}, {{1}})",
                "split({0}, {1}, -1)",
                (TEXT, TEXT),
                {1: separator},
                {1: commas},
            )
            for name in ("string_split", "str_split", "split", "string_to_array")
        ),
    )


ENTRIES: tuple[Entry, ...] = (*_plain(), *_trims(), *_concats(), *_parts(), *_pads(), *_splits())
