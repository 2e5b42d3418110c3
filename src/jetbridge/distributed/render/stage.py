"""A stage as SQL: one CTE for each operator, its columns c0, c1, and so on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jetbridge.dialects.quoting import identifier
from jetbridge.distributed import plan
from jetbridge.distributed.render import joins
from jetbridge.distributed.render.aggregates import aggregates_sql, window_sql
from jetbridge.distributed.render.constants import constant_sql, null_sql
from jetbridge.distributed.render.expressions import expression_sql, list_sql, orders_sql
from jetbridge.distributed.types import NotDistributed


@dataclass(frozen=True)
class RenderedStage:
    """CTEs as (name, SQL), the one that is the answer, and what the stage reads by which name."""

    ctes: tuple[tuple[str, str], ...]
    result: str
    width: int
    scans: tuple[tuple[str, plan.Get], ...]
    inputs: tuple[tuple[str, plan.Input], ...]

    @property
    def sql(self) -> str:
        """Return the SELECT of the stage, over relations of the names of scans and inputs."""
        columns = ", ".join(column_names(self.width))
        head = f"WITH {self.definitions} " if self.ctes else ""
        return f"{head}SELECT {columns} FROM {self.result}"

    @property
    def definitions(self) -> str:
        """Return the CTEs with commas between them."""
        return ", ".join(f"{name} AS {body}" for name, body in self.ctes)


def column_names(width: int, prefix: str = "") -> list[str]:
    """Return the names of columns by position."""
    return [f"{prefix}c{index}" for index in range(width)]


def render_stage(node: plan.Node) -> RenderedStage:
    """Return the operators of one stage as SQL; raise `NotDistributed` for what has none."""
    renderer = _StageRenderer(_Names())
    result = renderer.node(node)
    names = renderer.names
    return RenderedStage(
        tuple(renderer.ctes), result, len(node.types), tuple(names.scans), tuple(names.inputs)
    )


class _Names:
    """Gives the names of a stage: unique over nested lists of CTEs."""

    def __init__(self) -> None:
        self.count = 0
        self.tables: dict[int, str] = {}
        self.scans: list[tuple[str, plan.Get]] = []
        self.inputs: list[tuple[str, plan.Input]] = []

    def next(self) -> str:
        self.count += 1
        return f"s{self.count}"


class _StageRenderer:
    """Renders operators: each method adds a CTE and returns its name."""

    def __init__(self, names: _Names) -> None:
        self.names = names
        self.ctes: list[tuple[str, str]] = []

    def node(self, node: plan.Node) -> str:
        method = _METHODS.get(type(node))
        if method is None:
            raise NotDistributed(f"the operator {type(node).__name__}")
        return method(self, node)

    def _add(self, body: str, *, kept: bool = False) -> str:
        name = self.names.next()
        self.ctes.append((name, f"{'' if kept else 'NOT '}MATERIALIZED ({body})"))
        return name

    def _select(self, items: list[str], tail: str = "") -> str:
        named = ", ".join(f"{item} AS c{index}" for index, item in enumerate(items))
        return self._add(f"SELECT {named}{tail}")

    def get(self, node: plan.Get) -> str:
        name = f"scan_{len(self.names.scans)}"
        self.names.scans.append((name, node))
        columns = [
            identifier(column.name) if column.name else "CAST(NULL AS BOOLEAN)"
            for column in node.columns
        ]
        where = " AND ".join(expression_sql(condition, columns) for condition in node.filters)
        tail = f" FROM {name}" + (f" WHERE {where}" if where else "")
        return self._select([columns[index] for index in node.output], tail)

    def input(self, node: plan.Input) -> str:
        name = f"input_{len(self.names.inputs)}"
        self.names.inputs.append((name, node))
        return name

    def function_scan(self, node: plan.FunctionScan) -> str:
        arguments = ", ".join(constant_sql(parameter) for parameter in node.parameters)
        names = ", ".join(f"f{index}" for index in range(node.width))
        call = f"{identifier(node.name)}({arguments}) AS t({names})"
        columns = [
            f"f{position}" if position < node.width else "CAST(NULL AS BOOLEAN)"
            for position in node.positions
        ]
        return self._select(columns, f" FROM {call}")

    def values(self, node: plan.Values) -> str:
        if not node.rows:
            nulls = [null_sql(type) for type in node.types]
            return self._select(nulls, " WHERE FALSE")
        rows = (list_sql(row, ()) for row in node.rows)
        names = ", ".join(column_names(len(node.types)))
        values = ", ".join(f"({row})" for row in rows)
        return self._add(f"SELECT * FROM (VALUES {values}) AS t({names})")

    def projection(self, node: plan.Projection) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.child.types))
        items = [expression_sql(expression, columns) for expression in node.expressions]
        return self._select(items, f" FROM {child}")

    def filter(self, node: plan.Filter) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.types))
        where = " AND ".join(expression_sql(c, columns) for c in node.conditions) or "TRUE"
        return self._add(f"SELECT * FROM {child} WHERE {where}")

    def aggregation(self, node: plan.Aggregation) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.child.types))
        groups = [f"g{index}" for index in range(len(node.groups))]
        keys = [
            f"{expression_sql(group, columns)} AS {name}"
            for group, name in zip(node.groups, groups, strict=True)
        ]
        grouping = [
            f"CAST(GROUPING({', '.join(groups[i] for i in positions)}) AS BIGINT)"
            for positions in node.grouping
        ]
        items = [*groups, *aggregates_sql(node.aggregates, columns), *grouping]
        inner = f"(SELECT {', '.join([*keys, *columns])} FROM {child})" if keys else child
        return self._select(items, f" FROM {inner}{_group_by(node, groups)}")

    def windows(self, node: plan.Windows) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.child.types))
        windows = [window_sql(expression, columns) for expression in node.expressions]
        return self._select([*columns, *windows], f" FROM {child}")

    def unnesting(self, node: plan.Unnesting) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.child.types))
        lists = [f"unnest({expression_sql(e.child, columns)})" for e in node.expressions]
        return self._select([*columns, *lists], f" FROM {child}")

    def order_by(self, node: plan.OrderBy) -> str:
        child = self.node(node.child)
        orders = orders_sql(node.orders, column_names(len(node.types)))
        return self._add(f"SELECT * FROM {child} {orders}")

    def top_n(self, node: plan.TopN) -> str:
        child = self.node(node.child)
        orders = orders_sql(node.orders, column_names(len(node.types)))
        return self._add(f"SELECT * FROM {child} {orders} LIMIT {node.limit} OFFSET {node.offset}")

    def limit(self, node: plan.Limit) -> str:
        child = self.node(node.child)
        limit = "" if node.limit is None else f" LIMIT {node.limit}{'%' if node.percent else ''}"
        return self._add(f"SELECT * FROM {child}{limit} OFFSET {node.offset}")

    def distinct(self, node: plan.Distinct) -> str:
        child = self.node(node.child)
        columns = column_names(len(node.types))
        on = f" ON ({list_sql(node.on, columns)})" if node.on else ""
        orders = orders_sql(node.orders, columns)
        return self._add(f"SELECT DISTINCT{on} * FROM {child} {orders}")

    def join(self, node: plan.Join) -> str:
        left, right = self.node(node.left), self.node(node.right)
        return self._add(joins.join_sql(node, left, right))

    def positional(self, node: plan.Positional) -> str:
        left, right = self.node(node.left), self.node(node.right)
        width = len(node.left.types)
        columns = [*column_names(width, "l."), *column_names(len(node.right.types), "r.")]
        return self._select(columns, f" FROM {left} AS l POSITIONAL JOIN {right} AS r")

    def union(self, node: plan.Union) -> str:
        parts = [self.node(child) for child in node.children]
        return self._add(" UNION ALL ".join(f"(SELECT * FROM {part})" for part in parts))

    def set_operation(self, node: plan.SetOperation) -> str:
        left, right = self.node(node.left), self.node(node.right)
        word = f"{node.kind} ALL" if node.is_all else node.kind
        return self._add(f"(SELECT * FROM {left}) {word} (SELECT * FROM {right})")

    def common_table(self, node: plan.CommonTable) -> str:
        definition = self.node(node.definition)
        self.names.tables[node.number] = self._add(f"SELECT * FROM {definition}", kept=True)
        return self.node(node.body)

    def common_table_ref(self, node: plan.CommonTableRef) -> str:
        table = self.names.tables.get(node.number)
        if table is None:
            raise NotDistributed("a common table that is not in the stage")
        prefix = "recurring." if node.recurring else ""
        return self._select([f"c{index}" for index in node.columns], f" FROM {prefix}{table}")

    def recursion(self, node: plan.Recursion) -> str:
        table = self.names.next()
        self.names.tables[node.number] = table
        first, step = self._nested(node.first), self._nested(node.step)
        columns = column_names(len(node.types))
        keys = f" USING KEY ({list_sql(node.keys, columns)})" if node.keys else ""
        word = "UNION ALL" if node.is_all else "UNION"
        recursive = f"{table}({', '.join(columns)}){keys} AS ({first} {word} {step})"
        return self._add(f"WITH RECURSIVE {recursive} SELECT * FROM {table}")

    def _nested(self, node: plan.Node) -> str:
        """Return a query with CTEs of its own, for the arms of a recursion."""
        inner = _StageRenderer(self.names)
        result = inner.node(node)
        ctes = ", ".join(f"{name} AS {body}" for name, body in inner.ctes)
        head = f"WITH {ctes} " if ctes else ""
        return f"(SELECT * FROM ({head}SELECT * FROM {result}))"


def _group_by(node: plan.Aggregation, groups: list[str]) -> str:
    if node.sets:
        sets = ("(" + ", ".join(groups[index] for index in one) + ")" for one in node.sets)
        return f" GROUP BY GROUPING SETS ({', '.join(sets)})"
    return f" GROUP BY {', '.join(groups)}" if groups else ""


_METHODS: Mapping[type, Callable[[Any, Any], str]] = {
    plan.Get: _StageRenderer.get,
    plan.Input: _StageRenderer.input,
    plan.FunctionScan: _StageRenderer.function_scan,
    plan.Values: _StageRenderer.values,
    plan.Projection: _StageRenderer.projection,
    plan.Filter: _StageRenderer.filter,
    plan.Aggregation: _StageRenderer.aggregation,
    plan.Windows: _StageRenderer.windows,
    plan.Unnesting: _StageRenderer.unnesting,
    plan.OrderBy: _StageRenderer.order_by,
    plan.TopN: _StageRenderer.top_n,
    plan.Limit: _StageRenderer.limit,
    plan.Distinct: _StageRenderer.distinct,
    plan.Join: _StageRenderer.join,
    plan.Positional: _StageRenderer.positional,
    plan.Union: _StageRenderer.union,
    plan.SetOperation: _StageRenderer.set_operation,
    plan.CommonTable: _StageRenderer.common_table,
    plan.CommonTableRef: _StageRenderer.common_table_ref,
    plan.Recursion: _StageRenderer.recursion,
}
