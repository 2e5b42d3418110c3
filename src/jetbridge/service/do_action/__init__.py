"""DoAction: one module per family of actions; importing them registers them."""

from jetbridge.service.do_action import alter, ddl, functions, listing, scan
from jetbridge.service.do_action.registry import ActionContext, DoAction, OwnAction, answers_once

__all__ = [
    "DoAction",
    "OwnAction",
    "ActionContext",
    "alter",
    "answers_once",
    "ddl",
    "functions",
    "listing",
    "scan",
]
