"""What a name means to a session, and who may use it."""

from dataclasses import dataclass
from typing import Any

from standins.tds.engine.errors import error
from standins.tds.engine.storage import locks
from standins.tds.engine.storage.catalog import DEFAULT_SCHEMA, Database, Table
from standins.tds.engine.storage.transactions import Transaction

EVERYTHING = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "CREATE TABLE", "CREATE VIEW",
     "CREATE SCHEMA", "CREATE DATABASE", "ALTER DATABASE"}
)  # fmt: skip
TEMPORARY = "tempdb"


@dataclass
class Login:
    """Who may log in, to which databases, and what is allowed there.

    It may not use `hidden_schemas`; `databases` None is all of them.
    """

    name: str
    password: str
    database: str = "master"
    rights: frozenset[str] = EVERYTHING
    hidden_schemas: frozenset[str] = frozenset()
    databases: frozenset[str] | None = None

    @property
    def owner(self) -> bool:
        """May do everything, and is called dbo."""
        return self.rights == EVERYTHING and not self.hidden_schemas

    def has(self, right: str) -> bool:
        return self.owner or right in self.rights

    def may_enter(self, database: str) -> bool:
        return self.databases is None or database.lower() in {e.lower() for e in self.databases}


class Names:
    def __init__(self, session: Any) -> None:
        self._session = session
        self._catalog = session.core.catalog

    def database(self, name: str) -> Database:
        found: Database | None = self._catalog.databases.get(name.lower())
        if found is None:
            raise error(911, name)
        return found

    def split(self, parts: tuple[str, ...]) -> tuple[str, str, str]:
        """Database, schema and name; temporary tables are the session's own."""
        if len(parts) > 3:
            raise error(7202, parts[0])
        name = parts[-1]
        if name.startswith("##"):
            return TEMPORARY, DEFAULT_SCHEMA, name
        if name.startswith("#"):
            return TEMPORARY, f"#{self._session.spid}", name
        schema = parts[-2] if len(parts) > 1 and parts[-2] else DEFAULT_SCHEMA
        database = parts[0] if len(parts) == 3 and parts[0] else self._session.database
        return database, schema, name

    def find(self, parts: tuple[str, ...], transaction: Transaction) -> Table | None:
        """None where there is no such table; waits for whoever is changing the name."""
        database, schema, name = self.split(parts)
        if database.lower() not in self._catalog.databases:
            raise error(208, ".".join(parts))
        if schema.lower() in {each.lower() for each in self._session.login.hidden_schemas}:
            return None
        self.lock_name(database, schema, name, transaction, locks.S)
        found: Table | None = self._catalog.find(database, schema, name, transaction.changes)
        if found is not None:
            transaction.lock(("object", found.object_id), locks.SCH_S, short=True)
            found = self._catalog.find(database, schema, name, transaction.changes)
        return found

    def lock_name(
        self, database: str, schema: str, name: str, transaction: Transaction, mode: str = locks.X
    ) -> None:
        resource = ("name", database.lower(), schema.lower(), name.lower())
        transaction.lock(resource, mode, short=mode == locks.S)

    def for_creating(
        self, parts: tuple[str, ...], transaction: Transaction, right: str = "CREATE TABLE"
    ) -> tuple[str, str, str]:
        """Where a new table goes; refused where the name is taken."""
        database, schema, name = self.split(parts)
        found = self._catalog.databases.get(database.lower())
        if found is None:
            raise error(911, database)
        if database != TEMPORARY:
            if right not in self._session.login.rights:
                raise error(262, right, found.name)
            schema = self.schema(found, schema)
        self.lock_name(database, schema, name, transaction)
        if self._catalog.find(found.name, schema, name, transaction.changes) is not None:
            raise error(2714, name)
        return found.name, schema, name

    def schema(self, database: Database, name: str) -> str:
        """As it is spelled; 2760 where there is none or it is not for this login."""
        hidden = {each.lower() for each in self._session.login.hidden_schemas}
        found = database.schema(name)
        if found is None or name.lower() in hidden:
            raise error(2760, name)
        return found

    def allowed(self, right: str, table: Table) -> None:
        login = self._session.login
        if right in login.rights or table.database == TEMPORARY:
            return
        raise error(229, right, table.name, table.database, table.schema)
