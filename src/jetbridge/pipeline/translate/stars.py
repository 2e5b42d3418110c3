"""The SELECT list, with its stars written out."""

from collections.abc import Iterator

from sqlglot import exp

from jetbridge.catalog.identifiers import fold
from jetbridge.pipeline.translate.bound import only
from jetbridge.pipeline.translate.resolve import Resolver
from jetbridge.pipeline.translate.scope import Scope
from jetbridge.pipeline.translate.untranslatable import Untranslatable

# The name of the column, its alias if it has one of its own, and what it is.
Item = tuple[str | None, str | None, exp.Expr]


def expanded(node: exp.Expr, scope: Scope, resolver: Resolver) -> Iterator[Item]:
    if isinstance(node, exp.Star):
        yield from _star(node, scope.star)
    elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        path = [part.name for part in node.parts[:-1]]
        yield from _star(node.this, _columns(path, scope))
    elif isinstance(node, exp.Alias):
        only(node, "this", "alias")
        yield node.alias, node.alias, node.this
    elif isinstance(node, exp.Column):
        yield node.name, None, node
    elif isinstance(node, exp.Dot):
        yield node.expression.name, None, node
    else:
        yield None, None, node


def _columns(path: list[str], scope: Scope) -> list[tuple[str | None, exp.Expr]]:
    aliases = {source.alias for source in scope.called(path)}
    if len(aliases) != 1:
        raise Untranslatable(f"the star of {'.'.join(path)}")
    (source,) = scope.called(path)
    own = Scope()
    own.add(source)
    return own.star


def _star(node: exp.Star, columns: list[tuple[str | None, exp.Expr]]) -> Iterator[Item]:
    only(node, "except_", "replace", "rename")
    left_out = {fold(each.name) for each in node.args.get("except_") or ()}
    replaced = {fold(each.alias): each.this for each in node.args.get("replace") or ()}
    renamed = {fold(each.this.name): each.alias for each in node.args.get("rename") or ()}
    for name, column in columns:
        key = None if name is None else fold(name)
        if key in left_out:
            continue
        if key in replaced:
            yield name, None, replaced[key].copy()
        elif column.meta.get("missing"):
            raise Untranslatable(f"the column {name}")
        else:
            yield renamed.get(key or "", name), None, column.copy()
