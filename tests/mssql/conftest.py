"""What tests of SQL Server share."""

import pytest

from jetbridge.backends.mssql.connection.core import CoreConnection


@pytest.fixture
def core_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is sent by the driver's core from now on, but for bulk copy."""
    said: list[str] = []
    real = CoreConnection.run

    def run(connection: CoreConnection, sql: str) -> list[tuple[object, ...]]:
        said.append(sql)
        return real(connection, sql)

    monkeypatch.setattr(CoreConnection, "run", run)
    return said
