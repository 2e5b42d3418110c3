"""Types and constants as DuckDB 1.5 writes them."""

from typing import Any

from jetbridge.distributed.decode.fields import Fields
from jetbridge.distributed.expressions import BoundConstant
from jetbridge.distributed.types import NULL, PLAIN, NotDistributed, Type

_LITERALS = {"INTEGER_LITERAL": "INTEGER", "STRING_LITERAL": "VARCHAR"}
_NAMED = ("JSON",)


def decode_type(value: Any) -> Type:
    """Return a type, or raise `NotDistributed` for one that has no SQL."""
    fields = Fields(value, "a type")
    name = fields.take("id")
    info = fields.take_or("type_info", None) or {}
    fields.end()
    alias = info.get("alias") or ""
    if alias in _NAMED:
        return Type(alias)
    if info.get("extension_info") or info.get("collation"):
        raise NotDistributed(f"the type {name} with a collation or modifiers")
    if name in PLAIN:
        return Type(name)
    if name in _LITERALS:
        return Type(_LITERALS[name])
    if name in ("SQLNULL", "NULL"):
        return NULL
    return _nested(name, info)


def _nested(name: str, info: dict[str, Any]) -> Type:
    match name:
        case "DECIMAL":
            return Type(name, width=info["width"], scale=info.get("scale", 0))
        case "LIST":
            return Type(name, children=(("", decode_type(info["child_type"])),))
        case "ARRAY":
            child = (("", decode_type(info["child_type"])),)
            return Type(name, children=child, size=info["size"])
        case "ENUM":
            return Type(name, values=tuple(info["values"]))
        case "STRUCT" | "UNION":
            children = info["child_types"][1 if name == "UNION" else 0 :]
            return Type(name, children=tuple(_field(child) for child in children))
        case "MAP":
            entry = decode_type(info["child_type"])
            return Type(name, children=entry.children)
    raise NotDistributed(f"the type {name}")


def _field(child: dict[str, Any]) -> tuple[str, Type]:
    return child["first"], decode_type(child["second"])


def decode_constant(value: Any, inherited: Type | None = None) -> BoundConstant:
    """Return a constant; the elements of nested ones have the type of their parent's element."""
    fields = Fields(value, "a constant")
    own = fields.take_or("type", None)
    type = decode_type(own) if own is not None else inherited
    if type is None:
        raise NotDistributed("a constant without a type")
    if fields.take("is_null"):
        fields.drop("value")
        fields.end()
        return BoundConstant(type, None)
    content = fields.take("value")
    fields.end()
    return BoundConstant(type, _content(type, content))


def _content(type: Type, content: Any) -> Any:
    match type.name:
        case "LIST" | "ARRAY":
            return tuple(decode_constant(child, type.element) for child in content["children"])
        case "STRUCT":
            pairs = zip(content["children"], type.children, strict=True)
            return tuple(decode_constant(child, field) for child, (_, field) in pairs)
        case "MAP":
            entry = Type("STRUCT", children=type.children)
            return tuple(decode_constant(child, entry) for child in content["children"])
        case "UNION" | "BIT" | "BIGNUM":
            raise NotDistributed(f"a constant of the type {type.name}")
        case "INTERVAL":
            return (content["months"], content["days"], content["micros"])
    if isinstance(content, dict):
        return (int(content["upper"]) << 64) + int(content["lower"])
    return content
