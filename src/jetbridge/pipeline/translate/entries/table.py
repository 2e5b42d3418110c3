"""All verified translations, area by area."""

from jetbridge.pipeline.translate.entries import (
    aggregates,
    arithmetic,
    casts,
    comparison,
    logic,
    numbers,
)
from jetbridge.pipeline.translate.entries.entry import Entry

AREAS: dict[str, tuple[Entry, ...]] = {
    "Arithmetic": arithmetic.ENTRIES,
    "Comparison": comparison.ENTRIES,
    "Logic": logic.ENTRIES,
    "Numbers": numbers.ENTRIES,
    "Casts": casts.ENTRIES,
    "Aggregates": aggregates.ENTRIES,
}
ENTRIES: tuple[Entry, ...] = tuple(entry for area in AREAS.values() for entry in area)
