"""Answers DoAction. Each module here registers a family of actions when it is imported."""

from jetbridge.service.do_action import ddl, metadata
from jetbridge.service.do_action.registry import ActionContext, DoAction, OwnAction, answers_once

__all__ = [
    "ActionContext",
    "DoAction",
    "OwnAction",
    "answers_once",
    "ddl",
    "metadata",
]
