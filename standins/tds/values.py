"""What the wire and the engine of the stand-in tell each other: types, rows, answers, errors.

Values are Python's: bool, int, float, Decimal, str, bytes, UUID, date, time and datetime (with a
zone for datetimeoffset), None for NULL.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Row = tuple[Any, ...]


@dataclass(frozen=True)
class SqlType:
    """A type as T-SQL writes it, in lower case; `length` None is `max` where there is one.

    `length` counts characters for n-types, else bytes. `scale` is also the number of fractional
    digits of time, datetime2 and datetimeoffset.
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True)
class Column:
    """`collation` is the name of one that is not the server's."""

    name: str
    type: SqlType
    nullable: bool = True
    identity: bool = False
    collation: str = ""


@dataclass(frozen=True)
class Rows:
    """A result set; its count of rows is known when they have been read."""

    columns: tuple[Column, ...]
    rows: Iterable[Row]


@dataclass(frozen=True)
class Batches:
    """A result set as Arrow batches, their types by `arrow_types.arrow_type`.

    An engine may answer with it wherever `Rows` would do; many rows are sent far quicker.
    """

    columns: tuple[Column, ...]
    batches: Iterable[pa.RecordBatch]


@dataclass(frozen=True)
class Count:
    """A statement without a result set has ended; None where nothing is counted (DDL, SET)."""

    rows: int | None = None


@dataclass(frozen=True)
class Message:
    """PRINT, RAISERROR below 11, 5701 and the like: an INFO token."""

    number: int
    text: str
    severity: int = 0
    state: int = 1


@dataclass(frozen=True)
class Database:
    """USE was run: an ENVCHANGE of type 1."""

    new: str
    old: str


@dataclass(frozen=True)
class Begun:
    """ENVCHANGE 8; the descriptor is that of the transaction."""

    descriptor: int


@dataclass(frozen=True)
class Committed:
    descriptor: int


@dataclass(frozen=True)
class RolledBack:
    descriptor: int


class SqlError(Exception):
    """Raised: the batch ends here. Yielded among answers: only its statement did.

    A severity of 20 and more ends the connection.
    """

    def __init__(self, number: int, text: str, severity: int = 16, state: int = 1) -> None:
        super().__init__(f"{number}: {text}")
        self.number, self.text, self.severity, self.state = number, text, severity, state


Answer = Rows | Batches | Count | Message | Database | Begun | Committed | RolledBack | SqlError


@dataclass(frozen=True)
class Parameter:
    """`name` with its @, as the declarations say; `output` ones are answered with a value."""

    name: str
    type: SqlType
    value: Any
    output: bool = False


class Bulk(Protocol):
    """One INSERT BULK; the columns are those that the statement names, in its order."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """As the table has them, or texts where the statement says so; the engine converts."""
        ...

    def append(self, rows: Sequence[Row]) -> None:
        """Some thousands at a time; raises SqlError for a value that the column does not take."""
        ...

    def finish(self) -> int:
        """All rows are there, and nothing of them stays where this raises."""
        ...

    def abort(self) -> None:
        """The client went away, or sent an attention."""
        ...


class ColumnBulk(Bulk, Protocol):
    """A load that takes Arrow batches; one that has this method is given no rows by `append`."""

    def append_columns(self, batch: pa.RecordBatch) -> None:
        """As `append`: the columns in the order of the statement, types by `arrow_type`."""
        ...


class Session(Protocol):
    """One connection after its login. Used by one thread, but for `cancel`."""

    @property
    def database(self) -> str: ...

    @property
    def transaction(self) -> int:
        """The descriptor; 0 outside of a transaction."""
        ...

    def note(self, failure: SqlError) -> None:
        """One that was ordered: it becomes @@ERROR, as one of its own does."""
        ...

    def run(self, text: str, parameters: Sequence[Parameter] = ()) -> Iterator[Answer]:
        """A batch; with parameters what sp_executesql runs. What is not read must not linger."""
        ...

    def outputs(self) -> Mapping[str, Any]:
        """Values of the output parameters after the last `run`."""
        ...

    def describe_parameters(self, text: str) -> Rows:
        """What sp_describe_undeclared_parameters answers."""
        ...

    def bulk(self, text: str) -> Bulk:
        """An INSERT BULK statement, as the client sent it."""
        ...

    def begin(self, isolation: int = 0) -> Begun: ...

    def commit(self) -> Committed: ...

    def rollback(self) -> RolledBack: ...

    def reset(self) -> None:
        """sp_reset_connection: what a packet with RESETCONNECTION asks for."""
        ...

    def cancel(self) -> None:
        """From another thread: what runs ends soon, by SqlError or without more rows."""
        ...

    def close(self) -> None:
        """An open transaction is rolled back."""
        ...


class Engine(Protocol):
    def login(self, user: str, password: str, database: str) -> Session:
        """Raises SqlError 18456 or 4060; an empty name is the login's default database."""
        ...
