"""The types of a plan, and the SQL that names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.errors import ServerError

INTEGERS = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
    + ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
)
_TIMES = ("DATE", "TIME", "TIME_NS", "INTERVAL", "TIMESTAMP WITH TIME ZONE")
_MOMENTS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIME WITH TIME ZONE")
_OTHERS = ("BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "BIT", "UUID", "BIGNUM", "JSON")
# Types whose name is all that there is to them.
PLAIN = INTEGERS | frozenset(_TIMES + _MOMENTS + _OTHERS)
# Equal values of these types may hash differently, or travel as something else.
_NO_KEYS = frozenset(("TIME WITH TIME ZONE", "VARIANT", "GEOMETRY"))
# What code raises that reads a field of another type than it expects.
ODD_SHAPES = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class NotDistributed(ServerError):
    """Raised for a part of a plan that has no distributed form; the message says which part."""

    status = "UNIMPLEMENTED"


@dataclass(frozen=True)
class Type:
    """Names a type of DuckDB.

    `children` are the fields of a STRUCT or UNION by name, the key and value of a MAP, or the
    element of a LIST or ARRAY. `values` are those of an ENUM, `size` the length of an ARRAY.
    """

    name: str
    width: int = 0
    scale: int = 0
    children: tuple[tuple[str, "Type"], ...] = ()
    size: int = 0
    values: tuple[str, ...] = ()

    @property
    def element(self) -> "Type":
        """Return the type of the elements of a LIST or an ARRAY."""
        return self.children[0][1]

    @property
    def is_unnamed(self) -> bool:
        """Return whether the fields of this STRUCT have no names, as those of row(1, 2)."""
        return (
            self.name == "STRUCT"
            and bool(self.children)
            and all(not name for name, _ in self.children)
        )


BOOLEAN = Type("BOOLEAN")
BIGINT = Type("BIGINT")
INTEGER = Type("INTEGER")
DOUBLE = Type("DOUBLE")
HUGEINT = Type("HUGEINT")
VARCHAR = Type("VARCHAR")
NULL = Type("NULL")


def type_sql(type: Type) -> str:
    """Return the SQL that names a type; raise `NotDistributed` if none does."""
    if type.name in PLAIN:
        return type.name
    write = _NAMES.get(type.name)
    if write is None or type.is_unnamed:
        raise NotDistributed(f"the type {type.name}{' without names' if type.is_unnamed else ''}")
    return write(type)


def _fields(type: Type) -> str:
    fields = (f"{identifier(name)} {type_sql(child)}" for name, child in type.children)
    return f"{type.name}({', '.join(fields)})"


_NAMES: Mapping[str, Callable[[Type], str]] = {
    "NULL": lambda type: '"NULL"',
    "DECIMAL": lambda type: f"DECIMAL({type.width},{type.scale})",
    "LIST": lambda type: f"{type_sql(type.element)}[]",
    "ARRAY": lambda type: f"{type_sql(type.element)}[{type.size}]",
    "ENUM": lambda type: f"ENUM({', '.join(map(literal, type.values))})",
    "MAP": lambda type: f"MAP({', '.join(type_sql(child) for _, child in type.children)})",
    "STRUCT": _fields,
    "UNION": _fields,
}


def has_unnamed(type: Type) -> bool:
    """Return whether a type has a STRUCT without names in it."""
    return type.is_unnamed or any(has_unnamed(child) for _, child in type.children)


def can_be_key(type: Type) -> bool:
    """Return whether equal values of this type have equal hashes in every task."""
    return type.name not in _NO_KEYS and all(can_be_key(child) for _, child in type.children)
