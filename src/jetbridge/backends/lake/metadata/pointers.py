"""Which tables there are, and which metadata file each has now: asked of the Iceberg catalog.

A catalog in a database answers for all tables with one query, so that is one moment of the whole
lake. Any other catalog is asked table by table.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog.sql import IcebergNamespaceProperties, IcebergTables, SqlCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
)
from sqlalchemy import Connection, bindparam, select
from sqlalchemy.exc import SQLAlchemyError

from jetbridge.catalog.identifiers import fold
from jetbridge.errors import AlreadyExists, FailedPrecondition, NotFound, Unavailable
from jetbridge.runtime.cancellation import current

Key = tuple[str, str]

# How tables are called that hold rows for a moment, until another one has them; see `spooling`.
SPOOL = "jetbridge_spool_"

# A catalog that is asked table by table answers several at once.
_ASKING = ThreadPoolExecutor(8, "jetbridge-catalog")


@dataclass(frozen=True)
class MetadataPointer:
    """A table and its current metadata file; a nested namespace is `a.b`."""

    namespace: str
    name: str
    location: str

    def key(self) -> Key:
        return fold(self.namespace), fold(self.name)


@dataclass(frozen=True)
class LakeListing:
    """One moment of the lake: namespaces by their folded names, tables by theirs.

    `spools` are namespaces and names of tables that are nobody's business. `properties` are those
    of namespaces, by their folded names; None where the catalog tells them one by one.
    """

    namespaces: Mapping[str, str]
    tables: Mapping[Key, MetadataPointer]
    spools: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, Mapping[str, str]] | None = None

    def properties_of(self, namespace: str) -> Mapping[str, str] | None:
        """None if the listing does not tell."""
        return None if self.properties is None else self.properties.get(fold(namespace), {})


class Pointers(Protocol):
    def listing(self) -> LakeListing: ...

    def known_listing(self) -> LakeListing:
        """Return a listing that is good enough for a version number.

        Of a table that was seen before, its pointer may be older than those of `listing`.
        """

    def find(self, namespace: str, name: str) -> MetadataPointer | None: ...

    def find_namespace(self, name: str) -> str | None: ...


class SqlPointers:
    """Those of a catalog in a database (SQLite, PostgreSQL), in one transaction."""

    def __init__(self, catalog: SqlCatalog) -> None:
        self._catalog = catalog
        self._tables = select(
            IcebergTables.table_namespace,
            IcebergTables.table_name,
            IcebergTables.metadata_location,
        ).where(IcebergTables.catalog_name == catalog.name)
        self._table = self._tables.where(
            IcebergTables.table_namespace == bindparam("namespace"),
            IcebergTables.table_name == bindparam("name"),
        )
        self._namespaces = select(
            IcebergNamespaceProperties.namespace,
            IcebergNamespaceProperties.property_key,
            IcebergNamespaceProperties.property_value,
        ).where(IcebergNamespaceProperties.catalog_name == catalog.name)
        self._namespace = self._namespaces.where(
            IcebergNamespaceProperties.namespace == bindparam("namespace")
        )

        self._changes = _Changes(catalog)
        self._last = LakeListing({}, {})
        # What was listed last, and the state of the database that it is true for.
        self._known: tuple[tuple[int, int], LakeListing] | None = None

    def listing(self) -> LakeListing:
        known = self._unchanged()
        if known is not None:
            return known
        number = self._changes.number()
        found = self._listed()
        self._known = None if number is None else (number, found)
        return found

    def known_listing(self) -> LakeListing:
        return self.listing()

    def _unchanged(self) -> LakeListing | None:
        known = self._known
        return known[1] if known is not None and known[0] == self._changes.number() else None

    def _listed(self) -> LakeListing:
        with self._connection() as connection:
            rows = connection.execute(self._tables).all()
            described = connection.execute(self._namespaces).all()
        properties: dict[str, dict[str, str]] = {}
        for space, key, value in described:
            properties.setdefault(fold(space), {})[key] = value
        spaces = {str(space) for space, _, _ in described}
        found = [
            MetadataPointer(space, name, location) for space, name, location in rows if location
        ]
        spaces |= {pointer.namespace for pointer in found}
        self._last = LakeListing(
            {fold(name): name for name in spaces},
            _sharing([each for each in found if not each.name.startswith(SPOOL)], self._last),
            tuple((each.namespace, each.name) for each in found if each.name.startswith(SPOOL)),
            properties,
        )
        return self._last

    def find(self, namespace: str, name: str) -> MetadataPointer | None:
        """Most often by the spelling that the table has, which needs no look at all the others."""
        known = self._unchanged()
        if known is not None:
            return known.tables.get((fold(namespace), fold(name)))
        with self._connection() as connection:
            row = connection.execute(self._table, {"namespace": namespace, "name": name}).first()
        if row is not None and row[2]:
            return MetadataPointer(row[0], row[1], row[2])
        return self.listing().tables.get((fold(namespace), fold(name)))

    def find_namespace(self, name: str) -> str | None:
        known = self._unchanged()
        if known is not None:
            return known.namespaces.get(fold(name))
        with self._connection() as connection:
            row = connection.execute(self._namespace, {"namespace": name}).first()
        return name if row is not None else self.listing().namespaces.get(fold(name))

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with answering(), self._catalog.engine.connect() as connection:
            yield connection


def _sharing(
    pointers: Sequence[MetadataPointer], before: LakeListing
) -> dict[Key, MetadataPointer]:
    """By key; with the objects of the listing before, for each open transaction holds a listing."""
    known = {key: (key, pointer) for key, pointer in before.tables.items()}
    tables = {}
    for pointer in pointers:
        new = pointer.key()
        key, old = known.get(new, (new, pointer))
        tables[key] = old if old == pointer else pointer
    return tables


class _Changes:
    """Numbers that differ once anybody has written to an SQLite database; elsewhere None."""

    def __init__(self, catalog: SqlCatalog) -> None:
        url = catalog.engine.url
        self._file = url.database if url.get_backend_name() == "sqlite" else None
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def number(self) -> tuple[int, int] | None:
        """SQLite tells a connection that is kept open about the writes of others."""
        if not self._file:
            return None
        with self._lock:
            try:
                inode = os.stat(self._file).st_ino
                if self._connection is None or inode != self._inode:
                    self._connection = sqlite3.connect(
                        self._file, timeout=0, check_same_thread=False
                    )
                    self._inode = inode
                (number,) = self._connection.execute("PRAGMA data_version").fetchone()
                return inode, int(number)
            except (sqlite3.Error, OSError):  # locked; whoever asks next waits for it
                return None


class PerTablePointers:
    """Those of any other catalog; each table is asked for when it is wanted."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog
        # What each table was when it was last asked for.
        self._seen: dict[tuple[str, ...], MetadataPointer] = {}

    def listing(self) -> LakeListing:
        return self._listed(self._load)

    def known_listing(self) -> LakeListing:
        """Names are asked for, and the tables that are new among them.

        Each statement asks for the tables it uses, so a change of another one is seen when a
        statement uses it.
        """
        return self._listed(lambda name: self._seen.get(name) or self._load(name))

    def _listed(self, load: Callable[[tuple[str, ...]], MetadataPointer | None]) -> LakeListing:
        spaces = self._namespaces()
        tables = [name for names in _ASKING.map(self._tables, spaces) for name in names]
        spools = [name for name in tables if name[-1].startswith(SPOOL)]
        found = list(_ASKING.map(load, [name for name in tables if name not in spools]))
        names = [".".join(space) for space in spaces]
        return LakeListing(
            {fold(name): name for name in names},
            {pointer.key(): pointer for pointer in found if pointer is not None},
            tuple((".".join(name[:-1]), name[-1]) for name in spools),
        )

    def _tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        with answering():
            try:
                return [tuple(name) for name in self._catalog.list_tables(namespace)]
            except NoSuchNamespaceError:
                return []  # dropped meanwhile

    def _namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """A catalog answers with one level at a time, or with all of them."""
        with answering():
            try:
                found = [tuple(each) for each in self._catalog.list_namespaces(parent)]
            except NoSuchNamespaceError:
                return []  # dropped meanwhile
        below = [each for each in found if len(each) > len(parent)]
        inner = [deeper for each in below for deeper in self._namespaces(each)]
        return sorted({*below, *inner})

    def find(self, namespace: str, name: str) -> MetadataPointer | None:
        exact = self._load((*namespace.split("."), name))
        if exact is not None:
            return exact
        return self.listing().tables.get((fold(namespace), fold(name)))

    def find_namespace(self, name: str) -> str | None:
        names = (".".join(space) for space in self._namespaces())
        return next((each for each in names if fold(each) == fold(name)), None)

    def _load(self, identifier: tuple[str, ...]) -> MetadataPointer | None:
        with answering():
            try:
                table = self._catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                self._seen.pop(identifier, None)
                return None
        pointer = MetadataPointer(
            ".".join(identifier[:-1]), identifier[-1], table.metadata_location
        )
        self._seen[identifier] = pointer
        return pointer


def pointers_of(catalog: IcebergCatalog) -> Pointers:
    return SqlPointers(catalog) if isinstance(catalog, SqlCatalog) else PerTablePointers(catalog)


class Namespaces:
    """Schemas: their names and properties."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog

    def properties(self, name: str) -> Mapping[str, str]:
        with answering():
            try:
                return self._catalog.load_namespace_properties(name)
            except NoSuchNamespaceError:
                raise NotFound("schema", name) from None

    def all_properties(self, listing: LakeListing) -> Mapping[str, Mapping[str, str]]:
        """Return those of all namespaces of a listing, by their folded names."""
        if listing.properties is not None:
            return listing.properties
        return dict(
            zip(
                listing.namespaces,
                _ASKING.map(self._properties_or_none, listing.namespaces.values()),
                strict=True,
            )
        )

    def _properties_or_none(self, name: str) -> Mapping[str, str]:
        """A namespace may be dropped meanwhile."""
        try:
            return self.properties(name)
        except NotFound:
            return {}

    def create(self, name: str, properties: Mapping[str, str]) -> None:
        with answering():
            try:
                with current().publishing():
                    self._catalog.create_namespace(name, dict(properties))
            except NamespaceAlreadyExistsError:
                raise AlreadyExists("schema", name) from None

    def drop(self, name: str) -> None:
        with answering():
            try:
                with current().publishing():
                    self._catalog.drop_namespace(name)
            except NoSuchNamespaceError:
                raise NotFound("schema", name) from None
            except NamespaceNotEmptyError:
                raise FailedPrecondition(f"schema {name!r} has tables; drop them first") from None


@contextmanager
def answering() -> Iterator[None]:
    """What a catalog raises when it cannot answer becomes Unavailable."""
    try:
        yield
    except (SQLAlchemyError, RESTError, OSError) as error:
        cause = str(error.__cause__ or error).split("\n", 1)[0][:200]
        raise Unavailable(f"the lake's catalog does not answer: {cause}; try again") from error
