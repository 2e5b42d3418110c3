"""Functions that a schema offers to SQL: scalar functions, table functions, table in/out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from jetbridge.catalog.values import Scan


@dataclass(frozen=True)
class Parameter:
    """Describe a parameter of a function.

    Attributes:
        name: The name of the parameter.
        type: Its type; None accepts any type.
        named: True: callers write `name := value`.
        table: True: callers write a subquery, whose rows the function gets.

    Examples:
        >>> Parameter("n", pa.int64())
        Parameter(name='n', type=DataType(int64), named=False, table=False)
    """

    name: str
    type: pa.DataType | None = None
    named: bool = False
    table: bool = False


@dataclass(frozen=True)
class FunctionInfo:
    """Describe a function.

    Attributes:
        name: The name by which SQL calls it.
        parameters: Its parameters, in order.
        comment: What it does, in one sentence.
        stable: True: equal arguments give equal results, so a result may be used again.

    Examples:
        >>> FunctionInfo("double", (Parameter("n", pa.int64()),)).stable
        True
    """

    name: str
    parameters: tuple[Parameter, ...] = ()
    comment: str = ""
    stable: bool = True


@runtime_checkable
class ScalarFunction(Protocol):
    """Compute one value for each row.

    Examples:
        >>> class Double:
        ...     def info(self):
        ...         return FunctionInfo("double", (Parameter("n", pa.int64()),))
        ...     def returns(self):
        ...         return pa.int64()
        ...     def call(self, arguments):
        ...         return pa.array([n * 2 for n in arguments["n"].to_pylist()], pa.int64())
        >>> Double().call(pa.record_batch({"n": [1, 2]})).to_pylist()
        [2, 4]
        >>> isinstance(Double(), ScalarFunction)
        True
    """

    def info(self) -> FunctionInfo:
        """Return name and parameters. `stable` says that equal arguments give equal results."""

    def returns(self) -> pa.DataType:
        """Return the type of all results."""

    def call(self, arguments: pa.RecordBatch) -> pa.Array:
        """Return one result for each row of the arguments, in order; may raise BadRequest."""


@runtime_checkable
class TableFunction(Protocol):
    """Produce a table from constant arguments.

    Examples:
        >>> class Numbers:
        ...     def info(self):
        ...         return FunctionInfo("numbers", (Parameter("n", pa.int64()),))
        ...     def bind(self, arguments):
        ...         return pa.schema([("i", pa.int64())])
        ...     def rows(self, arguments, request):
        ...         yield pa.record_batch({"i": list(range(arguments["n"][0].as_py()))})
        >>> [batch.num_rows for batch in Numbers().rows(pa.record_batch({"n": [3]}), Scan())]
        [3]
        >>> isinstance(Numbers(), TableFunction)
        True
    """

    def info(self) -> FunctionInfo:
        """Return name and parameters."""

    def bind(self, arguments: pa.RecordBatch) -> pa.Schema:
        """Return the columns for these arguments, which are one row; raises BadRequest."""

    def rows(self, arguments: pa.RecordBatch, request: Scan) -> Iterable[pa.RecordBatch]:
        """Return the rows, as `Table.scan` does."""


# Called with each batch of the input table, and with None when it has ended.
Transform = Callable[[pa.RecordBatch | None], Iterable[pa.RecordBatch]]


@runtime_checkable
class TableInOutFunction(Protocol):
    """Produce a table from the rows of another one.

    Examples:
        >>> class Firsts:
        ...     def info(self):
        ...         return FunctionInfo("firsts", (Parameter("t", table=True),))
        ...     def bind_table(self, arguments, table):
        ...         return table
        ...     def transforming(self, arguments, table):
        ...         return lambda batch: [] if batch is None else [batch.slice(0, 1)]
        >>> transform = Firsts().transforming(None, None)
        >>> [batch.to_pylist() for batch in transform(pa.record_batch({"i": [1, 2]}))]
        [[{'i': 1}]]
        >>> isinstance(Firsts(), TableInOutFunction)
        True
    """

    def info(self) -> FunctionInfo:
        """Return name and parameters, one of which has `table` set."""

    def bind_table(self, arguments: pa.RecordBatch, table: pa.Schema) -> pa.Schema:
        """Return the columns for an input table of these columns; raises BadRequest."""

    def transforming(self, arguments: pa.RecordBatch, table: pa.Schema) -> Transform:
        """Return a new transform for one use of the function, by one thread."""


Function = ScalarFunction | TableFunction | TableInOutFunction


@runtime_checkable
class CanOfferFunctions(Protocol):
    """Offer the functions of a schema.

    Examples:
        >>> class WithFunctions:
        ...     def list_functions(self):
        ...         return []
        >>> supports(WithFunctions(), CanOfferFunctions)
        True
    """

    def list_functions(self) -> Sequence[Function]:
        """Return all functions. It must be cheap: it is called whenever one of them is used."""
