"""Asks the Iceberg catalog which tables exist, and for the current metadata file of each.

A catalog in a database answers for all tables with one query, so the answer is one moment of the
whole lake. Any other catalog is asked table by table.
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

# How the names of spool tables begin; see `warehouse/spool_tables`.
SPOOL = "jetbridge_spool_"

# A catalog that is asked table by table answers several calls at once.
_CALLS = ThreadPoolExecutor(8, "jetbridge-catalog")


@dataclass(frozen=True)
class MetadataPointer:
    """Name a table and its current metadata file; a nested namespace is `a.b`."""

    namespace: str
    name: str
    location: str

    def title(self) -> str:
        """Return the name of the table with its schema, for messages."""
        return f"{self.namespace}.{self.name}"

    def key(self) -> Key:
        """Return the folded name, by which a listing has the table."""
        return fold(self.namespace), fold(self.name)


@dataclass(frozen=True)
class LakeListing:
    """List the lake at one moment: namespaces and tables by their folded names.

    `spools` are namespaces and names of spool tables, which no client sees. `properties` are those
    of namespaces, by their folded names; None where the catalog returns them one by one.
    """

    namespaces: Mapping[str, str]
    tables: Mapping[Key, MetadataPointer]
    spools: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, Mapping[str, str]] | None = None

    def properties_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the properties of a namespace; None if the listing does not have them."""
        return None if self.properties is None else self.properties.get(fold(namespace), {})


class Pointers(Protocol):
    """Find tables and their metadata files."""

    def listing(self) -> LakeListing:
        """Return all tables, as they are now."""

    def known_listing(self) -> LakeListing:
        """Return a listing that is good enough for a version number.

        The pointer of a table that was listed before may be older than that of `listing`.
        """

    def find(self, namespace: str, name: str) -> MetadataPointer | None:
        """Return a table by its name, in any case; None if there is none."""

    def find_namespace(self, name: str) -> str | None:
        """Return the spelling of a namespace; None if there is none."""


class SqlPointers:
    """Ask a catalog in a database (SQLite, PostgreSQL), in one transaction."""

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
        # The last listing, and the state of the database that it belongs to.
        self._known: tuple[tuple[int, int], LakeListing] | None = None

    def listing(self) -> LakeListing:
        """Return all tables; the last listing if nobody wrote to the database since."""
        known = self._unchanged()
        if known is not None:
            return known
        number = self._changes.number()
        listing = self._read_listing()
        self._known = None if number is None else (number, listing)
        return listing

    def known_listing(self) -> LakeListing:
        """Return all tables: one query is quick enough for a version number."""
        return self.listing()

    def _unchanged(self) -> LakeListing | None:
        known = self._known
        return known[1] if known is not None and known[0] == self._changes.number() else None

    def _read_listing(self) -> LakeListing:
        with self._connection() as connection:
            rows = connection.execute(self._tables).all()
            described = connection.execute(self._namespaces).all()
        properties: dict[str, dict[str, str]] = {}
        for space, key, value in described:
            properties.setdefault(fold(space), {})[key] = value
        spaces = {str(space) for space, _, _ in described}
        pointers = [
            MetadataPointer(space, name, location) for space, name, location in rows if location
        ]
        spaces |= {pointer.namespace for pointer in pointers}
        tables = [pointer for pointer in pointers if not pointer.name.startswith(SPOOL)]
        spools = [(p.namespace, p.name) for p in pointers if p.name.startswith(SPOOL)]
        self._last = LakeListing(
            {fold(name): name for name in spaces},
            _share_pointers(tables, self._last),
            tuple(spools),
            properties,
        )
        return self._last

    def find(self, namespace: str, name: str) -> MetadataPointer | None:
        """Return a table: first by its exact name, which needs no listing of all others."""
        known = self._unchanged()
        if known is not None:
            return known.tables.get((fold(namespace), fold(name)))
        with self._connection() as connection:
            row = connection.execute(self._table, {"namespace": namespace, "name": name}).first()
        if row is not None and row[2]:
            return MetadataPointer(row[0], row[1], row[2])
        return self.listing().tables.get((fold(namespace), fold(name)))

    def find_namespace(self, name: str) -> str | None:
        """Return the spelling of a namespace: first by its exact name."""
        known = self._unchanged()
        if known is not None:
            return known.namespaces.get(fold(name))
        with self._connection() as connection:
            row = connection.execute(self._namespace, {"namespace": name}).first()
        return name if row is not None else self.listing().namespaces.get(fold(name))

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with catalog_errors(), self._catalog.engine.connect() as connection:
            yield connection


def _share_pointers(
    pointers: Sequence[MetadataPointer], before: LakeListing
) -> dict[Key, MetadataPointer]:
    """Return pointers by key, with the objects of the listing before.

    Each open transaction holds a listing, so listings share what did not change.
    """
    known = {key: (key, pointer) for key, pointer in before.tables.items()}
    tables = {}
    for pointer in pointers:
        new = pointer.key()
        key, old = known.get(new, (new, pointer))
        tables[key] = old if old == pointer else pointer
    return tables


class _Changes:
    """Notice writes to an SQLite database, also those of other processes."""

    def __init__(self, catalog: SqlCatalog) -> None:
        url = catalog.engine.url
        self._file = url.database if url.get_backend_name() == "sqlite" else None
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    def number(self) -> tuple[int, int] | None:
        """Return a number that differs after each write; None for any other database."""
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
            except (sqlite3.Error, OSError):  # locked; the next query waits for it
                return None


class PerTablePointers:
    """Ask any other catalog, table by table."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog
        # The pointer of each table when it was last loaded.
        self._loaded: dict[tuple[str, ...], MetadataPointer] = {}

    def listing(self) -> LakeListing:
        """Return all tables; each is loaded."""
        return self._list(self._load)

    def known_listing(self) -> LakeListing:
        """List the names, and load only tables that are new.

        Each statement loads the tables that it uses, so a change of another table counts as soon
        as a statement uses it.
        """
        return self._list(lambda name: self._loaded.get(name) or self._load(name))

    def _list(self, load: Callable[[tuple[str, ...]], MetadataPointer | None]) -> LakeListing:
        spaces = self._namespaces()
        tables = [name for names in _CALLS.map(self._tables, spaces) for name in names]
        spools = [name for name in tables if name[-1].startswith(SPOOL)]
        pointers = list(_CALLS.map(load, [name for name in tables if name not in spools]))
        names = [".".join(space) for space in spaces]
        return LakeListing(
            {fold(name): name for name in names},
            {pointer.key(): pointer for pointer in pointers if pointer is not None},
            tuple((".".join(name[:-1]), name[-1]) for name in spools),
        )

    def _tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        with catalog_errors():
            try:
                return [tuple(name) for name in self._catalog.list_tables(namespace)]
            except NoSuchNamespaceError:
                return []  # dropped meanwhile

    def _namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Return all namespaces: a catalog answers with one level at a time, or with all levels."""
        with catalog_errors():
            try:
                spaces = [tuple(space) for space in self._catalog.list_namespaces(parent)]
            except NoSuchNamespaceError:
                return []  # dropped meanwhile
        below = [space for space in spaces if len(space) > len(parent)]
        inner = [deeper for space in below for deeper in self._namespaces(space)]
        return sorted({*below, *inner})

    def find(self, namespace: str, name: str) -> MetadataPointer | None:
        """Return a table: first by its exact name."""
        exact = self._load((*namespace.split("."), name))
        if exact is not None:
            return exact
        return self.listing().tables.get((fold(namespace), fold(name)))

    def find_namespace(self, name: str) -> str | None:
        """Return the spelling of a namespace; None if there is none."""
        names = (".".join(space) for space in self._namespaces())
        return next((other for other in names if fold(other) == fold(name)), None)

    def _load(self, identifier: tuple[str, ...]) -> MetadataPointer | None:
        with catalog_errors():
            try:
                table = self._catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                self._loaded.pop(identifier, None)
                return None
        pointer = MetadataPointer(
            ".".join(identifier[:-1]), identifier[-1], table.metadata_location
        )
        self._loaded[identifier] = pointer
        return pointer


def pointers_of(catalog: IcebergCatalog) -> Pointers:
    """Return the way to ask a catalog."""
    return SqlPointers(catalog) if isinstance(catalog, SqlCatalog) else PerTablePointers(catalog)


class Namespaces:
    """Create and drop namespaces, and read their properties."""

    def __init__(self, catalog: IcebergCatalog) -> None:
        self._catalog = catalog

    def properties(self, name: str) -> Mapping[str, str]:
        """Return the properties of a namespace; raises NotFound."""
        with catalog_errors():
            try:
                return self._catalog.load_namespace_properties(name)
            except NoSuchNamespaceError:
                raise NotFound("schema", name) from None

    def all_properties(self, listing: LakeListing) -> Mapping[str, Mapping[str, str]]:
        """Return the properties of all namespaces of a listing, by their folded names."""
        if listing.properties is not None:
            return listing.properties
        return dict(
            zip(
                listing.namespaces,
                _CALLS.map(self._properties_or_none, listing.namespaces.values()),
                strict=True,
            )
        )

    def _properties_or_none(self, name: str) -> Mapping[str, str]:
        """Return no properties for a namespace that was dropped meanwhile."""
        try:
            return self.properties(name)
        except NotFound:
            return {}

    def create(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a namespace; raises AlreadyExists."""
        with catalog_errors():
            try:
                with current().publishing():
                    self._catalog.create_namespace(name, dict(properties))
            except NamespaceAlreadyExistsError:
                raise AlreadyExists("schema", name) from None

    def drop(self, name: str) -> None:
        """Drop an empty namespace; raises NotFound or FailedPrecondition."""
        with catalog_errors():
            try:
                with current().publishing():
                    self._catalog.drop_namespace(name)
            except NoSuchNamespaceError:
                raise NotFound("schema", name) from None
            except NamespaceNotEmptyError:
                raise FailedPrecondition(f"schema {name!r} has tables; drop them first") from None


@contextmanager
def catalog_errors() -> Iterator[None]:
    """Raise what a catalog that cannot answer raises as Unavailable."""
    try:
        yield
    except (SQLAlchemyError, RESTError, OSError) as error:
        cause = str(error.__cause__ or error).split("\n", 1)[0][:200]
        raise Unavailable(f"the lake's catalog does not answer: {cause}; try again") from error
