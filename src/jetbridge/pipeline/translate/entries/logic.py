"""Logic, and what chooses among values."""

from jetbridge.pipeline.translate.entries.comparison import common
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    ANY,
    BLOB,
    BOOLEAN,
    DATE,
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
_NESTED = (LIST, STRUCT)


def _equal(types: tuple[str, ...], result: str) -> bool:
    return len(set(types)) == 1


def _variadic(name: str, groups: tuple[Kinds, ...], most: int = 4) -> tuple[Entry, ...]:
    """Up to four arguments of one group of kinds; more than two must have one type."""
    found = []
    for count in range(2, most + 1):
        marks = [f"{{{at}}}" for at in range(count)]
        casts = ", ".join(f"CAST({mark} AS {{type}})" for mark in marks)
        for kinds in groups:
            fits = common if kinds is EXACT and count == 2 else None
            if count > 2 or kinds in _NESTED:
                fits = _equal
            pattern = f"{name}({', '.join(marks)})"
            found.append(Entry(pattern, f"{name}({casts})", (kinds,) * count, fits=fits))
    return tuple(found)


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
        Entry("ifnull({0}, {1})", "coalesce(CAST({0} AS {type}), CAST({1} AS {type}))", (k, k), fits=f)
        for k, f in ((EXACT, common), (FLOATS, None), (TEXT, None), (DATE, None), (BOOLEAN, None))
    ),
    *_nullif(),
    Entry("nullif({0}, {1})", "nullif({0}, CAST({1} AS {type}))", (INTEGERS, INTEGERS)),
    *_variadic("greatest", _GROUPS),
    *_variadic("least", _GROUPS),
)
