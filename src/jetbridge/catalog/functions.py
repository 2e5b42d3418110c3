"""Functions a schema offers to SQL: scalar, table-producing, and table in/out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from jetbridge.catalog.values import Scan


@dataclass(frozen=True)
class Parameter:
    """`type` None takes any type; `named` is passed as name := value; `table` is a subquery."""

    name: str
    type: pa.DataType | None = None
    named: bool = False
    table: bool = False


@dataclass(frozen=True)
class FunctionInfo:
    name: str
    parameters: tuple[Parameter, ...] = ()
    comment: str = ""
    stable: bool = True


@runtime_checkable
class ScalarFunction(Protocol):
    def info(self) -> FunctionInfo:
        """`stable` says that equal arguments give equal results."""

    def returns(self) -> pa.DataType:
        """The type of every result."""

    def call(self, arguments: pa.RecordBatch) -> pa.Array:
        """One result a row, in order."""


@runtime_checkable
class TableFunction(Protocol):
    def info(self) -> FunctionInfo:
        """Name and parameters."""

    def bind(self, arguments: pa.RecordBatch) -> pa.Schema:
        """The columns it will produce for these arguments (one row); raises BadRequest."""

    def rows(self, arguments: pa.RecordBatch, request: Scan) -> Iterable[pa.RecordBatch]:
        """The rows, as `Table.scan`."""


# Called with each batch of the input table, and with None when it has ended.
Transform = Callable[[pa.RecordBatch | None], Iterable[pa.RecordBatch]]


@runtime_checkable
class TableInOutFunction(Protocol):
    def info(self) -> FunctionInfo:
        """One of the parameters has `table` set."""

    def bind_table(self, arguments: pa.RecordBatch, table: pa.Schema) -> pa.Schema:
        """The columns it will produce from such an input table; raises BadRequest."""

    def transforming(self, arguments: pa.RecordBatch, table: pa.Schema) -> Transform:
        """One use of the function: a fresh transform, used by one thread."""


Function = ScalarFunction | TableFunction | TableInOutFunction


@runtime_checkable
class CanOfferFunctions(Protocol):
    """A schema with functions."""

    def list_functions(self) -> Sequence[Function]:
        """All of them; cheap, called whenever one is used."""
