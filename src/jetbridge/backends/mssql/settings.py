"""Defines the settings of SQL Server catalogs, for SET, `--set` and the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from jetbridge.catalog.settings import Setting, one_of, truth, whole
from jetbridge.errors import BadRequest

MAX_TEXT_LENGTH = 4000
MAX_STATEMENT_ROWS = 1000
MAX_WRITERS = 8


@dataclass(frozen=True)
class MssqlSettings:
    """Hold the values of the settings. The names of fields lack the prefix `mssql_`."""

    ctas_drop_on_failure: bool = False
    ctas_text_type: str = "NVARCHAR"
    ctas_text_length: str = "max"
    default_string_length: int = 0
    ctas_tinyint: str = "TINYINT"
    ctas_extended_types: bool = False
    ctas_use_bcp: bool = True
    ctas_atomic_replace: bool = True
    ctas_table_kind: str = "heap"
    copy_flush_rows: int = 102_400
    copy_tablock: str = "auto"
    copy_parallel_writers: int = 0
    insert_batch_size: int = 1000
    insert_max_rows_per_statement: int = 1000
    insert_max_sql_bytes: int = 8_388_608
    direct_load_rows: int = 200_000
    direct_load_bytes: int = 256 * 1024 * 1024
    snapshot_reads: bool = True

    def with_changes(self, values: Mapping[str, str]) -> "MssqlSettings":
        """Return settings with other values, by full names. Raises BadRequest for invalid ones."""
        fields = {}
        for name, value in values.items():
            full_name = ALIASES.get(name.lower(), name.lower())
            setting = SETTINGS.get(full_name)
            if setting is None:
                raise BadRequest(
                    f"SQL Server has no setting {name!r}; known: {', '.join(SETTINGS)}"
                )
            fields[full_name.removeprefix(PREFIX)] = setting.read(value)
        return replace(self, **fields)

    def by_name(self) -> Mapping[str, Any]:
        """Return the values by the full names of the settings."""
        return {PREFIX + name: value for name, value in vars(self).items()}


def _length(value: str) -> str:
    text = value.strip().lower()
    if text in ("max", "auto") or (text.isdecimal() and 1 <= int(text) <= MAX_TEXT_LENGTH):
        return text
    raise BadRequest(
        f"Invalid mssql_ctas_text_length: {value!r}. Must be 'max', 'auto' or a number from 1 to "
        f"{MAX_TEXT_LENGTH}"
    )


def _tablock(value: str) -> str:
    """Return the value; accept `true` and `false`, too, as DuckDB's extension does."""
    text = {"true": "on", "false": "off"}.get(value.strip().lower(), value)
    return one_of("mssql_copy_tablock", "auto", "on", "off")(text)


PREFIX = "mssql_"
# Settings of DuckDB's mssql extension that scripts may set, and that have no effect here.
IGNORED_SETTINGS = frozenset(
    PREFIX + name
    for name in ["connection_limit", "connection_cache", "connection_timeout", "reset_connection"]
    + ["idle_timeout", "min_connections", "acquire_timeout", "query_timeout", "metadata_timeout"]
    + ["attach_validation_timeout", "catalog_cache_ttl", "exec_invalidate_cache"]
    + ["enable_statistics", "statistics_level", "statistics_use_dbcc"]
    + ["statistics_cache_ttl_seconds", "tds_packet_size", "login7_max_packet", "utf8_support"]
    + ["named_instance_resolution", "browser_timeout_seconds", "utf8_collation"]
    + ["catalog_native_types", "convert_varchar_max", "order_pushdown"]
    + ["insert_use_returning_output", "dml_batch_size", "dml_max_parameters", "dml_use_prepared"]
)
# Names that scripts for DuckDB's extension use.
ALIASES: Mapping[str, str] = {"mssql_default_table_kind": "mssql_ctas_table_kind"}
# The allowed values (a range, some words, or a function), and the description.
_DESCRIPTIONS: Mapping[str, tuple[Any, str]] = {
    "ctas_drop_on_failure": (
        truth,
        "drop the table when the rows of CREATE TABLE AS cannot be loaded",
    ),
    "ctas_text_type": (("NVARCHAR", "VARCHAR"), "type of string columns"),
    "ctas_text_length": (
        _length,
        "length of string columns: `max`, a number, or `auto` for the length that the rows need, "
        "rounded up",
    ),
    "default_string_length": (
        (0, MAX_TEXT_LENGTH),
        "length of string columns if `mssql_ctas_text_length` is not set; 0 is `max`",
    ),
    "ctas_tinyint": (
        ("TINYINT", "SMALLINT"),
        "type of TINYINT columns; `tinyint` of SQL Server has the values 0 to 255",
    ),
    "ctas_extended_types": (
        truth,
        "also accept unsigned integers, HUGEINT, JSON and short timestamps",
    ),
    "ctas_use_bcp": (truth, "load by bulk copy; if off, by INSERT statements"),
    "ctas_atomic_replace": (truth, "OR REPLACE keeps the old table until the new one is complete"),
    "ctas_table_kind": (("heap", "columnstore"), "storage of new tables"),
    "copy_flush_rows": (
        (1000, 10**9),
        "rows per spool file; a Spark task loads some files in one transaction",
    ),
    "copy_tablock": (
        _tablock,
        "lock the table for a bulk load; `auto` locks new heaps",
    ),
    "copy_parallel_writers": (
        (0, MAX_WRITERS),
        "connections that load in parallel; 0 is one per core",
    ),
    "insert_batch_size": ((1, 10**6), "rows per round trip of INSERT statements"),
    "insert_max_rows_per_statement": ((1, MAX_STATEMENT_ROWS), "rows per INSERT statement"),
    "insert_max_sql_bytes": ((1024, 2**30), "bytes per INSERT statement"),
    "direct_load_rows": (
        (0, 10**12),
        "largest load in rows that runs in one transaction without Spark",
    ),
    "direct_load_bytes": ((0, 2**60), "the same limit in bytes; Spark runs loads above either"),
    "snapshot_reads": (
        truth,
        "read all tables of a transaction from one snapshot, if the database allows SNAPSHOT "
        "isolation; if off, read the splits of a table in parallel",
    ),
}


def _setting(name: str, default: object) -> Setting:
    allowed, description = _DESCRIPTIONS[name]
    full_name = PREFIX + name
    if allowed is truth:
        read = truth(full_name)
    elif not isinstance(allowed, tuple):
        read = allowed
    elif isinstance(allowed[0], int):
        read = whole(full_name, *allowed)
    else:
        read = one_of(full_name, *allowed)
    aliases = tuple(alias for alias, target in ALIASES.items() if target == full_name)
    return Setting(default, read, description, aliases)


SETTINGS: Mapping[str, Setting] = {
    PREFIX + field.name: _setting(field.name, field.default) for field in fields(MssqlSettings)
}
