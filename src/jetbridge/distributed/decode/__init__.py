"""Plans as DuckDB writes them, read into structs that know no version."""

from jetbridge.distributed.decode.operators_1_5 import decode_plan

__all__ = ["decode_plan"]
