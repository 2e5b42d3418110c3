"""What sp_describe_undeclared_parameters answers: types from what parameters are used with."""

from typing import Any

from standins.tds.engine.dml.run import plan_insert
from standins.tds.engine.dml.stages import Merging, Targeted
from standins.tds.engine.errors import error
from standins.tds.engine.parse.dialect import parse
from standins.tds.engine.parse.dml import (
    parse_delete,
    parse_insert,
    parse_merge,
    parse_update,
)
from standins.tds.engine.parse.script import Leaf, parse_script
from standins.tds.engine.parse.tokens import Tokens
from standins.tds.engine.types import (
    BIT,
    INT,
    SYSNAME,
    kind,
    max_length,
    precision,
    scale,
    shown,
)
from standins.tds.values import Column, Rows, SqlType

TINY, SMALL = SqlType("tinyint"), SqlType("smallint")
HEADS: tuple[tuple[str, SqlType], ...] = (
    ("parameter_ordinal", INT), ("name", SYSNAME), ("suggested_system_type_id", INT),
    ("suggested_system_type_name", SqlType("nvarchar", 256)), ("suggested_max_length", SMALL),
    ("suggested_precision", TINY), ("suggested_scale", TINY), ("suggested_user_type_id", INT),
    ("suggested_user_type_database", SYSNAME), ("suggested_user_type_schema", SYSNAME),
    ("suggested_user_type_name", SYSNAME),
    ("suggested_assembly_qualified_type_name", SqlType("nvarchar", 4000)),
    ("suggested_xml_collection_id", INT), ("suggested_xml_collection_database", SYSNAME),
    ("suggested_xml_collection_schema", SYSNAME), ("suggested_xml_collection_name", SYSNAME),
    ("suggested_is_xml_document", BIT), ("suggested_is_case_sensitive", BIT),
    ("suggested_is_fixed_length_clr_type", BIT), ("suggested_is_input", BIT),
    ("suggested_is_output", BIT), ("formal_parameter_name", SYSNAME),
    ("suggested_tds_type_id", INT), ("suggested_tds_length", INT),
)  # fmt: skip
TDS_TYPES = {
    "bit": 104, "tinyint": 38, "smallint": 38, "int": 38, "bigint": 38, "real": 109, "float": 109,
    "decimal": 106, "numeric": 108, "money": 110, "smallmoney": 110, "char": 175, "varchar": 167,
    "nchar": 239, "nvarchar": 231, "binary": 173, "varbinary": 165, "uniqueidentifier": 36,
    "date": 40, "time": 41, "datetime2": 42, "datetimeoffset": 43, "datetime": 111,
    "smalldatetime": 111,
}  # fmt: skip


def described_parameters(session: Any, text: str) -> Rows:
    names = list(
        dict.fromkeys(
            token.text for token in Tokens(text).all
            if token.kind == "variable" and not token.text.startswith("@@")
        )
    )  # fmt: skip
    known: dict[str, SqlType | None] = {each.lower(): None for each in names}
    session.undeclared = known
    try:
        for node in parse_script(text).body:
            if isinstance(node, Leaf):
                _plan(session, node)
    finally:
        session.undeclared = None
    rows = []
    for place, name in enumerate(names, 1):
        found = known[name.lower()]
        if found is None:
            raise error(11503, name)
        rows.append(_row(place, name, found))
    return Rows(tuple(Column(name, sql_type) for name, sql_type in HEADS), rows)


def _plan(session: Any, leaf: Leaf) -> None:
    compiler = session.compiler()
    if leaf.kind in ("SELECT", "WITH"):
        compiler.query(parse(leaf.text), top=True)
    elif leaf.kind == "INSERT":
        plan_insert(session, compiler, parse_insert(leaf.tokens()))
    elif leaf.kind == "UPDATE":
        Targeted(compiler, parse_update(leaf.tokens())).change()
    elif leaf.kind == "DELETE":
        Targeted(compiler, parse_delete(leaf.tokens())).change()
    elif leaf.kind == "MERGE":
        Merging(compiler, parse_merge(leaf.tokens(), leaf.ended)).change()


def _row(place: int, name: str, found: SqlType) -> tuple[Any, ...]:
    length = max_length(found)
    return (
        place, name, kind(found).type_id, shown(found), length, precision(found), scale(found),
        None, None, None, None, None, None, None, None, None, False, False, False, True, False,
        None, TDS_TYPES.get(found.name, kind(found).type_id), 65535 if length < 0 else length,
    )  # fmt: skip
