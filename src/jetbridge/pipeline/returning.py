"""RETURNING: expressions over the rows that a statement has written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from jetbridge.embedded.workbench import Desk
from jetbridge.pipeline.session import Outcome
from jetbridge.pipeline.tokens import Words
from jetbridge.sqltext import pipeline as queries


@dataclass
class Returned:
    """`listed` is what stands after RETURNING; `alias` is what the rows are called there."""

    listed: str
    alias: str
    schema: pa.Schema
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        return bool(self.listed)

    def add(self, batch: pa.RecordBatch | None) -> None:
        if self.wanted and batch is not None:
            self._batches.append(batch)

    def rows(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, None if self._batches else self.schema)


def returned(desk: Desk, answers: Returned) -> Outcome:
    desk.register(queries.CHANGED, answers.rows())
    return evaluated(desk, answers, (queries.CHANGED,))


def evaluated(desk: Desk, answers: Returned, path: Sequence[str]) -> Outcome:
    """Over the rows that are registered or kept there.

    A star means the columns of the table, not those that we have beside them.
    """
    names = ", ".join(queries.column(answers.alias, name) for name in answers.schema.names)
    words, items = Words(answers.listed), []
    while words:
        item = words.until(",")
        items.append(names if item == "*" else item)
        words.take(",")
    query = queries.returned(", ".join(items), path, answers.alias)
    batches = list(desk.stream(query))
    schema = batches[0].schema if batches else desk.schema(query)
    return Outcome(schema=schema, batches=iter(batches))
