"""Plans from a DuckDB that does other things too, so that its settings change for each plan."""

import duckdb

from jetbridge.duckdb_engine.serialized_plans import (
    FALLBACK_CONFIG,
    PLAN_CONFIG,
    PlanSerializer,
    SerializedPlan,
)


class SharedPlans(PlanSerializer):
    """Asks one DuckDB for both attempts at a plan; its configuration may not be locked."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(connection)
        self._shared = connection

    def plan(self, query: str) -> SerializedPlan:
        """Return the optimised plan of a query."""
        try:
            self._configure(PLAN_CONFIG["disabled_optimizers"])
            plan = super().plan(query)
            if plan.problem:
                self._configure(FALLBACK_CONFIG["disabled_optimizers"])
                plan = super().plan(query)
            return plan
        finally:
            self._configure("")

    def _configure(self, disabled: str) -> None:
        self._shared.execute(f"SET disabled_optimizers = '{disabled}'")
