"""Casts. Both engines raise for a number that the type does not hold."""

from jetbridge.pipeline.translate.entries.doubles import as_double
from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.kinds import (
    BOOLEAN,
    DATE,
    DECIMAL,
    EXACT,
    FLOATS,
    INTEGERS,
    MOMENT,
    TIMESTAMP,
    WHOLE,
)

_WHOLE_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")

ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(f"CAST({{0}} AS {name})", "CAST({0} AS {type})", (WHOLE | BOOLEAN,))
        for name in _WHOLE_TYPES
    ),
    # DuckDB rounds a decimal half away from zero, a double half to even; Spark cuts both.
    *(
        Entry(f"CAST({{0}} AS {name})", "CAST(round({0}, 0) AS {type})", (DECIMAL,))
        for name in _WHOLE_TYPES
    ),
    *(
        Entry(f"CAST({{0}} AS {name})", "CAST(rint({0}) AS {type})", (FLOATS,))
        for name in _WHOLE_TYPES
    ),
    Entry("CAST({0} AS DOUBLE)", as_double("{0}"), (EXACT,)),
    Entry("CAST({0} AS DOUBLE)", "CAST({0} AS DOUBLE)", (FLOATS,)),
    Entry("CAST({0} AS DECIMAL)", "CAST({0} AS {type})", (EXACT,)),
    Entry("CAST({0} AS VARCHAR)", "CAST({0} AS STRING)", (INTEGERS | BOOLEAN | DATE,)),
    Entry("CAST({0} AS DATE)", "CAST({0} AS DATE)", (DATE | TIMESTAMP | MOMENT,)),
    Entry("CAST({0} AS TIMESTAMP)", "CAST({0} AS TIMESTAMP_NTZ)", (DATE | TIMESTAMP | MOMENT,)),
)
