"""What a query may name besides tables of the catalogs, by whom it comes from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import prod
from typing import Any

from jetbridge.catalog.identifiers import fold
from jetbridge.duckdb_engine.functions import (
    FILE_TABLE_FUNCTIONS,
    JSON_TYPED_FUNCTIONS,
    REFUSED_FUNCTIONS,
    REFUSED_TABLE_FUNCTIONS,
    REMOTE_FILE_TABLE_FUNCTIONS,
    ROW_TABLE_FUNCTIONS,
    may_run,
)
from jetbridge.duckdb_engine.planner import QueryReferences, StatementConnection, nodes
from jetbridge.duckdb_engine.run_growth import check_volumes
from jetbridge.errors import NotFound, PermissionDenied

# A type of JSON's own, as far down as anybody writes one.
_MOST_LEVELS = 100
# `[3]` in the name of a type, whatever DuckDB may skip within.
_ARRAY_SIZE = re.compile(r"\[[^\d\]]*(\d+)")
_MOST_VALUES = 1_000_000


def reads_files(names: QueryReferences) -> bool:
    return bool(names.table_functions & FILE_TABLE_FUNCTIONS)


class FileScope(Enum):
    """All: the person at the command; FOLDERS: those of the configuration; NONE: no files."""

    ALL = "all"
    FOLDERS = "folders"
    NONE = "none"


@dataclass(frozen=True)
class AccessRules:
    """`trusted`: the command of someone on this machine, not a caller of the server."""

    files: FileScope = FileScope.NONE
    trusted: bool = False

    def without_files(self) -> "AccessRules":
        """For expressions whose place is where the files of a catalog can be read."""
        return self if self.trusted else replace(self, files=FileScope.NONE)

    def check(self, desk: StatementConnection, query: str) -> QueryReferences:
        """What the query names; raises PermissionDenied for what it may not use."""
        names = desk.references(query)
        if self.trusted and self.files is FileScope.ALL:
            return names
        files = names.table_functions & (FILE_TABLE_FUNCTIONS | REMOTE_FILE_TABLE_FUNCTIONS)
        if files and self.files is FileScope.NONE:
            raise PermissionDenied(
                f"{sorted(files)[0]} reads files, which is off: see [sql] files and folders"
            )
        if not self.trusted:
            self._refuse(names)
            check_volumes(names.tree)
        return names

    def _refuse(self, names: QueryReferences) -> None:
        for name in sorted(names.table_functions - ROW_TABLE_FUNCTIONS - FILE_TABLE_FUNCTIONS):
            raise _refusal(
                name, known=name in REMOTE_FILE_TABLE_FUNCTIONS or name in REFUSED_TABLE_FUNCTIONS
            )
        for name in sorted(names.called_functions):
            if not may_run(name):
                raise _refusal(name, known=name in REFUSED_FUNCTIONS)
        for node in nodes(names.tree):
            _refuse_type(node)
            if str(node.get("function_name")).lower() in JSON_TYPED_FUNCTIONS:
                _refuse_deep_type(node)

    def missing(self, parts: tuple[str, ...], names: QueryReferences) -> NotFound | None:
        """A name that no catalog has: a part of the query, or perhaps a file."""
        if len(parts) == 1 and fold(parts[0]) in names.cte_names:
            return None
        return (
            None
            if self.files is FileScope.ALL and len(parts) == 1
            else NotFound("table", parts[-1])
        )


def _refusal(name: str, *, known: bool) -> PermissionDenied:
    return PermissionDenied(
        f"the function {name} is not allowed here{'' if known else ': it is unknown'}"
    )


def _refuse_type(node: Mapping[str, Any]) -> None:
    """Types of which one value takes more memory than there is, or stops the process."""
    if node.get("id") == "VARIANT":
        raise PermissionDenied("the type VARIANT is not allowed here")
    size, about = 1, node
    while (about.get("type_info") or {}).get("type") == "ARRAY_TYPE_INFO":
        size *= about["type_info"]["size"]
        about = about["type_info"]["child_type"]
    if size > _MOST_VALUES:
        raise PermissionDenied(f"an ARRAY of {size} values is not allowed here; use a list")


def _refuse_deep_type(call: Mapping[str, Any]) -> None:
    """DuckDB turns it into a type on its stack."""
    for each in call["children"][1:]:
        text = each.get("value", {}).get("value")
        if not isinstance(text, str):
            raise PermissionDenied(f"{call['function_name']} needs its type as a string here")
        # An escaped character could stand for any other one.
        is_deep = "\\" in text or text.count("[") + text.count("{") > _MOST_LEVELS
        sizes = map(int, _ARRAY_SIZE.findall(text))
        if is_deep or "VARIANT" in text.upper() or prod(sizes) > _MOST_VALUES:
            raise PermissionDenied(f"the type of {call['function_name']} is too large here")
