"""The Flight service that DuckDB's Airport extension talks to."""

from jetbridge.config.limits import Limits, Token
from jetbridge.service.server import Server

__all__ = ["Limits", "Server", "Token"]
