"""Constants of a plan as SQL that gives exactly their value and type."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from jetbridge.dialects.quoting import identifier, literal
from jetbridge.distributed.expressions import BoundConstant
from jetbridge.distributed.types import INTEGERS, NotDistributed, Type, has_unnamed, type_sql

_LAST_DAY = 2**31 - 1
_LAST_MOMENT = 2**63 - 1
_LARGEST_OFFSET = 16 * 60 * 60 - 1
_EPOCH = datetime(1970, 1, 1)
_INFINITE_DAYS = {_LAST_DAY: "infinity", -_LAST_DAY: "-infinity"}
_INFINITE_MOMENTS = {_LAST_MOMENT: "infinity", -_LAST_MOMENT: "-infinity"}
_PER_SECOND = {
    "TIMESTAMP_S": 1,
    "TIMESTAMP_MS": 1_000,
    "TIMESTAMP": 1_000_000,
    "TIMESTAMP WITH TIME ZONE": 1_000_000,
    "TIMESTAMP_NS": 1_000_000_000,
}


def constant_sql(constant: BoundConstant) -> str:
    """Return a constant as SQL, with its type."""
    type = constant.type
    if constant.value is None:
        return "NULL" if type.name == "NULL" else null_sql(type)
    if type.name == "BOOLEAN":
        return "TRUE" if constant.value else "FALSE"
    if type.name in ("STRUCT", "MAP"):
        return _struct(constant) if type.name == "STRUCT" else _map(constant)
    return f"CAST({_value(constant)} AS {type_sql(type)})"


def null_sql(type: Type) -> str:
    """Return NULL of a type, and be it one that has no name."""
    if not has_unnamed(type):
        return f"CAST(NULL AS {type_sql(type)})"
    values = [null_sql(child) for _, child in type.children]
    match type.name:
        case "STRUCT":
            value = struct_sql(type, values)
        case "LIST":
            value = f"[{values[0]}]"
        case "ARRAY":
            value = f"array_value({', '.join(values * type.size)})"
        case "MAP":
            value = f"MAP([{values[0]}], [{values[1]}])"
        case _:
            raise NotDistributed(f"the type {type.name} of a STRUCT without names")
    return f"CASE WHEN FALSE THEN {value} END"


def _value(constant: BoundConstant) -> str:
    type = constant.type
    if type.name in INTEGERS:
        return literal(str(constant.value))
    if type.name in _PER_SECOND:
        return literal(_moment(int(constant.value), type))
    write = _WRITERS.get(type.name)
    if write is None:
        raise NotDistributed(f"a constant of the type {type.name}")
    return write(constant)


def _text(constant: BoundConstant) -> str:
    return literal(str(constant.value))


def _number(constant: BoundConstant) -> str:
    return literal(repr(float(constant.value)))


def _decimal(constant: BoundConstant) -> str:
    number, scale = int(constant.value), constant.type.scale
    digits = str(abs(number)).rjust(scale + 1, "0")
    point = len(digits) - scale
    text = f"{digits[:point]}.{digits[point:]}" if scale else digits
    return literal("-" + text if number < 0 else text)


def _date(constant: BoundConstant) -> str:
    days = int(constant.value)
    if days in _INFINITE_DAYS:
        return literal(_INFINITE_DAYS[days])
    return f"DATE '1970-01-01' + CAST({days} AS INTEGER)"


def _moment(value: int, type: Type) -> str:
    if value in _INFINITE_MOMENTS:
        return _INFINITE_MOMENTS[value]
    seconds, rest = divmod(value, _PER_SECOND[type.name])
    digits = len(str(_PER_SECOND[type.name])) - 1
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        raise NotDistributed("a constant before the year 1 or after 9999") from None
    zone = "+00" if type.name.endswith("ZONE") else ""
    year, text = text.split("-", 1)
    return f"{year:0>4}-{text}" + (f".{rest:0{digits}}" if rest else "") + zone


def _time(constant: BoundConstant) -> str:
    return literal(_clock(int(constant.value)))


def _clock(value: int) -> str:
    seconds, micros = divmod(value, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _zoned_time(constant: BoundConstant) -> str:
    """Return a time and its distance from UTC, which are the bits above 24 and those below."""
    micros, distance = divmod(int(constant.value), 1 << 24)
    offset = _LARGEST_OFFSET - distance
    seconds = abs(offset)
    zone = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return literal(f"{_clock(micros)}{'-' if offset < 0 else '+'}{zone}")


def _uuid(constant: BoundConstant) -> str:
    return literal(str(UUID(int=(int(constant.value) ^ (1 << 127)) & ((1 << 128) - 1))))


def _interval(constant: BoundConstant) -> str:
    months, days, micros = constant.value
    return literal(f"{months} months {days} days {micros} microseconds")


def _enum(constant: BoundConstant) -> str:
    return literal(constant.type.values[int(constant.value)])


def _list(constant: BoundConstant) -> str:
    return f"[{', '.join(map(constant_sql, constant.value))}]"


def _struct(constant: BoundConstant) -> str:
    values = [constant_sql(value) for value in constant.value]
    return struct_sql(constant.type, values)


def struct_sql(type: Type, values: list[str]) -> str:
    """Return the SQL that makes a struct of values, with the names of the type."""
    if type.is_unnamed:
        return f"row({', '.join(values)})"
    names = (name for name, _ in type.children)
    fields = ", ".join(
        f"{identifier(name)} := {value}" for name, value in zip(names, values, strict=True)
    )
    return f"struct_pack({fields})"


def _map(constant: BoundConstant) -> str:
    keys, values = ([entry.value[side] for entry in constant.value] for side in (0, 1))
    sides = (f"[{', '.join(map(constant_sql, side))}]" for side in (keys, values))
    return f"CAST(MAP({', '.join(sides)}) AS {type_sql(constant.type)})"


_WRITERS: Mapping[str, Callable[[BoundConstant], str]] = {
    "VARCHAR": _text,
    "JSON": _text,
    "BLOB": _text,
    "FLOAT": _number,
    "DOUBLE": _number,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIME": _time,
    "TIME WITH TIME ZONE": _zoned_time,
    "UUID": _uuid,
    "INTERVAL": _interval,
    "ENUM": _enum,
    "LIST": _list,
    "ARRAY": _list,
}
