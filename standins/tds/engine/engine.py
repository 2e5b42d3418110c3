"""The engine: databases, logins, sessions; its files are gone when it is closed."""

import itertools
from types import TracebackType
from typing import Self

from standins.tds.engine.errors import error
from standins.tds.engine.session import DuckSession
from standins.tds.engine.storage.names import Login
from standins.tds.engine.storage.transactions import Core

DATABASES = ("master", "tempdb", "model", "msdb")
FIRST_SPID = 51


class DuckEngine:
    """`sa` may do everything; other logins are added with what they may do."""

    def __init__(self, password: str = "secret", databases: tuple[str, ...] = ()) -> None:  # noqa: S107
        self.core = Core()
        self._spids = itertools.count(FIRST_SPID)
        self._logins: dict[str, Login] = {}
        for name in (*DATABASES, *databases):
            self.add_database(name)
        self.add_login(Login("sa", password))

    def add_database(self, name: str) -> None:
        self.core.catalog.add_database(name)

    def add_login(self, login: Login) -> None:
        self._logins[login.name.lower()] = login

    def login(self, user: str, password: str, database: str = "") -> DuckSession:
        found = self._logins.get(user.lower())
        if found is None or found.password != password:
            raise error(18456, user, state=8)
        known = self.core.catalog.databases.get((database or found.database).lower())
        if known is None or not found.may_enter(known.name):
            raise error(4060, database or found.database)
        return DuckSession(self.core, found, known.name, next(self._spids))

    def close(self) -> None:
        self.core.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
