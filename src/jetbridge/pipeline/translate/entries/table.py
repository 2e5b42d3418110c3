"""All verified translations, area by area."""

from jetbridge.pipeline.translate.entries import (
    aggregates,
    arithmetic,
    casts,
    comparison,
    formats,
    lists,
    logic,
    numbers,
    patterns,
    readings,
    text,
    times,
    windows,
)
from jetbridge.pipeline.translate.entries.entry import Entry

AREAS: dict[str, tuple[Entry, ...]] = {
    "Arithmetic": arithmetic.ENTRIES,
    "Comparison": comparison.ENTRIES,
    "Logic": logic.ENTRIES,
    "Numbers": numbers.ENTRIES,
    "Text": text.ENTRIES,
    "Patterns": patterns.ENTRIES,
    "Times": (*times.ENTRIES, *formats.ENTRIES),
    "Lists and structs": lists.ENTRIES,
    "Casts": (*casts.ENTRIES, *readings.ENTRIES),
    "Aggregates": aggregates.ENTRIES,
    "Windows": windows.ENTRIES,
}
ENTRIES: tuple[Entry, ...] = tuple(entry for area in AREAS.values() for entry in area)
