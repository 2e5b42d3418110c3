"""Operators and expressions as DuckDB SQL: a stage becomes a list of CTEs and one SELECT."""

from jetbridge.distributed.render.expressions import expression_sql
from jetbridge.distributed.render.stage import RenderedStage, render_stage

__all__ = ["RenderedStage", "expression_sql", "render_stage"]
