"""DoAction: one module per family of actions; importing them registers them."""

from jetbridge.service.do_action import alter, ddl, functions, listing, scan
from jetbridge.service.do_action.registry import DoAction, OwnAction, Services, answers_once

__all__ = [
    "DoAction",
    "OwnAction",
    "Services",
    "alter",
    "answers_once",
    "ddl",
    "functions",
    "listing",
    "scan",
]
