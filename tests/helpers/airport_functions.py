"""The functions of the reference server that the recorded traffic calls, as a schema `utils`.

Also an example of how to add functions to a catalog that has none: wrap it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.catalog import (
    Catalog,
    CatalogVersion,
    Function,
    FunctionInfo,
    Parameter,
    Scan,
    Schema,
    SchemaInfo,
    Table,
    Transform,
)
from jetbridge.errors import BadRequest, NotFound

WIDE = 20
LONG = 10


@dataclass(frozen=True)
class Scalar:
    """Define a scalar function; `work` gets one array per parameter."""

    signature: FunctionInfo
    result: pa.DataType
    work: Callable[..., pa.Array]

    def info(self) -> FunctionInfo:
        return self.signature

    def returns(self) -> pa.DataType:
        return self.result

    def call(self, arguments: pa.RecordBatch) -> pa.Array:
        wanted = len(self.signature.parameters)
        if arguments.num_columns != wanted:
            raise BadRequest(
                f"{self.signature.name} takes {wanted} arguments, not {arguments.num_columns}"
            )
        return self.work(*arguments.columns)


@dataclass(frozen=True)
class Producer:
    """Define a table function; `columns` and `work` get the one row of arguments."""

    signature: FunctionInfo
    columns: Callable[[pa.RecordBatch], pa.Schema]
    work: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]]

    def info(self) -> FunctionInfo:
        return self.signature

    def bind(self, arguments: pa.RecordBatch) -> pa.Schema:
        wanted = [parameter.name for parameter in self.signature.parameters]
        given = arguments.schema.names
        if given != wanted or arguments.num_rows != 1:
            raise BadRequest(f"{self.signature.name} takes {wanted}, not {given}")
        return self.columns(arguments)

    def rows(self, arguments: pa.RecordBatch, request: Scan) -> Iterable[pa.RecordBatch]:
        return self.work(arguments)


@dataclass(frozen=True)
class Transformer:
    """Define a transformer: `columns` gets arguments and input columns, `work` makes one use."""

    signature: FunctionInfo
    columns: Callable[[pa.RecordBatch, pa.Schema], pa.Schema]
    work: Callable[[pa.RecordBatch, pa.Schema], Transform]

    def info(self) -> FunctionInfo:
        return self.signature

    def bind_table(self, arguments: pa.RecordBatch, table: pa.Schema) -> pa.Schema:
        wanted = [p.name for p in self.signature.parameters if not p.table]
        if arguments.schema.names != wanted:
            raise BadRequest(f"{self.signature.name} takes {wanted}, not {arguments.schema.names}")
        return self.columns(arguments, table)

    def transforming(self, arguments: pa.RecordBatch, table: pa.Schema) -> Transform:
        return self.work(arguments, table)


def info(name: str, *parameters: Parameter) -> FunctionInfo:
    return FunctionInfo(name, parameters)


def _one_of(arguments: pa.RecordBatch, name: str) -> object:
    return arguments.column(name)[0].as_py()


def _repeat(arguments: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    for _ in range(int(str(_one_of(arguments, "count")))):
        yield pa.RecordBatch.from_pydict({"result": arguments.column("input")})


def _wide_schema(_: pa.RecordBatch) -> pa.Schema:
    return pa.schema([(f"result_{i}", pa.int32()) for i in range(WIDE)])


def _wide(arguments: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    rows = int(str(_one_of(arguments, "count")))
    columns = [pa.array([i] * rows, pa.int32()) for i in range(WIDE)]
    yield pa.RecordBatch.from_arrays(columns, schema=_wide_schema(arguments))


def _with_input(arguments: pa.RecordBatch, table: pa.Schema) -> pa.Schema:
    return pa.schema([arguments.schema.field("input"), table.field(0)])


def _prefixing(arguments: pa.RecordBatch, table: pa.Schema) -> Transform:
    schema = _with_input(arguments, table)

    def transform(batch: pa.RecordBatch | None) -> Iterable[pa.RecordBatch]:
        if batch is None:
            return [
                pa.RecordBatch.from_arrays([pa.array(["last"]), pa.array(["row"])], schema=schema)
            ]
        first = pa.array([_one_of(arguments, "input")] * batch.num_rows, schema.field(0).type)
        return [pa.RecordBatch.from_arrays([first, batch.column(0)], schema=schema)]

    return transform


def _repeating(_: pa.RecordBatch, __: pa.Schema) -> Transform:
    return lambda batch: [] if batch is None else [batch] * LONG


TEXT, COUNT = Parameter("input", pa.string()), Parameter("count", pa.int32())
TABLE = Parameter("table_input", table=True)

FUNCTIONS: tuple[Function, ...] = (
    Scalar(info("test_uppercase", Parameter("a", pa.string())), pa.string(), pc.utf8_upper),
    Scalar(info("test_any_type", Parameter("a")), pa.string(), lambda a: a.cast(pa.string())),
    Scalar(
        info("test_add", Parameter("a", pa.int64()), Parameter("b", pa.int64())),
        pa.int64(),
        pc.add_checked,
    ),
    Producer(
        info("test_echo", TEXT),
        lambda _: pa.schema([("result", pa.string())]),
        lambda row: [row.rename_columns(["result"])],
    ),
    Producer(
        info("test_repeat", TEXT, COUNT), lambda _: pa.schema([("result", pa.string())]), _repeat
    ),
    Producer(info("test_wide", COUNT), _wide_schema, _wide),
    Producer(
        info("test_dynamic_schema", Parameter("input")), lambda row: row.schema, lambda row: [row]
    ),
    Producer(
        info(
            "test_dynamic_schema_named_parameters",
            Parameter("name", pa.string()),
            Parameter("location", pa.string(), named=True),
            Parameter("input"),
            Parameter("city", pa.string()),
        ),
        lambda row: row.schema,
        lambda row: [row],
    ),
    Transformer(info("test_table_in_out", TEXT, TABLE), _with_input, _prefixing),
    Transformer(info("test_table_in_out_long", TABLE), lambda _, table: table, _repeating),
)


class Utils:
    """Serve a schema of functions only."""

    def info(self) -> SchemaInfo:
        return SchemaInfo("utils", "functions of the reference server")

    def list_tables(self) -> Sequence[Table]:
        return []

    def load_table(self, name: str) -> Table:
        raise NotFound("table", f"utils.{name}")

    def list_functions(self) -> Sequence[Function]:
        return FUNCTIONS


class WithFunctions:
    """Serve a catalog and the schema `utils`."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog, self._utils = catalog, Utils()

    def list_schemas(self) -> Sequence[Schema]:
        return [*self._catalog.list_schemas(), self._utils]

    def load_schema(self, name: str) -> Schema:
        return self._utils if name.casefold() == "utils" else self._catalog.load_schema(name)

    def version(self) -> CatalogVersion:
        return self._catalog.version()

    def snapshot(self) -> Catalog:
        return self._catalog.snapshot()

    def create_schema(self, info: SchemaInfo) -> Schema:
        return self._catalog.create_schema(info)

    def drop_schema(self, name: str) -> None:
        self._catalog.drop_schema(name)


class Databases(dict[str, Catalog]):
    """Serve catalogs with `reset` and `create_database`, actions of this server."""

    def reset(self, _: bytes) -> Iterable[bytes]:
        """Forget all databases."""
        self.clear()
        return ()

    def create_database(self, name: bytes) -> Iterable[bytes]:
        """Add an empty database of that name."""
        self[name.decode()] = WithFunctions(MemoryCatalog())
        return ()

    def actions(self) -> dict[str, Callable[[bytes], Iterable[bytes]]]:
        return {"reset": self.reset, "create_database": self.create_database}
