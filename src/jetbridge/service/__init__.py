"""Implements the Flight service that DuckDB's Airport extension calls."""

from jetbridge.config.model import Limits, Token
from jetbridge.service.server import Server

__all__ = ["Limits", "Server", "Token"]
