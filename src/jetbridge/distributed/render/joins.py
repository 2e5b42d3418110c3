"""Joins as SQL, those too that no text of a user asks for by name."""

from jetbridge.distributed import plan
from jetbridge.distributed.render.expressions import expression_sql
from jetbridge.distributed.types import NotDistributed

_OUTER = ("INNER", "LEFT", "RIGHT", "FULL")
_QUANTIFIED = ("=", "<>", "<", ">", "<=", ">=")


def join_sql(node: plan.Join, left: str, right: str) -> str:
    """Return the SELECT of a join of two relations with columns c0, c1, and so on."""
    if node.kind == "MARK":
        return _select(node, left, [*_side(node.left, "l"), _mark(node, right)])
    if node.kind == "SINGLE":
        return _single(node, left, right)
    if node.kind not in (*_OUTER, "SEMI", "ANTI"):
        raise NotDistributed(f"a join of the kind {node.kind}")
    columns = _side(node.left, "l")
    if node.kind in _OUTER:
        columns += _side(node.right, "r")
    condition = _condition(node)
    if node.is_asof:
        join = f"ASOF {node.kind} JOIN {right} AS r ON {condition}"
    elif node.kind == "INNER" and not node.conditions and node.predicate is None:
        join = f"CROSS JOIN {right} AS r"
    else:
        join = f"{node.kind} JOIN {right} AS r ON {condition}"
    return _select(node, f"{left} AS l {join}", columns, alias="")


def _side(node: plan.Node, alias: str) -> list[str]:
    return [f"{alias}.c{index}" for index in range(len(node.types))]


def _select(node: plan.Join, source: str, columns: list[str], alias: str = " AS l") -> str:
    items = ", ".join(f"{column} AS c{index}" for index, column in enumerate(columns))
    return f"SELECT {items} FROM {source}{alias}"


def _compared(node: plan.Join, condition: plan.JoinCondition) -> str:
    left = expression_sql(condition.left, _side(node.left, "l"))
    right = expression_sql(condition.right, _side(node.right, "r"))
    return f"({left} {condition.operator} {right})"


def _condition(node: plan.Join) -> str:
    parts = [_compared(node, condition) for condition in node.conditions]
    if node.predicate is not None:
        both = [*_side(node.left, "l"), *_side(node.right, "r")]
        parts.append(expression_sql(node.predicate, both))
    return " AND ".join(parts) or "TRUE"


def _mark(node: plan.Join, right: str) -> str:
    """Return whether the left row has a partner, as DuckDB's joins answer it.

    Comparisons of columns follow three-valued logic; a predicate that is NULL is no partner.
    """
    loose = [c for c in node.conditions if c.operator in _QUANTIFIED]
    exact = [_compared(node, c) for c in node.conditions if c not in loose]
    where = " AND ".join(exact) or "TRUE"
    if node.predicate is not None or not loose:
        return f"EXISTS (SELECT 1 FROM {right} AS r WHERE {_condition(node)})"
    operators = {condition.operator for condition in loose}
    if len(loose) > 1 and operators != {"="}:
        raise NotDistributed("a MARK join by several comparisons")
    lefts = ", ".join(expression_sql(c.left, _side(node.left, "l")) for c in loose)
    rights = ", ".join(expression_sql(c.right, _side(node.right, "r")) for c in loose)
    if len(loose) > 1:
        return f"(({lefts}) IN (SELECT {rights} FROM {right} AS r WHERE {where}))"
    (operator,) = operators
    return f"({lefts} {operator} ANY (SELECT {rights} FROM {right} AS r WHERE {where}))"


def _single(node: plan.Join, left: str, right: str) -> str:
    """Return a left join with one partner at most: several are an error, as in a subquery."""
    width = len(node.right.types)
    fields = ", ".join(f"f{index} := r.c{index}" for index in range(width))
    partner = f"SELECT struct_pack({fields}) FROM {right} AS r WHERE {_condition(node)}"
    inner = f"SELECT l.*, ({partner}) AS partner FROM {left} AS l"
    columns = [f"c{index}" for index in range(len(node.left.types))]
    columns += [f"partner.f{index}" for index in range(width)]
    items = ", ".join(f"{column} AS c{index}" for index, column in enumerate(columns))
    return f"SELECT {items} FROM ({inner})"
