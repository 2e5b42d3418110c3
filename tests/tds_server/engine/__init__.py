"""The engine of the stand-in: T-SQL over DuckDB, with SQL Server's types, locks and errors."""

from tests.tds_server.engine.engine import DuckEngine
from tests.tds_server.engine.names import Login

__all__ = ["DuckEngine", "Login"]
