"""Names every private part of another package that the code uses.

A private part may change with any release. So each of these packages has an upper bound in
pyproject.toml, below which all of them were tried. Before you raise a bound, run the tests with the
new release; where one below fails, find what has taken the place of the part.
"""

import ast
import importlib
import inspect
import re
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path

import pytest

from tests.unit.project.test_dependencies import declared_requirements

SOURCE = Path(__file__).resolve().parents[3] / "src/jetbridge"

# By package: the private attributes of its modules and classes.
ATTRIBUTES = {
    "grpcio": [
        "grpc._cython.cygrpc",
        "grpc._cython.cygrpc.ReceiveMessageOperation",
        "grpc._server",
        "grpc._server._CLOSED",
        "grpc._server._OPEN",
        "grpc._server._RECEIVE_MESSAGE_TOKEN",
        "grpc._server._RPCState",
        "grpc._server._is_rpc_state_active",
        "grpc._server._possibly_finish_call",
    ],
    "mssql-python": ["mssql_python.ddbc_bindings.SqlHandle._cancel"],
    "py4j": ["py4j.java_gateway.JVMView._gateway_client"],
    "pyiceberg": [
        "pyiceberg.io.pyarrow.ArrowScan._record_batches_from_scan_tasks_and_deletes",
        "pyiceberg.io.pyarrow._pyarrow_to_schema_without_ids",
        "pyiceberg.io.pyarrow._read_all_delete_files",
    ],
    "pyspark": [
        "pyspark.SparkContext._accumulatorServer",
        "pyspark.SparkContext._active_spark_context",
        "pyspark.SparkContext._gateway",
        "pyspark.SparkContext._jsc",
        "pyspark.SparkContext._jvm",
        "pyspark.errors.exceptions.captured.CapturedException._origin",
        "pyspark.sql.SQLContext._instantiatedContext",
        "pyspark.sql.SparkSession._activeSession",
        "pyspark.sql.SparkSession._instantiatedSession",
        "pyspark.sql.SparkSession._jsparkSession",
        "pyspark.sql.classic.dataframe.DataFrame._jdf",
    ],
}
# What has no underscore and is still not documented: attributes of objects, by where they are set.
UNDOCUMENTED = {
    "grpcio": [
        ("grpc._server._RequestIterator", "self._call ="),
        ("grpc._server._RequestIterator", "self._state ="),
        ("grpc._server._select_thread_pool_for_behavior", '"experimental_thread_pool"'),
    ],
    "mssql-python": [("mssql_python.cursor.Cursor", "self.hstmt =")],
}
# Methods of every named tuple, and the one function of `os` that has an underscore.
PUBLIC = {"_replace", "_exit"}


def find(path: str) -> object:
    """Return the module, class or attribute; an attribute that only objects have is looked up."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        try:
            part: object = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            part = getattr(part, name) if hasattr(part, name) else attribute_of_objects(part, name)
        return part
    raise AttributeError(path)


def attribute_of_objects(owner: object, name: str) -> str:
    source = inspect.getsource(owner)  # type: ignore[arg-type]
    if not re.search(rf"\bself\.{name}\b|^    {name}:", source, re.MULTILINE):
        raise AttributeError(f"{owner} has no {name}")
    return name


@pytest.mark.parametrize("path", [path for paths in ATTRIBUTES.values() for path in paths])
def test_private_attribute_exists(path):
    find(path)


@pytest.mark.parametrize(
    ("path", "text"), [pair for pairs in UNDOCUMENTED.values() for pair in pairs]
)
def test_undocumented_attribute_exists(path, text):
    assert text in inspect.getsource(find(path))  # type: ignore[arg-type]


def release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in takewhile(str.isdigit, text.split(".")))


@pytest.mark.parametrize("package", ATTRIBUTES)
def test_package_with_private_parts_has_an_upper_bound(package):
    (requirement,) = [r for r in declared_requirements() if r.name == package]
    bound = re.search(r"<([\d.]+)", requirement.specifier)
    assert bound, f"{package} needs an upper bound in pyproject.toml"
    assert release(version(package)) < release(bound[1])


@pytest.fixture(scope="module")
def modules() -> list[ast.Module]:
    paths = [path for path in SOURCE.rglob("*.py") if not path.name.endswith("_pb2.py")]
    return [ast.parse(path.read_text()) for path in paths]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that the module gives to functions, variables and attributes."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def used_names(tree: ast.Module) -> set[str]:
    """Return the private names that the module imports, or reads of anything but `self`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name):
                names.add(name)
            case ast.ImportFrom(module=module, names=aliases) if module != "__future__":
                names |= {*(module or "").split("."), *(alias.name for alias in aliases)}
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                names.add(name)
    return {name for name in names if is_private(name)}


def test_every_private_part_that_is_used_is_listed(modules):
    own = set().union(*map(defined_names, modules))
    listed = {name for paths in ATTRIBUTES.values() for path in paths for name in path.split(".")}
    listed |= {
        re.sub(r"^self\.| =$", "", text) for rows in UNDOCUMENTED.values() for _, text in rows
    }
    used = set().union(*map(used_names, modules))
    assert used - own - listed - PUBLIC == set()


def test_every_listed_part_is_used(modules):
    used = set().union(*map(used_names, modules))
    last = {path.rpartition(".")[2] for paths in ATTRIBUTES.values() for path in paths}
    assert {name for name in last if is_private(name)} - used == set()
