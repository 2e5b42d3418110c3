"""Cuts queries into stages, each a piece of DuckDB SQL that tasks run side by side."""

from jetbridge.distributed.cut import CutOptions
from jetbridge.distributed.stages import RowExchange, Stage, StagedQuery, StageInput, StageScan
from jetbridge.distributed.staging import QueryStager
from jetbridge.distributed.types import NotDistributed

__all__ = [
    "CutOptions",
    "RowExchange",
    "NotDistributed",
    "QueryStager",
    "StageScan",
    "Stage",
    "StageInput",
    "StagedQuery",
]
