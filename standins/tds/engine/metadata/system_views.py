"""Catalog views: their columns, and their rows made from the definitions."""

from collections.abc import Iterator
from typing import Any

from standins.tds.engine.metadata.constraint_text import check_shown
from standins.tds.engine.metadata.information_views import INFORMATION_VIEWS
from standins.tds.engine.metadata.view_rows import COLLATION, View, World
from standins.tds.engine.storage.catalog import ColumnDef, Table
from standins.tds.engine.types import KINDS, family, kind, max_length, precision, scale


def _databases(world: World) -> Iterator[tuple[Any, ...]]:
    for each in world.databases:
        yield (
            each.name, each.database_id, None, b"\x01", None, 160, each.collation, 0, "MULTI_USER",
            False, 0, "ONLINE", 1 if each.snapshot else 0, "ON" if each.snapshot else "OFF",
            each.read_committed_snapshot, 3, "SIMPLE", False,
        )  # fmt: skip


def _schemas(world: World) -> Iterator[tuple[Any, ...]]:
    for name, number in world.database.schemas.items():
        yield name, number, 1


def _extended_properties(world: World) -> Iterator[tuple[Any, ...]]:
    for number, properties in world.database.properties.items():
        for name, value in properties.items():
            yield 3, "SCHEMA", number, 0, name, value


def _schema_id(world: World, table: Table) -> int:
    return world.database.schemas.get(table.schema, 1)


def _objects(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        schema = _schema_id(world, table)
        kinds = ("V ", "VIEW") if table.is_view else ("U ", "USER_TABLE")
        yield _object(table.name, table.object_id, schema, 0, kinds, table)
        for key in table.keys:
            if key.kind != "IX":
                kinds = ("PK", "PRIMARY_KEY_CONSTRAINT")
                if key.kind == "UQ":
                    kinds = ("UQ", "UNIQUE_CONSTRAINT")
                yield _object(key.name, key.object_id, schema, table.object_id, kinds, table)
        others: list[tuple[Any, tuple[str, str]]] = [
            *((each, ("C ", "CHECK_CONSTRAINT")) for each in table.checks),
            *((each, ("F ", "FOREIGN_KEY_CONSTRAINT")) for each in table.foreign),
            *((c.default, ("D ", "DEFAULT_CONSTRAINT")) for c in table.columns if c.default),
        ]
        for each, kinds in others:
            yield _object(each.name, each.object_id, schema, table.object_id, kinds, table)


def _object(
    name: str, number: int, schema: int, parent: int, kinds: tuple[str, str], table: Table
) -> tuple[Any, ...]:
    return (
        name, number, None, schema, parent, *kinds, table.created, table.modified, False, False,
        False,
    )  # fmt: skip


def _tables(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if not table.is_view:
            kinds = ("U ", "USER_TABLE")
            plain = _object(table.name, table.object_id, _schema_id(world, table), 0, kinds, table)
            yield (*plain, False, 0, "NON_TEMPORAL_TABLE", 0, "SCHEMA_AND_DATA", False, False)


def _views(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if table.is_view:
            kinds = ("V ", "VIEW")
            plain = _object(table.name, table.object_id, _schema_id(world, table), 0, kinds, table)
            yield (*plain, False)


def _columns(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for column in world.columns(table):
            yield _column(table.object_id, column)


def _column(object_id: int, column: ColumnDef) -> tuple[Any, ...]:
    collation = None
    if family(column.type) == "string":
        collation = column.collation or COLLATION
    number = kind(column.type).type_id
    return (
        object_id, column.name, column.column_id, number, number, max_length(column.type),
        precision(column.type), scale(column.type), collation, column.nullable, False,
        column.identity is not None, False, False,
        column.default.object_id if column.default else 0, 0, False, False, 0, None,
    )  # fmt: skip


def _all_columns(world: World) -> Iterator[tuple[Any, ...]]:
    yield from _columns(world)
    for place, (name, view) in enumerate(VIEWS.items(), 1):
        del name
        for number, each in enumerate(view.columns, 1):
            column = ColumnDef(each.name, each.type, each.nullable, number, "")
            yield _column(-place, column)


def _types(world: World) -> Iterator[tuple[Any, ...]]:
    for name in KINDS:
        if name != "boolean":
            given = KINDS[name]
            called = "timestamp" if name == "rowversion" else name
            collation = COLLATION if given.family == "string" else None
            yield (
                called, given.type_id, given.type_id, 4, None, given.size, given.precision,
                given.scale, collation, True, False, False, 0, 0, False,
            )  # fmt: skip
    yield ("sysname", 231, 256, 4, None, 256, 0, 0, COLLATION, False, False, False, 0, 0, False)


def _indexes(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if table.is_view:
            continue
        if not any(each.clustered for each in table.keys):
            yield (table.object_id, None, 0, 0, "HEAP", False, 1, False, False, False, 0, False,
                   False, False, None)  # fmt: skip
        for key in table.keys:
            kinds = (1, "CLUSTERED") if key.clustered else (2, "NONCLUSTERED")
            if key.columnstore:
                kinds = (
                    (5, "CLUSTERED COLUMNSTORE")
                    if key.clustered
                    else (6, "NONCLUSTERED COLUMNSTORE")
                )
            yield (
                table.object_id, key.name, key.index_id, *kinds, key.unique, 1, False,
                key.kind == "PK", key.kind == "UQ", 0, False, False, False, None,
            )  # fmt: skip


def _index_columns(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for key in table.keys:
            down = key.descending or (False,) * len(key.columns)
            places = enumerate(zip(key.columns, down, strict=True), 1)
            for place, (column, descending) in places:
                yield (table.object_id, key.index_id, place, column, place, 0, descending, False)
            for place, column in enumerate(key.included, len(key.columns) + 1):
                yield (table.object_id, key.index_id, place, column, 0, 0, False, True)


def _key_constraints(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for key in table.keys:
            if key.kind != "IX":
                kinds = ("PK", "PRIMARY_KEY_CONSTRAINT")
                if key.kind == "UQ":
                    kinds = ("UQ", "UNIQUE_CONSTRAINT")
                yield (key.name, key.object_id, None, _schema_id(world, table), table.object_id,
                       *kinds, key.index_id, not key.named, True)  # fmt: skip


def _check_constraints(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for each in table.checks:
            text = check_shown(each.text)
            yield (each.name, each.object_id, _schema_id(world, table), table.object_id, "C ",
                   "CHECK_CONSTRAINT", False, False, each.column_id, text, False)  # fmt: skip


def _default_constraints(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for column in table.columns:
            if column.default:
                yield (column.default.name, column.default.object_id, _schema_id(world, table),
                       table.object_id, "D ", "DEFAULT_CONSTRAINT", column.column_id,
                       column.default.text, False)  # fmt: skip


def _foreign_keys(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for each in table.foreign:
            yield (each.name, each.object_id, _schema_id(world, table), table.object_id, "F ",
                   "FOREIGN_KEY_CONSTRAINT", each.target, False, 0, "NO_ACTION", 0,
                   "NO_ACTION")  # fmt: skip


def _foreign_key_columns(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for each in table.foreign:
            for place, (own, there) in enumerate(
                zip(each.columns, each.target_columns, strict=True), 1
            ):
                yield each.object_id, place, table.object_id, own, each.target, there


def _identity_columns(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        for each in table.columns:
            if each.identity:
                yield (table.object_id, each.name, each.column_id, each.identity.seed,
                       each.identity.step, each.identity.last, True)  # fmt: skip


def _partitions(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if not table.is_view:
            rows = world.count(table)
            ids = [key.index_id for key in table.keys] or [0]
            if not any(key.clustered for key in table.keys) and 0 not in ids:
                ids.insert(0, 0)
            for index in ids:
                yield table.object_id * 10 + index, table.object_id, index, 1, rows, rows


def _sql_modules(world: World) -> Iterator[tuple[Any, ...]]:
    for table in world.tables:
        if table.is_view:
            yield table.object_id, table.definition, True, True, False


def _nothing(world: World) -> Iterator[tuple[Any, ...]]:
    return iter(())


TYPE_ROWS = (
    "name sysname!; system_type_id tinyint!; user_type_id int!; schema_id int!; principal_id int;"
    " max_length smallint!; precision tinyint!; scale tinyint!; collation_name sysname;"
    " is_nullable bit; is_user_defined bit!; is_assembly_type bit!; default_object_id int!;"
    " rule_object_id int!; is_table_type bit!"
)
OBJECT = (
    "name sysname!; object_id int!; principal_id int; schema_id int!; parent_object_id int!;"
    " type char(2)!; type_desc nvarchar(60); create_date datetime!; modify_date datetime!;"
    " is_ms_shipped bit!; is_published bit!; is_schema_published bit!"
)
COLUMN = (
    "object_id int!; name sysname; column_id int!; system_type_id tinyint!; user_type_id int!;"
    " max_length smallint!; precision tinyint!; scale tinyint!; collation_name sysname;"
    " is_nullable bit; is_ansi_padded bit!; is_identity bit!; is_computed bit!; is_sparse bit!;"
    " default_object_id int!; rule_object_id int!; is_rowguidcol bit!; is_hidden bit!;"
    " generated_always_type tinyint; graph_type int"
)
HEADS = {
    "sys.databases": "name sysname!; database_id int!; source_database_id int;"
    " owner_sid varbinary(85); create_date datetime; compatibility_level tinyint!;"
    " collation_name sysname; user_access tinyint;"
    " user_access_desc nvarchar(60); is_read_only bit; state tinyint; state_desc nvarchar(60);"
    " snapshot_isolation_state tinyint; snapshot_isolation_state_desc nvarchar(60);"
    " is_read_committed_snapshot_on bit; recovery_model tinyint; recovery_model_desc nvarchar(60);"
    " is_memory_optimized_elevate_to_snapshot_on bit",
    "sys.schemas": "name sysname!; schema_id int!; principal_id int",
}
VIEWS: dict[str, View] = {
    "sys.databases": View(HEADS["sys.databases"], _databases),
    "sys.schemas": View(HEADS["sys.schemas"], _schemas),
    "sys.objects": View(OBJECT, _objects),
    "sys.all_objects": View(OBJECT, _objects),
    "sys.tables": View(
        OBJECT + "; is_external bit!; temporal_type tinyint; temporal_type_desc nvarchar(60);"
        " durability tinyint; durability_desc nvarchar(60); is_memory_optimized bit;"
        " is_filetable bit",
        _tables,
    ),
    "sys.views": View(OBJECT + "; with_check_option bit!", _views),
    "sys.columns": View(COLUMN, _columns),
    "sys.all_columns": View(COLUMN, _all_columns),
    "sys.types": View(TYPE_ROWS, _types),
    "sys.indexes": View(
        "object_id int!; name sysname; index_id int!; type tinyint!; type_desc nvarchar(60);"
        " is_unique bit; data_space_id int; ignore_dup_key bit; is_primary_key bit;"
        " is_unique_constraint bit; fill_factor tinyint!; is_padded bit; is_disabled bit;"
        " has_filter bit; filter_definition nvarchar(max)",
        _indexes,
    ),
    "sys.index_columns": View(
        "object_id int!; index_id int!; index_column_id int!; column_id int!; key_ordinal tinyint!;"
        " partition_ordinal tinyint!; is_descending_key bit; is_included_column bit",
        _index_columns,
    ),
    "sys.key_constraints": View(
        "name sysname!; object_id int!; principal_id int; schema_id int!; parent_object_id int!;"
        " type char(2); type_desc nvarchar(60); unique_index_id int; is_system_named bit!;"
        " is_enforced bit",
        _key_constraints,
    ),
    "sys.check_constraints": View(
        "name sysname!; object_id int!; schema_id int!; parent_object_id int!; type char(2);"
        " type_desc nvarchar(60); is_disabled bit!; is_not_trusted bit!; parent_column_id int!;"
        " definition nvarchar(max); is_system_named bit!",
        _check_constraints,
    ),
    "sys.default_constraints": View(
        "name sysname!; object_id int!; schema_id int!; parent_object_id int!; type char(2);"
        " type_desc nvarchar(60); parent_column_id int!; definition nvarchar(max);"
        " is_system_named bit!",
        _default_constraints,
    ),
    "sys.foreign_keys": View(
        "name sysname!; object_id int!; schema_id int!; parent_object_id int!; type char(2);"
        " type_desc nvarchar(60); referenced_object_id int; is_disabled bit!;"
        " delete_referential_action tinyint; delete_referential_action_desc nvarchar(60);"
        " update_referential_action tinyint; update_referential_action_desc nvarchar(60)",
        _foreign_keys,
    ),
    "sys.foreign_key_columns": View(
        "constraint_object_id int!; constraint_column_id int!; parent_object_id int!;"
        " parent_column_id int!; referenced_object_id int!; referenced_column_id int!",
        _foreign_key_columns,
    ),
    "sys.identity_columns": View(
        "object_id int!; name sysname; column_id int!; seed_value bigint; increment_value bigint;"
        " last_value bigint; is_identity bit!",
        _identity_columns,
    ),
    "sys.computed_columns": View(COLUMN + "; definition nvarchar(max); is_persisted bit", _nothing),
    "sys.partitions": View(
        "partition_id bigint!; object_id int!; index_id int!; partition_number int!; rows bigint;"
        " hobt_id bigint",
        _partitions,
    ),
    "sys.dm_db_partition_stats": View(
        "partition_id bigint; object_id int!; index_id int!; partition_number int!;"
        " row_count bigint; used_page_count bigint",
        _partitions,
    ),
    "sys.extended_properties": View(
        "class tinyint!; class_desc nvarchar(60); major_id int!; minor_id int!; name sysname!;"
        " value nvarchar(4000)",
        _extended_properties,
    ),
    "sys.triggers": View(
        "name sysname!; object_id int!; parent_id int!; is_disabled bit", _nothing
    ),
    "sys.synonyms": View(
        "name sysname!; object_id int!; schema_id int!; base_object_name nvarchar(1035)", _nothing
    ),
    "sys.sql_modules": View(
        "object_id int!; definition nvarchar(max); uses_ansi_nulls bit; uses_quoted_identifier bit;"
        " is_schema_bound bit",
        _sql_modules,
    ),
    **INFORMATION_VIEWS,
}
