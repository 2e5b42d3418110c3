"""The engine of the stand-in: T-SQL over DuckDB, with SQL Server's types, locks and errors."""

from standins.tds.engine.engine import DuckEngine
from standins.tds.engine.storage.names import Login

__all__ = ["DuckEngine", "Login"]
