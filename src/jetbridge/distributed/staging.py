"""From the text of a query to its stages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jetbridge.dialects.quoting import identifier
from jetbridge.distributed import plan
from jetbridge.distributed.cut import CutOptions, CutPlan, cut_plan, one_stage
from jetbridge.distributed.decode import decode_plan
from jetbridge.distributed.expressions import Aggregate, BoundCall, Window, walk
from jetbridge.distributed.prune import prune
from jetbridge.distributed.render.constants import null_sql
from jetbridge.distributed.render.stage import RenderedStage, column_names
from jetbridge.distributed.stages import StagedQuery, own_text
from jetbridge.distributed.types import ODD_SHAPES, NotDistributed


class Serialized(Protocol):
    """Holds a plan as DuckDB wrote it, or why there is none."""

    @property
    def tree(self) -> Any: ...
    @property
    def problem(self) -> str: ...


class PlanSource(Protocol):
    """Asks a DuckDB that knows the tables of a query (`duckdb_engine.serialized_plans`)."""

    def plan(self, query: str) -> Serialized: ...
    def columns(self, query: str) -> Sequence[tuple[str, str]]: ...
    def columns_or_problem(self, query: str) -> tuple[Sequence[tuple[str, str]], str]: ...
    def volatile_functions(self) -> frozenset[str]: ...


NO_TABLE = "no table is read"
Cut = Callable[[plan.Node], CutPlan]


@dataclass(frozen=True)
class QueryStager:
    """Cuts queries into stages over the tables that a DuckDB knows."""

    source: PlanSource
    # Types of columns as DuckDB names them.
    _names: dict[plan.Types, list[str]] = field(default_factory=dict)

    def stage(self, query: str, options: CutOptions) -> StagedQuery:
        """Return the stages of a query; whatever has no distributed form is one stage."""

        def cut(node: plan.Node) -> CutPlan:
            if not any(isinstance(one, plan.Get) for one in plan.walk(node)):
                raise NotDistributed(NO_TABLE)
            return cut_plan(node, options, self._check_types)

        return self._staged(query, cut)

    def stage_whole(self, query: str) -> StagedQuery:
        """Return a query as one rendered stage in one task."""
        return self._staged(query, lambda node: one_stage(node, self._check_types))

    def _staged(self, query: str, cut: Cut) -> StagedQuery:
        columns = self.source.columns(query)
        names = tuple(name for name, _ in columns)
        try:
            node = self.decoded(query)
            self._check_columns(node.types, columns)
            self._check_functions(node)
            staged = cut(prune(node))
        except NotDistributed as reason:
            return own_text(query, names, str(reason))
        except ODD_SHAPES:
            return own_text(
                query, names, "a plan with values of other types than DuckDB 1.5 writes"
            )
        except RecursionError:
            return own_text(query, names, "a plan that is nested too deeply")
        return StagedQuery(
            staged.stages, staged.results, names, "", staged.is_ordered, staged.is_steady
        )

    def decoded(self, query: str) -> plan.Node:
        """Return the plan of a query as structs; raise `NotDistributed` for what is unknown."""
        serialized = self.source.plan(query)
        if serialized.problem:
            raise NotDistributed(serialized.problem)
        return decode_plan(serialized.tree)

    def _check_functions(self, node: plan.Node) -> None:
        """Refuse plans whose answer differs from run to run."""
        volatile = self.source.volatile_functions()
        for expression in (top for one in plan.walk(node) for top in plan.expressions_of(one)):
            for part in walk(expression):
                if isinstance(part, BoundCall | Aggregate | Window) and part.name in volatile:
                    raise NotDistributed(f"the volatile function {part.name}()")

    def _check_columns(self, types: plan.Types, columns: Sequence[tuple[str, str]]) -> None:
        bound = [name for _, name in columns]
        if self._type_names(types) != bound:
            raise NotDistributed("a plan with other columns than the query")

    def _type_names(self, types: plan.Types) -> list[str]:
        if types not in self._names:
            items = ", ".join(map(null_sql, types))
            bound, problem = self.source.columns_or_problem(f"SELECT {items}")
            if problem:
                raise NotDistributed(f"a type that does not bind: {problem}")
            self._names[types] = [name for _, name in bound]
        return self._names[types]

    def _check_types(self, rendered: RenderedStage, types: plan.Types) -> None:
        """Bind a rendered stage again, and refuse it if its columns are not those of the plan."""
        stubs = [*_stubs(rendered), rendered.definitions]
        ctes = ", ".join(stub for stub in stubs if stub)
        query = f"WITH {ctes} SELECT * FROM {rendered.result}"
        columns, problem = self.source.columns_or_problem(query)
        if problem:
            raise NotDistributed(f"a stage that does not bind: {problem}")
        bound = [name for _, name in columns]
        expected = self._type_names(types)
        if bound != expected:
            pairs = zip(bound, expected, strict=False)
            differing = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
            raise NotDistributed(f"a stage with a column of {differing[0]} for {differing[1]}")


def _stubs(rendered: RenderedStage) -> list[str]:
    """Return empty relations in place of what a stage reads."""
    stubs = []
    for name, scan in rendered.scans:
        columns = {column.name: column.type for column in scan.columns if column.name}
        items = [f"{null_sql(type)} AS {identifier(column)}" for column, type in columns.items()]
        stubs.append(f"{name} AS (SELECT {', '.join(items) or 'NULL'})")
    for name, one in rendered.inputs:
        columns_of_input = zip(one.types, column_names(len(one.types)), strict=True)
        items = [f"{null_sql(type)} AS {column}" for type, column in columns_of_input]
        stubs.append(f"{name} AS (SELECT {', '.join(items)})")
    return stubs
