"""Procedures that list what is in the catalog, as drivers ask for it."""

import re
from collections.abc import Generator
from typing import Any

from standins.tds.engine.expressions.compare import as_regex
from standins.tds.engine.metadata.functions import find
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.storage.catalog import DEFAULT_COLLATION, ColumnDef, Table
from standins.tds.engine.types import (
    BIT,
    INT,
    KINDS,
    SYSNAME,
    family,
    is_unicode,
    kind,
    max_length,
    precision,
    scale,
    shown,
)
from standins.tds.values import Answer, Column, Rows, SqlType

SMALL = SqlType("smallint")
TEXT = SqlType("nvarchar", 254)
TDS_COLLATION = bytes.fromhex("0904d00034")
# ODBC's numbers of types.
ODBC = {
    "bit": -7, "tinyint": -6, "smallint": 5, "int": 4, "bigint": -5, "real": 7, "float": 6,
    "decimal": 3, "numeric": 2, "money": 3, "smallmoney": 3, "char": 1, "varchar": 12, "nchar": -8,
    "nvarchar": -9, "text": -1, "ntext": -10, "binary": -2, "varbinary": -3, "image": -4,
    "uniqueidentifier": -11, "date": -9, "time": -9, "datetime2": -9, "datetimeoffset": -9,
    "datetime": 11, "smalldatetime": 11,
}  # fmt: skip
ODBC3 = {**ODBC, "date": 91, "time": -154, "datetime2": 93, "datetimeoffset": -155, "datetime": 93,
         "smalldatetime": 93}  # fmt: skip


def _heads(*heads: tuple[str, SqlType]) -> tuple[Column, ...]:
    return tuple(Column(name, sql_type) for name, sql_type in heads)


def _chosen(session: Any, arguments: Any) -> list[Table]:
    """Those whose names fit the first two arguments, which may be patterns."""
    name = arguments.value(0, "@table_name")
    schema = arguments.value(1, "@table_owner")

    def fits(pattern: Any, text: str) -> bool:
        if pattern is None:
            return True
        return re.fullmatch(as_regex(str(pattern)), text, re.IGNORECASE) is not None

    with session.statement():
        return sorted(
            (t for t in session.tables()
             if t.database == session.database and fits(name, t.name) and fits(schema, t.schema)),
            key=lambda t: (t.schema, t.name),
        )  # fmt: skip


def _tables(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    rows = [
        (t.database, t.schema, t.name, "VIEW" if t.is_view else "TABLE", None)
        for t in _chosen(session, arguments)
    ]
    yield Rows(
        _heads(("TABLE_QUALIFIER", SYSNAME), ("TABLE_OWNER", SYSNAME), ("TABLE_NAME", SYSNAME),
               ("TABLE_TYPE", SqlType("varchar", 32)), ("REMARKS", SqlType("varchar", 254))),
        rows,
    )  # fmt: skip
    return 0


COLUMN_HEADS = _heads(
    ("TABLE_QUALIFIER", SYSNAME), ("TABLE_OWNER", SYSNAME), ("TABLE_NAME", SYSNAME),
    ("COLUMN_NAME", SYSNAME), ("DATA_TYPE", SMALL), ("TYPE_NAME", SYSNAME), ("PRECISION", INT),
    ("LENGTH", INT), ("SCALE", SMALL), ("RADIX", SMALL), ("NULLABLE", SMALL),
    ("REMARKS", SqlType("varchar", 254)), ("COLUMN_DEF", SqlType("nvarchar", 4000)),
    ("SQL_DATA_TYPE", SMALL), ("SQL_DATETIME_SUB", SMALL), ("CHAR_OCTET_LENGTH", INT),
    ("ORDINAL_POSITION", INT), ("IS_NULLABLE", SqlType("varchar", 254)),
    ("SS_DATA_TYPE", SqlType("tinyint")),
)  # fmt: skip


def _columns(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    rows = []
    for table in _chosen(session, arguments):
        with session.statement():
            columns = session.columns_of(table)
        rows += [_column_row(table, place, each) for place, each in enumerate(columns, 1)]
    yield Rows(COLUMN_HEADS, rows)
    return 0


def _column_row(table: Table, place: int, column: ColumnDef) -> tuple[Any, ...]:
    given = column.type
    octets = max_length(given)
    sized = family(given) in ("string", "binary")
    digits = octets // 2 if is_unicode(given) and octets > 0 else octets
    size = (0 if octets < 0 else digits) if sized else precision(given)
    numeric = family(given) in ("int", "decimal", "float")
    name = f"{given.name} identity" if column.identity else given.name
    return (
        table.database, table.schema, table.name, column.name, ODBC3[given.name], name, size,
        0 if octets < 0 else octets,
        scale(given) if family(given) in ("int", "decimal", "datetime", "time", "offset") else None,
        10 if numeric else None, int(column.nullable), None,
        column.default.text if column.default else None, ODBC[given.name], None,
        (0 if octets < 0 else octets) if sized else None, place,
        "YES" if column.nullable else "NO", kind(given).type_id,
    )  # fmt: skip


def _pkeys(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    rows = []
    for table in _chosen(session, arguments):
        if table.primary is not None:
            rows += [
                (table.database, table.schema, table.name, table.by_id(each).name, place,
                 table.primary.name)
                for place, each in enumerate(table.primary.columns, 1)
            ]  # fmt: skip
    yield Rows(
        _heads(("TABLE_QUALIFIER", SYSNAME), ("TABLE_OWNER", SYSNAME), ("TABLE_NAME", SYSNAME),
               ("COLUMN_NAME", SYSNAME), ("KEY_SEQ", SMALL), ("PK_NAME", SYSNAME)),
        rows,
    )  # fmt: skip
    return 0


def _statistics(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    rows: list[tuple[Any, ...]] = []
    for table in _chosen(session, arguments):
        rows.append((table.database, table.schema, table.name, None, None, None, 0, None, None,
                     None, None, None, None))  # fmt: skip
        for key in table.keys:
            rows += [
                (table.database, table.schema, table.name, int(not key.unique), table.name,
                 key.name, 1 if key.clustered else 3, place, table.by_id(each).name, "A", None,
                 None, None)
                for place, each in enumerate(key.columns, 1)
            ]  # fmt: skip
    yield Rows(
        _heads(("TABLE_QUALIFIER", SYSNAME), ("TABLE_OWNER", SYSNAME), ("TABLE_NAME", SYSNAME),
               ("NON_UNIQUE", SMALL), ("INDEX_QUALIFIER", SYSNAME), ("INDEX_NAME", SYSNAME),
               ("TYPE", SMALL), ("SEQ_IN_INDEX", SMALL), ("COLUMN_NAME", SYSNAME),
               ("COLLATION", SqlType("char", 1)), ("CARDINALITY", INT), ("PAGES", INT),
               ("FILTER_CONDITION", SqlType("varchar", 128))),
        rows,
    )  # fmt: skip
    return 0


def _special_columns(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    rows = []
    for table in _chosen(session, arguments):
        key = table.primary or next(iter(table.uniques), None)
        for each in key.columns if key else ():
            column = table.by_id(each)
            rows.append((1, column.name, ODBC3[column.type.name], column.type.name,
                         precision(column.type), max_length(column.type), scale(column.type),
                         1))  # fmt: skip
    yield Rows(
        _heads(("SCOPE", SMALL), ("COLUMN_NAME", SYSNAME), ("DATA_TYPE", SMALL),
               ("TYPE_NAME", SYSNAME), ("PRECISION", INT), ("LENGTH", INT), ("SCALE", SMALL),
               ("PSEUDO_COLUMN", SMALL)),
        rows,
    )  # fmt: skip
    return 0


def _datatype_info(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    rows = []
    for name, number in ODBC3.items():
        given = KINDS[name]
        rows.append((name, number, given.precision or given.size, None, None, None, 1, 1, 2,
                     0, 0, 0, name, given.scale, given.scale))  # fmt: skip
    yield Rows(
        _heads(("TYPE_NAME", SYSNAME), ("DATA_TYPE", SMALL), ("PRECISION", INT),
               ("LITERAL_PREFIX", SqlType("varchar", 32)),
               ("LITERAL_SUFFIX", SqlType("varchar", 32)),
               ("CREATE_PARAMS", SqlType("varchar", 32)), ("NULLABLE", SMALL),
               ("CASE_SENSITIVE", SMALL), ("SEARCHABLE", SMALL), ("UNSIGNED_ATTRIBUTE", SMALL),
               ("MONEY", SMALL), ("AUTO_INCREMENT", SMALL), ("LOCAL_TYPE_NAME", SYSNAME),
               ("MINIMUM_SCALE", SMALL), ("MAXIMUM_SCALE", SMALL)),
        rows,
    )  # fmt: skip
    return 0


def _table_collations(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    """Which a bulk load asks for after the columns of its table."""
    session = interpreter.session
    with session.statement():
        table = find(session, arguments.required(0, "@object"))
    rows = [
        (place, each.name, TDS_COLLATION, each.collation or DEFAULT_COLLATION)
        if family(each.type) == "string"
        else (place, each.name, None, None)
        for place, each in enumerate(table.columns if table else (), 1)
    ]
    yield Rows(
        _heads(("colid", INT), ("name", SYSNAME), ("tds_collation", SqlType("binary", 5)),
               ("collation", SYSNAME)),
        rows,
    )  # fmt: skip
    return 0


def _first_result_set(interpreter: Any, arguments: Any) -> Generator[Answer, None, int]:
    session = interpreter.session
    text = str(arguments.required(0, "@tsql"))
    with session.statement():
        query = session.compiler().query(parse(text), top=True)
    rows = [
        (False, place, each.name or None, each.nullable, kind(each.type).type_id, shown(each.type),
         max_length(each.type), precision(each.type), scale(each.type), each.identity)
        for place, each in enumerate(query.columns, 1)
    ]  # fmt: skip
    yield Rows(
        _heads(("is_hidden", BIT), ("column_ordinal", INT), ("name", SYSNAME), ("is_nullable", BIT),
               ("system_type_id", INT), ("system_type_name", TEXT), ("max_length", SMALL),
               ("precision", SqlType("tinyint")), ("scale", SqlType("tinyint")),
               ("is_identity_column", BIT)),
        rows,
    )  # fmt: skip
    return 0


CATALOG_PROCEDURES: dict[str, Any] = {
    "sp_tables": _tables,
    "sp_columns": _columns,
    "sp_columns_100": _columns,
    "sp_pkeys": _pkeys,
    "sp_statistics": _statistics,
    "sp_statistics_100": _statistics,
    "sp_special_columns": _special_columns,
    "sp_special_columns_100": _special_columns,
    "sp_datatype_info": _datatype_info,
    "sp_datatype_info_100": _datatype_info,
    "sp_tablecollations_100": _table_collations,
    "sp_describe_first_result_set": _first_result_set,
}
