"""Cuts queries into stages, each a piece of DuckDB SQL that tasks run side by side."""

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.stages import Exchange, Scan, Stage, StagedQuery, StageInput
from jetbridge.distributed.staging import QueryStager
from jetbridge.distributed.types import NotDistributed

__all__ = [
    "CutOptions",
    "Exchange",
    "NotDistributed",
    "QueryStager",
    "Scan",
    "Stage",
    "StageInput",
    "StagedQuery",
]
