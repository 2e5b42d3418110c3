"""DoAction: one module per family of actions; importing them registers them."""

from jetbridge.service.do_action import alter, ddl, functions, listing, scan
from jetbridge.service.do_action.registry import DoAction, OwnAction, Services

__all__ = ["DoAction", "OwnAction", "Services", "alter", "ddl", "functions", "listing", "scan"]
