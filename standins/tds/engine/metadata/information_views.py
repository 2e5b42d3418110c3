"""The views of INFORMATION_SCHEMA."""

from collections.abc import Iterator
from typing import Any

from standins.tds.engine.metadata.view_rows import COLLATION, View, World
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.types import family, is_unicode, max_length, precision, scale


def _schema_tables(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        yield (
            world.database.name,
            table.schema,
            table.name,
            "VIEW" if table.is_view else "BASE TABLE",
        )


def _schema_views(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if table.is_view:
            yield world.database.name, table.schema, table.name, table.definition, "NONE", "NO"


def _schema_columns(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for place, column in enumerate(world.columns(table), 1):
            yield _schema_column(world, table, place, column)


def _schema_column(world: World, table: Table, place: int, column: ColumnDef) -> tuple[Any, ...]:
    given = column.type
    text, moment = (
        family(given) == "string",
        family(given) in ("date", "time", "datetime", "offset"),
    )
    sized = text or family(given) == "binary"
    octets = max_length(given)
    length = octets // 2 if is_unicode(given) and octets > 0 else octets
    number = family(given) in ("int", "decimal", "float")
    return (
        world.database.name, table.schema, table.name, column.name, place,
        column.default.text if column.default else None, "YES" if column.nullable else "NO",
        given.name, length if sized else None, octets if sized else None,
        precision(given) if number else None,
        (2 if family(given) == "float" else 10) if number else None,
        scale(given) if family(given) in ("int", "decimal") else None,
        scale(given) if moment else None,
        (column.collation or COLLATION) if text else None,
    )  # fmt: skip


def _table_constraints(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        named = [
            (k.name, {"PK": "PRIMARY KEY", "UQ": "UNIQUE"}[k.kind])
            for k in table.keys
            if k.kind != "IX"
        ]
        named += [(each.name, "CHECK") for each in table.checks]
        named += [(each.name, "FOREIGN KEY") for each in table.foreign]
        for name, word in named:
            yield (world.database.name, table.schema, name, world.database.name, table.schema,
                   table.name, word, "NO", "NO")  # fmt: skip


def _key_column_usage(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        keys = [(k.name, k.columns) for k in table.keys if k.kind != "IX"]
        keys += [(each.name, each.columns) for each in table.foreign]
        for name, columns in keys:
            for place, column in enumerate(columns, 1):
                yield (world.database.name, table.schema, name, world.database.name, table.schema,
                       table.name, table.by_id(column).name, place)  # fmt: skip


def _schemata(world: World) -> Iterator[tuple[Any, ...]]:
    for name in world.database.schemas:
        yield world.database.name, name, "dbo", None, None, "iso_1"


INFORMATION_VIEWS: dict[str, View] = {
    "information_schema.tables": View(
        "TABLE_CATALOG sysname; TABLE_SCHEMA sysname; TABLE_NAME sysname!; TABLE_TYPE varchar(10)",
        _schema_tables,
    ),
    "information_schema.views": View(
        "TABLE_CATALOG sysname; TABLE_SCHEMA sysname; TABLE_NAME sysname!;"
        " VIEW_DEFINITION nvarchar(4000); CHECK_OPTION varchar(7); IS_UPDATABLE varchar(2)",
        _schema_views,
    ),
    "information_schema.columns": View(
        "TABLE_CATALOG sysname; TABLE_SCHEMA sysname; TABLE_NAME sysname!; COLUMN_NAME sysname;"
        " ORDINAL_POSITION int; COLUMN_DEFAULT nvarchar(4000); IS_NULLABLE varchar(3);"
        " DATA_TYPE sysname; CHARACTER_MAXIMUM_LENGTH int; CHARACTER_OCTET_LENGTH int;"
        " NUMERIC_PRECISION tinyint; NUMERIC_PRECISION_RADIX smallint; NUMERIC_SCALE int;"
        " DATETIME_PRECISION smallint; COLLATION_NAME sysname",
        _schema_columns,
    ),
    "information_schema.table_constraints": View(
        "CONSTRAINT_CATALOG sysname; CONSTRAINT_SCHEMA sysname; CONSTRAINT_NAME sysname!;"
        " TABLE_CATALOG sysname; TABLE_SCHEMA sysname; TABLE_NAME sysname;"
        " CONSTRAINT_TYPE varchar(11); IS_DEFERRABLE varchar(2)!; INITIALLY_DEFERRED varchar(2)!",
        _table_constraints,
    ),
    "information_schema.key_column_usage": View(
        "CONSTRAINT_CATALOG sysname; CONSTRAINT_SCHEMA sysname; CONSTRAINT_NAME sysname!;"
        " TABLE_CATALOG sysname; TABLE_SCHEMA sysname; TABLE_NAME sysname!; COLUMN_NAME sysname;"
        " ORDINAL_POSITION int!",
        _key_column_usage,
    ),
    "information_schema.schemata": View(
        "CATALOG_NAME sysname; SCHEMA_NAME sysname!; SCHEMA_OWNER sysname;"
        " DEFAULT_CHARACTER_SET_CATALOG varchar(6); DEFAULT_CHARACTER_SET_SCHEMA varchar(3);"
        " DEFAULT_CHARACTER_SET_NAME sysname",
        _schemata,
    ),
}
