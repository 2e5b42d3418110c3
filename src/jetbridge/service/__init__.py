"""The Flight service that DuckDB's Airport extension talks to."""

from jetbridge.service.server import Server
from jetbridge.service.settings import Limits, Token

__all__ = ["Limits", "Server", "Token"]
