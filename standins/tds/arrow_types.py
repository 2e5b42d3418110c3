"""Which Arrow type stands for a SQL type where rows go between wire and engine in columns."""

import pyarrow as pa

from standins.tds.values import SqlType

# A datetimeoffset keeps its offset, for which Arrow has no place.
OFFSET_TIME = pa.struct([("utc", pa.timestamp("us", tz="UTC")), ("minutes", pa.int16())])

_PLAIN: dict[str, pa.DataType] = {
    "bit": pa.bool_(),
    "tinyint": pa.uint8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "float": pa.float64(),
    "money": pa.decimal128(19, 4),
    "smallmoney": pa.decimal128(10, 4),
    "char": pa.string(),
    "varchar": pa.string(),
    "nchar": pa.string(),
    "nvarchar": pa.string(),
    "binary": pa.binary(),
    "varbinary": pa.binary(),
    "uniqueidentifier": pa.uuid(),  # the bytes as UUID.bytes has them, not as the wire does
    "date": pa.date32(),
    "time": pa.time64("us"),
    "datetime2": pa.timestamp("us"),
    "datetime": pa.timestamp("us"),
    "smalldatetime": pa.timestamp("us"),
    "datetimeoffset": OFFSET_TIME,
}


def arrow_type(kind: SqlType) -> pa.DataType:
    """The seventh fractional digit of times has no place here, nor in Python's values."""
    if kind.name in ("decimal", "numeric"):
        precision = 18 if kind.precision is None else kind.precision
        return pa.decimal128(precision, kind.scale or 0)
    return _PLAIN[kind.name]
