"""Tables and views as the catalog views of SQL Server describe them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from jetbridge.backends.mssql.connection.pool import OdbcConnection
from jetbridge.backends.mssql.metadata.visible_constraints import for_clients, nullable_for_clients
from jetbridge.backends.mssql.types import ServerColumn, arrow_type
from jetbridge.catalog import TableInfo, UniqueKey
from jetbridge.catalog.identifiers import fold
from jetbridge.dialects.tsql import statements
from jetbridge.dialects.tsql.ddl import without_casts

_VIEW = "V"
_PRIMARY = "PK"


@dataclass(frozen=True)
class TableDescription:
    """A table as it was when it was looked at. `checks` are in T-SQL."""

    schema: str
    name: str
    object_id: int
    made: str
    is_view: bool
    columns: tuple[ServerColumn, ...]
    keys: tuple[UniqueKey, ...] = ()
    checks: tuple[str, ...] = ()

    def title(self) -> str:
        return f"{self.schema}.{self.name}"

    def primary_key(self) -> tuple[ServerColumn, ...]:
        names = next((key.columns for key in self.keys if key.primary), ())
        return tuple(each for name in names for each in self.columns if each.name == name)

    def info(self, row_id: pa.DataType | None) -> TableInfo:
        checks, defaults = for_clients(self)
        return TableInfo(
            self.name,
            pa.schema([_field(each, defaults.get(each.name)) for each in self.columns]),
            row_id=row_id,
            identity=f"{self.object_id}-{self.made}",
            checks=checks,
            keys=self.keys,
        )


def _field(column: ServerColumn, default: str | None) -> pa.Field:
    metadata = {"default": default} if default else None
    return pa.field(column.name, arrow_type(column), nullable_for_clients(column), metadata)


def describe(
    asking: OdbcConnection, schema: str, name: str | None = None, *, folded: bool = False
) -> list[TableDescription]:
    """All tables and views of a schema, or the one of this name.

    `folded`: as those of Babelfish, the views that tell all else have names in lower case.
    """
    given = (schema,) if name is None else (schema, name)
    one = name is not None
    columns = asking.rows(statements.COLUMNS_OF_ONE if one else statements.COLUMNS, *given)
    if not columns:
        return []
    keys = _keys(asking.rows(statements.KEYS_OF_ONE if one else statements.KEYS, *given))
    checks = _grouped(asking.rows(statements.CHECKS_OF_ONE if one else statements.CHECKS, *given))
    found = []
    for number, rows in _grouped(columns, whole=True).items():
        _, title, kind, made, *_ = rows[0]
        found.append(
            TableDescription(
                schema,
                title,
                number,
                made,
                kind.strip() == _VIEW,
                tuple(_column(row) for row in rows),
                keys.get(number, ()),
                tuple(text for (text,) in checks.get(number, []) if text),  # NULL: not to be seen
            )
        )
    if folded:
        names = asking.rows(statements.NAMES_OF_ONE if one else statements.NAMES, *given)
        return [_spelled(each, names) for each in found]
    return found


def _spelled(found: TableDescription, rows: Iterable[Sequence[Any]]) -> TableDescription:
    """With names and constants as they were given; rows of tables and columns."""
    own = [(table, column) for table, column in rows if fold(table) == fold(found.name)]
    names: dict[str, str] = {fold(column): column for _, column in own}

    def spelled(name: str) -> str:
        return names.get(fold(name), name)

    return replace(
        found,
        name=own[0][0] if own else found.name,
        columns=tuple(
            replace(each, name=spelled(each.name), default=without_casts(each.default))
            for each in found.columns
        ),
        checks=tuple(map(without_casts, found.checks)),
        keys=tuple(replace(each, columns=tuple(map(spelled, each.columns))) for each in found.keys),
    )


def _column(row: Sequence[Any]) -> ServerColumn:
    name, kind, length, precision, scale, nullable, identity, computed, default, collation = row[4:]
    return ServerColumn(
        name,
        kind,
        length,
        precision,
        scale,
        bool(nullable),
        bool(identity),
        bool(computed),
        default or "",
        collation or "",
    )


def _grouped(rows: Iterable[Sequence[Any]], *, whole: bool = False) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(row if whole else row[1:])
    return found


def _keys(rows: Iterable[Sequence[Any]]) -> dict[int, tuple[UniqueKey, ...]]:
    columns: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for number, name, kind, column in rows:
        columns[number, name, kind.strip()].append(column)
    found: dict[int, tuple[UniqueKey, ...]] = {}
    for (number, _, kind), names in columns.items():
        found[number] = (*found.get(number, ()), UniqueKey(tuple(names), kind == _PRIMARY))
    return found
