"""PRIMARY KEY and UNIQUE: whether new data files hold a key twice, or one the table has.

Both questions are asked of the embedded DuckDB over the files themselves, so the keys of a large
statement never stand in memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.lake.lake import Lake
from jetbridge.backends.lake.metadata.table_state import ENFORCE_KEYS, TableState
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.backends.lake.write.commit import DataFile
from jetbridge.catalog import UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import QueryError, is_out_of_memory
from jetbridge.errors import DuplicateKey, LimitExceeded


def enforced(lake: Lake, state: TableState) -> bool:
    """Whether keys are checked: as the table says (true, false or a number of rows)."""
    said = state.properties.get(ENFORCE_KEYS, "").lower()
    if said in ("true", "false"):
        return said == "true"
    limit = int(said) if said.isdecimal() else lake.options.enforce_keys_rows
    count = state.count()
    return count is not None and count <= limit


def refuse_duplicates(
    lake: Lake,
    state: TableState,
    files: Sequence[DataFile],
    *,
    changed: Sequence[str] | None = None,
    gone: Sequence[DataFile] = (),
) -> None:
    """Raises DuplicateKey.

    With `changed` the files hold new values of rows of the table, by row id, and only keys over
    these columns are looked at; `gone` are the rows, by row id, that are deleted with it.
    """
    if not files or not state.definition.keys or not enforced(lake, state):
        return
    names = None if changed is None else {fold(name) for name in changed}
    for key in state.definition.keys:
        if names is None or names & {fold(name) for name in key.columns}:
            replaced = None if changed is None else [*files, *gone]
            _refuse(lake, state, key, files, replaced)


def _refuse(
    lake: Lake,
    state: TableState,
    key: UniqueKey,
    files: Sequence[DataFile],
    replaced: Sequence[DataFile] | None,
) -> None:
    # As filters see them: a key may be NaN, which no row group's bounds tell of.
    columns = [state.codec.condition(name) for name in key.columns]
    new = queries.parquet([file.location for file in files])
    found = _asked(lake, state, queries.find_repeated_key(new, columns))
    if not found.num_rows and state.snapshot is not None:
        old = None if replaced is None else queries.parquet([each.location for each in replaced])
        with open_snapshot(lake, state, ReadColumns(key.columns, old is not None)) as there:
            sql = queries.find_clashing_key(new, there.sql, columns, old)
            found = _asked(lake, state, sql, there.tables)
    if found.num_rows:
        names = ", ".join(key.columns)
        values = ", ".join(duckdb_engine.format_value(column[0]) for column in found.columns)
        title = state.title()
        raise DuplicateKey(f"Duplicate key in {title}: ({names}) = ({values}) already exists"[:490])


def _asked(
    lake: Lake, state: TableState, sql: str, tables: Mapping[str, Any] | None = None
) -> pa.Table:
    try:
        return lake.reader.query(sql, **(tables or {}))
    except QueryError as error:
        if not is_out_of_memory(error):
            raise
        raise LimitExceeded(
            f"the keys of table {state.title()!r} cannot be checked in the memory there is: send "
            "fewer rows in one statement, or set the table property jetbridge.enforce-keys to false"
        ) from error
