"""GROUP BY: its keys, and which sets of them it makes."""

from dataclasses import dataclass, field
from itertools import product

from sqlglot import exp

from jetbridge.pipeline.translate.bound import Field, only
from jetbridge.pipeline.translate.resolve import Resolver
from jetbridge.pipeline.translate.tail import place
from jetbridge.pipeline.translate.untranslatable import Untranslatable

Sets = list[list[int]]
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_MOST_SETS = 4096


@dataclass
class Groups:
    """`given`: whether there is a GROUP BY; `sets` None: one set with all keys.

    `calls`: the relations that stand for aggregates and windows.
    """

    resolver: Resolver
    items: list[exp.Expr]
    fields: list[Field]
    calls: set[str]
    keys: list[exp.Expr] = field(default_factory=list)
    sets: Sets | None = None
    given: bool = False

    def __call__(self, clause: exp.Expr | None) -> "Groups":
        if clause is None:
            return self
        only(clause, "expressions", "all", "rollup", "cube", "grouping_sets")
        self.given = True
        if clause.args.get("all"):
            self._all()
            return self
        parts = [*clause.expressions, *self._older(clause)]
        found = [self._sets(each) for each in parts]
        if any(isinstance(each, _SETS) for each in parts):
            self.sets = [
                list(dict.fromkeys(key for part in combined for key in part))
                for combined in product(*found)
            ]
        return self

    def _older(self, clause: exp.Expr) -> list[exp.Expr]:
        return [e for n in ("rollup", "cube", "grouping_sets") for e in clause.args.get(n) or ()]

    def _all(self) -> None:
        """Every column of the SELECT list without an aggregate.

        DuckDB leaves constants out, and so does not group at all where there is nothing else.
        """
        own = {each.alias for each in self.resolver.scope.sources}
        seen: set[str] = set()
        for item in self.items:
            columns = {each.table for each in item.find_all(exp.Column)}
            if not self.calls & columns:
                self._key(item)
                seen |= columns
        if self.keys and not own & seen:
            raise Untranslatable("GROUP BY ALL of constants only")

    def _sets(self, node: exp.Expr) -> Sets:
        """The sets that one part of GROUP BY stands for; parts are combined with each other."""
        if isinstance(node, exp.GroupingSets):
            return [each for part in node.expressions for each in self._sets(part)]
        if isinstance(node, (exp.Rollup, exp.Cube)):
            units = [self._unit(each) for each in node.expressions]
            return _rollup(units) if isinstance(node, exp.Rollup) else _cube(units)
        return [self._unit(node)]

    def _unit(self, node: exp.Expr) -> list[int]:
        """One key, or several in brackets."""
        if isinstance(node, exp.Tuple):
            return [self._found(each) for each in node.expressions]
        return [self._found(node.unnest())]

    def _found(self, node: exp.Expr) -> int:
        if isinstance(node, exp.Literal):
            at = place(node, self.fields)
            if at is None:
                raise Untranslatable("GROUP BY a constant")
            return self._key(self.items[at])
        return self._key(self.resolver(node))

    def _key(self, node: exp.Expr) -> int:
        node = node.unnest()
        if isinstance(node, exp.Explode):
            raise Untranslatable("GROUP BY of unnest")
        if node not in self.keys:
            self.keys.append(node.copy())
        return self.keys.index(node)


def _rollup(units: Sets) -> Sets:
    return [[key for unit in units[:count] for key in unit] for count in range(len(units), -1, -1)]


def _cube(units: Sets) -> Sets:
    if 2 ** len(units) > _MOST_SETS:
        raise Untranslatable("a cube of so many keys")
    masks = range(2 ** len(units) - 1, -1, -1)
    return [
        [key for i, unit in enumerate(units) if mask >> i & 1 for key in unit] for mask in masks
    ]
