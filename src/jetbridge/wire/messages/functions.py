"""Requests of table functions."""

from msgspec import Struct

from jetbridge.wire.codec import Blob


class TableFunctionFlightInfo(Struct, frozen=True, kw_only=True):
    descriptor: Blob
    parameters: Blob = Blob(b"")
    table_input_schema: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""


class InOutParameters(Struct, frozen=True, kw_only=True):
    """The metadata message that opens a table in/out exchange."""

    json_filters: str = ""
    column_ids: list[int] | None = None
    parameters: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""
