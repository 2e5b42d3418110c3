"""Logic, and what chooses among values."""

from collections.abc import Iterator

from jetbridge.pipeline.translate.entries.comparison import common
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    ANY,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    EXACT,
    FLOATS,
    INTEGERS,
    LIST,
    MOMENT,
    STRUCT,
    TEXT,
    TIMESTAMP,
    Kinds,
)

_GROUPS: tuple[Kinds, ...] = (EXACT, FLOATS, BOOLEAN, TEXT, BLOB, DATE, TIMESTAMP, MOMENT)
# DuckDB's greatest of floats makes 0.0 of -0.0.
_ORDERED = tuple(kinds if kinds is not FLOATS else DOUBLE for kinds in _GROUPS)
_NESTED = (LIST, STRUCT)
_PAIR = 2


def _equal(types: tuple[str, ...], result: str) -> bool:
    return len(set(types)) == 1


def _variadic(name: str, groups: tuple[Kinds, ...], most: int = 4) -> Iterator[Entry]:
    """Two arguments of one group of kinds, or up to four of one type."""
    single = tuple(frozenset({kind}) for group in groups for kind in sorted(group))
    for count in range(_PAIR, most + 1):
        marks = [f"{{{at}}}" for at in range(count)]
        casts = ", ".join(f"CAST({mark} AS {{type}})" for mark in marks)
        for kinds in groups if count == _PAIR else single:
            fits = _equal if count > _PAIR or kinds in _NESTED else None
            pattern = f"{name}({', '.join(marks)})"
            yield Entry(
                pattern,
                f"{name}({casts})",
                (kinds,) * count,
                fits=common if kinds is EXACT else fits,
            )


def _nullif() -> tuple[Entry, ...]:
    """DuckDB gives the first argument in its own type."""
    return tuple(
        Entry("nullif({0}, {1})", "nullif({0}, {1})", (kinds, kinds), fits=_equal)
        for kinds in (*_GROUPS, *_NESTED)
    )


ENTRIES: tuple[Entry, ...] = (
    Entry("{0} AND {1}", "{0} AND {1}", (BOOLEAN, BOOLEAN)),
    Entry("{0} OR {1}", "{0} OR {1}", (BOOLEAN, BOOLEAN)),
    Entry("NOT {0}", "NOT {0}", (BOOLEAN,)),
    Entry("{0} IS NULL", "{0} IS NULL", (ANY,)),
    Entry("{0} IS NOT NULL", "{0} IS NOT NULL", (ANY,)),
    Entry("{0} IS TRUE", "{0} IS TRUE", (BOOLEAN,)),
    Entry("{0} IS FALSE", "{0} IS FALSE", (BOOLEAN,)),
    *_variadic("coalesce", (*_GROUPS, *_NESTED)),
    *(
        Entry(
            "ifnull({0}, {1})", "coalesce(CAST({0} AS {type}), CAST({1} AS {type}))", (k, k), fits=f
        )
        for k, f in ((EXACT, common), (FLOATS, None), (TEXT, None), (DATE, None), (BOOLEAN, None))
    ),
    *_nullif(),
    Entry("nullif({0}, {1})", "CASE WHEN {0} = {1} THEN NULL ELSE {0} END", (INTEGERS, INTEGERS)),
    *_variadic("greatest", _ORDERED),
    *_variadic("least", _ORDERED),
)
