"""What a query becomes: query stages of DuckDB SQL, and how rows go from one to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jetbridge.distributed.plan import ScanColumn, Share, TableName, Types

ExchangeKind = Literal["hash", "range", "all", "keep", "result"]
Tasks = Literal["split", "partition", "single"]


@dataclass(frozen=True)
class RowExchange:
    """Says how the rows of a stage leave it.

    `kind` is one of
    - "hash": `partition_sql` says to which partition each row goes;
    - "range": `sort_key`, a BIGINT or a BLOB, orders the rows; a sample of it gives the ranges;
    - "all": the next stage reads all rows, in the order of tasks (broadcast, or one task);
    - "keep": the rows are read by splits, by more than one stage;
    - "result": the rows are the answer, in the order of tasks.
    """

    kind: ExchangeKind
    keys: tuple[str, ...] = ()
    sort_key: str = ""

    def partition_sql(self, partitions: int) -> str:
        """Return the partition of a row of the stage as an expression over c0, c1, and so on."""
        return f"CAST(hash({', '.join(self.keys)}) % {partitions} AS INTEGER)"


@dataclass(frozen=True)
class StageScan:
    """Reads a table as the relation `name` of a stage, with columns of the table's names.

    If it is `whole`, a task reads all of it, otherwise a split.
    """

    name: str
    table: TableName
    columns: tuple[ScanColumn, ...]
    whole: bool


@dataclass(frozen=True)
class StageInput:
    """Rows of other stages that a stage reads as the relation `name`, with columns c0, c1, ...

    `share` says what a task reads of them.
    """

    name: str
    stages: tuple[int, ...]
    types: Types
    share: Share


@dataclass(frozen=True)
class Stage:
    """Holds a SELECT that tasks run, over the relations of `scans` and `inputs`.

    `tasks` is "split" (one for each split of the one scan or input that is not whole), "partition"
    or "single". A stage runs in at least one task, with no rows if there are none.
    """

    number: int
    sql: str
    scans: tuple[StageScan, ...]
    inputs: tuple[StageInput, ...]
    types: Types
    exchange: RowExchange
    tasks: Tasks


@dataclass(frozen=True)
class StagedQuery:
    """Holds a query as stages, in an order in which they can run; `results` give the answer.

    If `reason` is not empty, the query is one stage with its own text, over tables by their own
    names. `is_steady` is False if the answer depends on an order of rows that SQL leaves open.
    """

    stages: tuple[Stage, ...]
    results: tuple[int, ...]
    names: tuple[str, ...]
    reason: str = ""
    is_ordered: bool = False
    is_steady: bool = True


def own_text(query: str, names: Sequence[str], reason: str) -> StagedQuery:
    """Return a query as one stage with its own text, in one task, and why."""
    stage = Stage(0, query, (), (), (), RowExchange("result"), "single")
    return StagedQuery((stage,), (0,), tuple(names), reason)
