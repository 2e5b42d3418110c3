"""Checks PRIMARY KEY and UNIQUE: whether new data files have a key twice, or one of the table.

The embedded DuckDB answers over the files themselves, so the keys of a large statement never have
to fit in memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from jetbridge import duckdb_engine
from jetbridge.backends.lake.metadata.table_state import ENFORCE_KEYS, TableState
from jetbridge.backends.lake.parquet_writer import DataFile
from jetbridge.backends.lake.read.context import ReadContext
from jetbridge.backends.lake.read.fallback import ReadColumns
from jetbridge.backends.lake.read.relation import open_snapshot
from jetbridge.backends.lake.write.publisher import Publisher
from jetbridge.catalog import UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.duckdb import iceberg as queries
from jetbridge.duckdb_engine.lake_reader import QueryError, is_out_of_memory
from jetbridge.errors import DuplicateKey, LimitExceeded

_MESSAGE_CHARACTERS = 490


def are_enforced(state: TableState, default_rows: int) -> bool:
    """Return whether keys are checked: the table says true, false or a number of rows."""
    setting = state.properties.get(ENFORCE_KEYS, "").lower()
    if setting in ("true", "false"):
        return setting == "true"
    limit = int(setting) if setting.isdecimal() else default_rows
    count = state.count()
    return count is not None and count <= limit


def refuse_duplicates(
    publisher: Publisher,
    state: TableState,
    files: Sequence[DataFile],
    *,
    changed: Sequence[str] | None = None,
    deleted: Sequence[DataFile] = (),
) -> None:
    """Raise DuplicateKey if rows of new files have a key that exists.

    With `changed` the files hold new values of rows of the table, by row id, and only keys over
    these columns are checked; `deleted` are the rows, by row id, that the statement deletes.
    """
    default_rows = publisher.options.enforce_keys_rows
    if not files or not state.definition.keys or not are_enforced(state, default_rows):
        return
    names = None if changed is None else {fold(name) for name in changed}
    for key in state.definition.keys:
        if names is None or names & {fold(name) for name in key.columns}:
            replaced = None if changed is None else [*files, *deleted]
            _refuse(publisher.read, state, key, files, replaced)


def _refuse(
    context: ReadContext,
    state: TableState,
    key: UniqueKey,
    files: Sequence[DataFile],
    replaced: Sequence[DataFile] | None,
) -> None:
    # As filters see them: a key may be NaN, which the bounds of a row group do not include.
    columns = [state.codec.condition(name) for name in key.columns]
    new = queries.parquet([file.location for file in files])
    duplicate = _query(context, state, queries.find_repeated_key(new, columns))
    if not duplicate.num_rows and state.snapshot is not None:
        old = None if replaced is None else queries.parquet([file.location for file in replaced])
        needed = ReadColumns(key.columns, old is not None)
        with open_snapshot(context, state, needed) as relation:
            sql = queries.find_clashing_key(new, relation.sql, columns, old)
            duplicate = _query(context, state, sql, relation.tables)
    if duplicate.num_rows:
        names = ", ".join(key.columns)
        values = ", ".join(duckdb_engine.format_value(column[0]) for column in duplicate.columns)
        message = f"Duplicate key in {state.title()}: ({names}) = ({values}) already exists"
        raise DuplicateKey(message[:_MESSAGE_CHARACTERS])


def _query(
    context: ReadContext, state: TableState, sql: str, tables: Mapping[str, Any] | None = None
) -> pa.Table:
    try:
        return context.reader.query(sql, **(tables or {}))
    except QueryError as error:
        if not is_out_of_memory(error):
            raise
        raise LimitExceeded(
            f"not enough memory to check the keys of table {state.title()!r}: send fewer rows in "
            "one statement, or set the table property jetbridge.enforce-keys to false"
        ) from error
