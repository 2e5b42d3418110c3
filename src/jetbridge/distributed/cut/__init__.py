"""Where a plan is cut into stages, and how rows are exchanged between them."""

from jetbridge.distributed.cut.operators import CutOptions, CutPlan, cut_plan, one_stage

__all__ = ["CutOptions", "CutPlan", "cut_plan", "one_stage"]
