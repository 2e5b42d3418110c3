"""What a query may name besides tables of the catalogs, by whom it comes from."""

from dataclasses import dataclass, replace
from enum import Enum

from jetbridge.embedded.workbench import Desk, Names
from jetbridge.errors import NotFound, PermissionDenied
from jetbridge.names import fold

# They make rows of their arguments.
_HARMLESS = frozenset(["unnest", "range", "generate_series", "repeat", "repeat_row"])
_FILES = frozenset(
    ["read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "sniff_csv", "glob"]
    + ["read_json", "read_json_auto", "read_json_objects", "read_ndjson", "read_ndjson_auto"]
    + ["read_ndjson_objects", "read_text", "read_blob", "parquet_metadata", "parquet_schema"]
    + ["parquet_file_metadata", "parquet_kv_metadata"]
)
# They tell of the machine or the process, or run other SQL.
_TELLING = frozenset(
    ["current_setting", "getenv", "getvariable", "json_execute_serialized_sql", "pg_get_viewdef"]
    + ["in_search_path", "txid_current", "query", "query_table", "which_secret"]
)


def reads_files(names: Names) -> bool:
    return bool(names.functions & _FILES)


class Files(Enum):
    """All: the person at the command; FOLDERS: those of the configuration; NONE: no files."""

    ALL = "all"
    FOLDERS = "folders"
    NONE = "none"


@dataclass(frozen=True)
class Rules:
    """`trusted`: the command of someone on this machine, not a caller of the server."""

    files: Files = Files.NONE
    trusted: bool = False

    def without_files(self) -> "Rules":
        """For expressions whose place is where the files of a catalog can be read."""
        return self if self.trusted else replace(self, files=Files.NONE)

    def check(self, desk: Desk, query: str) -> Names:
        """What the query names; raises PermissionDenied for what it may not use."""
        names = desk.names(query)
        if self.trusted and self.files is Files.ALL:
            return names
        files = names.functions & _FILES
        if files and self.files is Files.NONE:
            raise PermissionDenied(
                f"{sorted(files)[0]} reads files, which is off: see [sql] files and folders"
            )
        if not self.trusted:
            self._refuse(names)
        return names

    def _refuse(self, names: Names) -> None:
        if not names.complete:
            raise PermissionDenied("this form of query is not allowed here; use a plain SELECT")
        strange = (names.functions - _HARMLESS - _FILES) | (names.calls & _TELLING)
        if strange:
            raise PermissionDenied(f"the function {sorted(strange)[0]} is not allowed here")

    def missing(self, parts: tuple[str, ...], names: Names) -> NotFound | None:
        """A name that no catalog has: a part of the query, or perhaps a file."""
        if len(parts) == 1 and fold(parts[0]) in names.parts:
            return None
        return None if self.files is Files.ALL and len(parts) == 1 else NotFound("table", parts[-1])
