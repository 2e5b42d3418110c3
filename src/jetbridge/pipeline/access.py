"""Checks what a query may use besides the tables of the catalogs, depending on its caller."""

from dataclasses import dataclass, replace
from enum import Enum

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.connection import StatementConnection
from jetbridge.duckdb_engine.functions import (
    FILE_TABLE_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    REMOTE_FILE_TABLE_FUNCTIONS,
    ROW_TABLE_FUNCTIONS,
    may_run,
)
from jetbridge.duckdb_engine.references import QueryReferences
from jetbridge.errors import PermissionDenied


def reads_files(references: QueryReferences) -> bool:
    """Return whether a query calls a function that reads files, such as read_parquet."""
    return bool(references.table_functions & FILE_TABLE_FUNCTIONS)


class FileScope(Enum):
    """Name the files that a query may read.

    ALL: every file, for the person at the command. FOLDERS: those in the folders of the
    configuration. NONE: no files.
    """

    ALL = "all"
    FOLDERS = "folders"
    NONE = "none"


@dataclass(frozen=True)
class AccessRules:
    """Hold what the queries of one session may use.

    `trusted`: the session belongs to someone on this machine, not to a caller of the server.
    `folders` are those of FileScope.FOLDERS.
    """

    files: FileScope = FileScope.NONE
    trusted: bool = False
    folders: tuple[str, ...] = ()

    def without_files(self) -> "AccessRules":
        """Return the rules for expressions that run where DuckDB can read the files of a table."""
        return self if self.trusted else replace(self, files=FileScope.NONE)

    def check(self, connection: StatementConnection, query: str) -> QueryReferences:
        """Return what the query names; raise PermissionDenied for what it may not use."""
        references = connection.references(query)
        if self.trusted and self.files is FileScope.ALL:
            return references
        readers = references.table_functions & (FILE_TABLE_FUNCTIONS | REMOTE_FILE_TABLE_FUNCTIONS)
        if readers and self.files is FileScope.NONE:
            raise PermissionDenied(
                f"{sorted(readers)[0]} cannot read files: sql.files and sql.folders do not allow it"
            )
        if not self.trusted:
            _refuse_functions(references)
        return references

    def refuses_unknown(self, parts: tuple[str, ...], references: QueryReferences) -> bool:
        """Return whether a table that no catalog has is an error.

        It is none if WITH defines the name, or if it may be the name of a file.
        """
        if len(parts) > 1:
            return True
        return fold(parts[0]) not in references.cte_names and self.files is not FileScope.ALL


def _refuse_functions(references: QueryReferences) -> None:
    """Raise PermissionDenied for functions and types that a caller of the server may not use."""
    allowed = ROW_TABLE_FUNCTIONS | FILE_TABLE_FUNCTIONS
    for name in sorted(references.table_functions - allowed):
        known = name in REMOTE_FILE_TABLE_FUNCTIONS or name in REFUSED_TABLE_FUNCTIONS
        raise _refusal(name, known=known)
    for name in sorted(references.called_functions):
        if not may_run(name):
            raise _refusal(name, known=name in REFUSED_FUNCTIONS)
    if references.refused_type:
        raise PermissionDenied(references.refused_type)


def _refusal(name: str, *, known: bool) -> PermissionDenied:
    return PermissionDenied(
        f"function {name} is {'not supported' if known else 'unknown'} in run(); use another one"
    )
