"""DoAction: one module per family of actions; importing them registers the actions."""

from jetbridge.service.do_action import alter, ddl, metadata
from jetbridge.service.do_action.registry import ActionContext, DoAction, OwnAction, answers_once

__all__ = [
    "ActionContext",
    "DoAction",
    "OwnAction",
    "alter",
    "answers_once",
    "ddl",
    "metadata",
]
