"""The code matrix: every action with every error it can meet, and what the answer must say.

The catalogs of the rows: `memory` as `test_codes.fill` makes it, `files` (examples/parquet_folder,
read-only), `broken` (every method raises RuntimeError) and `torn` (every method raises Conflict).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from grpc import StatusCode

from tests.helpers.raw import descriptor

INVALID = StatusCode.INVALID_ARGUMENT
EXISTS = StatusCode.ALREADY_EXISTS
MISSING = StatusCode.NOT_FOUND
STATE = StatusCode.FAILED_PRECONDITION
UNSUPPORTED = StatusCode.UNIMPLEMENTED
ABORTED = StatusCode.ABORTED
INTERNAL = StatusCode.INTERNAL


class Row(NamedTuple):
    """Hold a request: None is the valid one, a map changes it, bytes are the body."""

    action: str
    error: str
    request: Any
    code: StatusCode
    words: tuple[str, ...]
    catalog: str = "memory"


def ipc(*fields: tuple[str, pa.DataType]) -> bytes:
    data: bytes = pa.schema(list(fields)).serialize().to_pybytes()
    return data


def _path(*names: str) -> bytes:
    return descriptor(*names).SerializeToString()


ORDERS = {"catalog": "memory", "schema": "sales", "name": "Orders", "ignore_not_found": False}
ONE_FIELD = ipc(("extra", pa.int32()))
CATALOG_ONLY: dict[str, Any] = {"catalog_name": "memory"}

# One request of each action that succeeds on the catalog `memory`.
VALID: dict[str, dict[str, Any]] = {
    "create_schema": {**CATALOG_ONLY, "schema": "New", "comment": None, "tags": {}},
    "drop_schema": {
        "type": "schema",
        **CATALOG_ONLY,
        "schema_name": "",
        "name": "empty",
        "ignore_not_found": False,
    },
    "create_table": {
        **CATALOG_ONLY,
        "schema_name": "sales",
        "table_name": "New",
        "arrow_schema": ipc(("a", pa.int64()), ("b", pa.string())),
        "on_conflict": "error",
        "not_null_constraints": [0],
        "unique_constraints": [],
        "check_constraints": ["(a > 0)"],
    },
    "drop_table": {
        "type": "table",
        **CATALOG_ONLY,
        "schema_name": "sales",
        "name": "Orders",
        "ignore_not_found": False,
    },
    "add_column": {**ORDERS, "column_schema": ONE_FIELD, "if_column_not_exists": False},
    "remove_column": {
        **ORDERS,
        "removed_column": "customer",
        "if_column_exists": False,
        "cascade": False,
    },
    "rename_column": {**ORDERS, "old_name": "customer", "new_name": "Buyer"},
    "rename_table": {**ORDERS, "new_table_name": "Purchases"},
    "set_default": {**ORDERS, "column_name": "customer", "expression": "'nobody'"},
    "change_column_type": {
        **ORDERS,
        "column_schema": ipc(("code", pa.binary())),
        "expression": "CAST(code AS BLOB)",
    },
    "set_not_null": {**ORDERS, "column_name": "customer"},
    "drop_not_null": {**ORDERS, "column_name": "code"},
    "add_constraint": {**ORDERS, "constraint": "UNIQUE(customer)"},
    "set_layout": {**ORDERS, "partition_by": "kind", "sort_by": "id"},
    "add_field": {
        **ORDERS,
        "column_path": ["detail"],
        "column_schema": ONE_FIELD,
        "if_field_not_exists": False,
    },
    "remove_field": {
        **ORDERS,
        "column_path": ["detail", "x"],
        "if_column_exists": False,
        "cascade": False,
    },
    "rename_field": {**ORDERS, "column_path": ["detail", "x"], "new_name": "Z"},
    "list_schemas": CATALOG_ONLY,
    "catalog_version": CATALOG_ONLY,
    "create_transaction": CATALOG_ONLY,
    "endpoints": {
        "descriptor": _path("sales", "Orders"),
        "parameters": {"json_filters": "", "column_ids": [0], "at_unit": "", "at_value": ""},
    },
    "flight_info": {"descriptor": _path("sales", "Orders"), "at_unit": "", "at_value": ""},
    "table_function_flight_info": {
        "descriptor": _path("sales", "f"),
        "parameters": b"",
        "table_input_schema": b"",
        "at_unit": "",
        "at_value": "",
    },
}

REQUIRED: dict[str, tuple[str, ...]] = {
    "create_schema": ("schema",),
    "drop_schema": ("name",),
    "create_table": ("schema_name", "table_name", "arrow_schema"),
    "drop_table": ("schema_name", "name"),
    "add_column": ("schema", "name", "column_schema"),
    "remove_column": ("schema", "name", "removed_column"),
    "rename_column": ("schema", "name", "old_name", "new_name"),
    "rename_table": ("schema", "name", "new_table_name"),
    "set_default": ("schema", "name", "column_name", "expression"),
    "change_column_type": ("schema", "name", "column_schema"),
    "set_not_null": ("schema", "name", "column_name"),
    "drop_not_null": ("schema", "name", "column_name"),
    "add_constraint": ("schema", "name", "constraint"),
    "set_layout": ("schema", "name"),
    "add_field": ("schema", "name", "column_path", "column_schema"),
    "remove_field": ("schema", "name", "column_path"),
    "rename_field": ("schema", "name", "column_path", "new_name"),
    "endpoints": ("descriptor",),
    "flight_info": ("descriptor",),
    "table_function_flight_info": ("descriptor",),
}
OF_CATALOG = ("list_schemas", "catalog_version", "create_transaction")
DDL = tuple(action for action in VALID if "schema" in VALID[action] or "type" in VALID[action])
DDL += ("create_table",)
ALTER = tuple(action for action in VALID if "catalog" in VALID[action])
READS = ("endpoints", "flight_info")
STATEMENTS = ("insert", "update", "delete")


def catalog_key(action: str) -> str:
    """Return the field that names the catalog; READS and STATEMENTS name it in a header."""
    if action in ALTER:
        return "catalog"
    return "catalog_name" if "catalog_name" in VALID.get(action, {}) else ""


EMPTY = {"column_schema": b"", "arrow_schema": b"", "descriptor": b"", "column_path": []}
NESTED_FIELDS = ("parameters",)


def malformed() -> Iterator[Row]:
    for action, valid in VALID.items():
        yield Row(action, "empty body", b"", INVALID, (action, "msgpack"))
        yield Row(action, "garbage", b"\xc1\xff\x00garbage", INVALID, (action, "msgpack"))
        yield Row(action, "an array, not a map", b"\x91\xa1x", INVALID, (action,))
        yield Row(action, "a cut map", b"\x85\xa6schema", INVALID, (action, "msgpack"))
        yield Row(action, "an integer key", b"\x81\x01\x02", INVALID, (action, "msgpack"))
        for field in REQUIRED.get(action, ()):
            missing = (action, field)
            yield Row(action, f"no {field}", {field: ...}, INVALID, missing)
            yield Row(action, f"{field} empty", {field: EMPTY.get(field, "")}, INVALID, (field,))
            yield Row(action, f"{field} is nil", {field: None}, INVALID, missing)
        for field in valid:
            yield Row(action, f"{field} is 5.5", {field: 5.5}, INVALID, (action, field))
        for field in valid.keys() & {"schema", "name", "new_name"}:
            yield Row(action, f"{field} is not UTF-8", {field: b"\xff"}, INVALID, (action, "UTF-8"))
        for field in valid.keys() & {"column_schema", "arrow_schema"}:
            yield Row(action, f"{field} is garbage", {field: b"junk"}, INVALID, (field, "Arrow"))
        if "column_schema" in valid:
            none, two = ipc(), ipc(("a", pa.int8()), ("b", pa.int8()))
            words = (action, "column_schema", "exactly one")
            yield Row(
                action, "column_schema without a field", {"column_schema": none}, INVALID, words
            )
            yield Row(action, "column_schema of two fields", {"column_schema": two}, INVALID, words)


def absent() -> Iterator[Row]:
    for action in VALID:
        key = catalog_key(action)
        if key:
            words = ("catalog", "nowhere", "served here: memory")
            yield Row(action, "no such catalog", {key: "nowhere"}, MISSING, words)
    for action in READS:
        yield Row(action, "no such catalog", None, MISSING, ("nowhere", "memory"), "nowhere")
        for names in (("nope", "Orders"), ("sales", "nope")):
            request = {"descriptor": _path(*names)}
            yield Row(action, f"no {'.'.join(names)}", request, MISSING, ("nope",))
    for action in (*ALTER, "create_table", "drop_table"):
        key = "schema" if action in ALTER else "schema_name"
        yield Row(action, "no such schema", {key: "nope"}, MISSING, ("schema", "nope"))
    for action in (*ALTER, "drop_table"):
        yield Row(action, "no such table", {"name": "nope"}, MISSING, ("table", "nope"))


def absent_inside() -> Iterator[Row]:
    for action in (
        "remove_column",
        "rename_column",
        "set_default",
        "set_not_null",
        "drop_not_null",
    ):
        key = {"remove_column": "removed_column", "rename_column": "old_name"}.get(
            action, "column_name"
        )
        yield Row(action, "no such column", {key: "nope"}, MISSING, ("column", "nope"))
    for action in ("add_field", "remove_field", "rename_field"):
        for path in (["nope", "x"], ["detail", "nope", "x"], ["detail", "nope"]):
            yield Row(action, f"no {'.'.join(path)}", {"column_path": path}, MISSING, ("nope",))


def unable() -> Iterator[Row]:
    """Yield read-only, broken and torn catalogs."""
    words: tuple[str, ...]
    for action in VALID.keys() - {"create_transaction"}:  # it asks nothing of the catalog
        key = catalog_key(action)
        trace = ("internal error", "log")
        yield Row(action, "a bug", {key: "broken"} if key else None, INTERNAL, trace, "broken")
        torn = {key: "torn"} if key else None
        yield Row(action, "a conflict", torn, ABORTED, ("table", "try again"), "torn")
    for statement in STATEMENTS:
        yield Row(statement, "a bug", None, INTERNAL, ("internal error", "log"), "broken")
        yield Row(statement, "a conflict", None, ABORTED, ("try again",), "torn")
        words = ("sales.Orders", "does not support", statement.upper())
        yield Row(statement, "read-only", None, UNSUPPORTED, words, "files")
    for action in DDL:
        words = ("catalog", "files") if action.endswith("_schema") else ("sales",)
        request = {catalog_key(action): "files"}
        yield Row(action, "read-only", request, UNSUPPORTED, ("does not support", *words), "files")
    travel = {"at_unit": "VERSION", "at_value": "1"}
    words = ("sales.Orders", "no earlier versions")
    yield Row("flight_info", "no past", travel, UNSUPPORTED, words, "files")
    yield Row("endpoints", "no past", {"parameters": travel}, UNSUPPORTED, words, "files")


_TWO_P = pa.struct([pa.field("p", pa.int64()), pa.field("P", pa.string())])
TWICE = {
    "STRUCT": _TWO_P,
    "LIST": pa.list_(_TWO_P),
    "ARRAY": pa.list_(_TWO_P, 2),
    "MAP": pa.map_(pa.string(), _TWO_P),
    "STRUCT in STRUCT": pa.struct([pa.field("p", pa.struct([pa.field("q", _TWO_P)]))]),
}
TWO_A = ipc(("a", pa.int8()), ("A", pa.int8()))
LONG = "𝄞" * 100_000
# What only one action can meet.
PARTICULAR: list[tuple[str, str, Any, StatusCode, tuple[str, ...]]] = [
    ("create_schema", "it exists", {"schema": "SALES"}, EXISTS, ("schema", "SALES")),
    ("drop_schema", "it has tables", {"name": "sales"}, STATE, ("sales", "table", "drop")),
    ("drop_schema", "no such schema", {"name": "nope"}, MISSING, ("schema", "nope")),
    ("drop_schema", "a long name", {"name": LONG}, MISSING, ("schema", "𝄞𝄞")),
    ("create_table", "it exists", {"table_name": "orders"}, EXISTS, ("table", "orders")),
    ("create_table", "on_conflict", {"on_conflict": "x"}, INVALID, ("error, ignore, replace",)),
    ("create_table", "a name twice", {"arrow_schema": TWO_A}, INVALID, ("'A'", "twice")),
    *(
        (action, f"a field name twice, {title}", {key: ipc((column, data_type))}, INVALID,
         (repr(column), "two fields", "without regard to case"))
        for action, key, column in (
            ("create_table", "arrow_schema", "a"),
            ("add_column", "column_schema", "extra"),
            ("add_field", "column_schema", "extra"),
            ("change_column_type", "column_schema", "code"),
        )
        for title, data_type in TWICE.items()
    ),
    ("create_table", "no columns", {"arrow_schema": ipc(), "not_null_constraints": []},
     INVALID, ("at least one column",)),
    ("create_table", "NOT NULL 2", {"not_null_constraints": [2]}, INVALID, ("column 2",)),
    ("create_table", "NOT NULL -1", {"not_null_constraints": [-1]}, INVALID, ("column -1",)),
    ("create_table", "UNIQUE 9", {"unique_constraints": [9]}, INVALID, ("column 9",)),
    ("create_table", "UNIQUE of z", {"unique_columns": ["z"]}, INVALID, ("z",)),
    ("create_table", "KEY of z", {"primary_key_columns": ["z"]}, INVALID, ("z",)),
    ("create_table", "FOREIGN KEY", {"extra_constraints": ["FOREIGN KEY (a) REFERENCES t(a)"]},
     UNSUPPORTED, ("foreign key",)),
    ("create_table", "CHECK of z", {"check_constraints": ["z > 0"]}, INVALID, ("z",)),
    ("create_table", "a broken CHECK", {"check_constraints": ["a >"]}, INVALID, ("a >",)),
    ("create_table", "a subquery", {"check_constraints": ["a > (SELECT 1)"]}, INVALID, ("SELECT",)),
    ("create_table", "a file function",
     {"check_constraints": ["read_text('/etc/passwd') IS NULL"]}, INVALID, ("read_text",)),
    ("add_column", "it exists", {"column_schema": ipc(("AMOUNT", pa.int8()))}, EXISTS, ("AMOUNT",)),
    ("remove_column", "the last", {"name": "one", "removed_column": "A"}, STATE, ("last", "One")),
    ("remove_column", "in a CHECK", {"removed_column": "amount"}, STATE, ("amount", "CASCADE")),
    ("remove_column", "in a key", {"removed_column": "id"}, STATE, ("id", "CASCADE")),
    ("rename_column", "it exists", {"new_name": "ID"}, EXISTS, ("column", "ID")),
    ("rename_table", "it exists", {"new_table_name": "ONE"}, EXISTS, ("table", "ONE")),
    ("set_default", "no SQL", {"expression": "nonsense("}, INVALID, ("nonsense(",)),
    ("set_default", "a column in it", {"expression": "id + 1"}, INVALID, ("id",)),
    ("change_column_type", "no such column", {"column_schema": ipc(("nope", pa.int8()))},
     MISSING, ("column", "nope")),
    ("change_column_type", "a value is lost",
     {"column_schema": ipc(("customer", pa.int32())), "expression": ""}, STATE, ("customer",)),
    ("change_column_type", "USING no SQL", {"expression": "nonsense("}, INVALID, ("nonsense(",)),
    ("set_not_null", "over NULL", {"column_name": "amount"}, STATE, ("amount", "NULL")),
    ("drop_not_null", "of a primary key", {"column_name": "id"}, STATE, ("id", "primary key")),
    ("add_constraint", "no constraint", {"constraint": "HELLO"}, INVALID, ("HELLO", "UNIQUE")),
    ("add_constraint", "of z", {"constraint": "UNIQUE(z)"}, INVALID, ("z",)),
    ("add_constraint", "two rows alike", {"constraint": "UNIQUE(kind)"}, STATE, ("kind",)),
    ("add_constraint", "a row against it", {"constraint": "CHECK (id > 1)"}, STATE, ("id > 1",)),
    ("set_layout", "no layout", {"partition_by": None, "sort_by": None}, INVALID, ("sort_by",)),
    ("set_layout", "no JSON", b'{"schema": ', INVALID, ("set_layout",)),
    ("set_layout", "on memory", None, UNSUPPORTED, ("sales.Orders", "layout")),
    ("add_field", "it exists", {"column_schema": ipc(("X", pa.int8()))}, EXISTS, ("field", "X")),
    ("add_field", "the name is lost", {"column_schema": ipc(("detail", pa.float64()))},
     UNSUPPORTED, ("detail", "memory.jetbridge.run('ALTER TABLE sales.Orders ADD COLUMN")),
    ("add_field", "the name is lost, deeper",
     {"column_path": ["detail", "z"], "column_schema": ipc(("detail", pa.float64()))},
     UNSUPPORTED, ("detail", "jetbridge.run('ALTER TABLE sales.Orders ADD COLUMN")),
    ("add_field", "not a STRUCT", {"column_path": ["customer"]}, INVALID, ("STRUCT",)),
    ("remove_field", "a column only", {"column_path": ["detail"]}, INVALID, ("column_path",)),
    ("remove_field", "the last", {"column_path": ["lone", "only"]}, STATE, ("last", "only")),
    ("rename_field", "a column only", {"column_path": ["detail"]}, INVALID, ("column_path",)),
    ("rename_field", "it exists", {"new_name": "Y"}, EXISTS, ("field", "Y")),
    ("endpoints", "column 99", {"parameters": {"column_ids": [99]}}, INVALID, ("99", "Orders")),
    ("endpoints", "filters no JSON", {"parameters": {"json_filters": "{"}}, INVALID, ("filter",)),
    ("endpoints", "AT MOON", {"parameters": {"at_unit": "MOON", "at_value": "1"}}, INVALID,
     ("VERSION or TIMESTAMP", "MOON")),
    ("endpoints", "version 99", {"parameters": {"at_unit": "VERSION", "at_value": "99"}},
     MISSING, ("99", "version")),
    ("flight_info", "AT MOON", {"at_unit": "MOON", "at_value": "1"}, INVALID, ("MOON",)),
    ("flight_info", "version x", {"at_unit": "VERSION", "at_value": "x"}, INVALID, ("x",)),
    ("flight_info", "no time", {"at_unit": "TIMESTAMP", "at_value": "x"}, INVALID, ("x",)),
    ("flight_info", "before it was", {"at_unit": "TIMESTAMP", "at_value": "1999-01-01"},
     MISSING, ("1999-01-01",)),
    ("flight_info", "version 99", {"at_unit": "VERSION", "at_value": "99"}, MISSING, ("99",)),
    ("flight_info", "a CMD descriptor", {"descriptor": b"\x08\x02\x12\x01x"}, INVALID, ("path",)),
    ("flight_info", "no protobuf", {"descriptor": b"\xff\xff"}, INVALID, ("descriptor",)),
    ("table_function_flight_info", "no function", None, MISSING, ("function", "f")),
    ("no_such_action", "unknown", b"", UNSUPPORTED, ("no_such_action", "ListActions")),
]  # fmt: skip


ROWS = (*malformed(), *absent(), *absent_inside(), *unable(), *(Row(*row) for row in PARTICULAR))

# The codes each action must be able to answer, as the contracts name them.
EXPECTED: dict[str, set[StatusCode]] = {
    "create_schema": {EXISTS, MISSING, UNSUPPORTED},
    "drop_schema": {MISSING, STATE, UNSUPPORTED},
    "create_table": {EXISTS, MISSING, UNSUPPORTED},
    "drop_table": {MISSING, UNSUPPORTED},
    "add_column": {EXISTS, MISSING, UNSUPPORTED},
    "remove_column": {MISSING, STATE, UNSUPPORTED},
    "rename_column": {EXISTS, MISSING, UNSUPPORTED},
    "rename_table": {EXISTS, MISSING, UNSUPPORTED},
    "set_default": {MISSING, UNSUPPORTED},
    "change_column_type": {MISSING, STATE, UNSUPPORTED},
    "set_not_null": {MISSING, STATE, UNSUPPORTED},
    "drop_not_null": {MISSING, UNSUPPORTED},
    "add_constraint": {MISSING, STATE, UNSUPPORTED},
    "set_layout": {MISSING, UNSUPPORTED},
    "add_field": {EXISTS, MISSING, UNSUPPORTED},
    "remove_field": {MISSING, STATE, UNSUPPORTED},
    "rename_field": {EXISTS, MISSING, UNSUPPORTED},
    "endpoints": {MISSING, UNSUPPORTED},
    "flight_info": {MISSING, UNSUPPORTED},
    "table_function_flight_info": {MISSING},
    **dict.fromkeys(OF_CATALOG, {MISSING}),
}
