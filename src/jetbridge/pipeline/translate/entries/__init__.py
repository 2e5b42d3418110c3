"""The table of verified translations."""

from jetbridge.pipeline.translate.entries.entry import Entry
from jetbridge.pipeline.translate.entries.table import ENTRIES

__all__ = ["ENTRIES", "Entry"]
