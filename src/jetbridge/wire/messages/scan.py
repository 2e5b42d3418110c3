"""Requests that prepare a scan."""

from msgspec import Struct, field

from jetbridge.wire.codec import Blob


class ScanParameters(Struct, frozen=True, kw_only=True):
    json_filters: str = ""
    column_ids: list[int] | None = None
    table_function_parameters: Blob = Blob(b"")
    table_function_input_schema: Blob = Blob(b"")
    at_unit: str = ""
    at_value: str = ""


class Endpoints(Struct, frozen=True, kw_only=True):
    descriptor: Blob
    parameters: ScanParameters = field(default_factory=ScanParameters)


class FlightInfo(Struct, frozen=True, kw_only=True):
    descriptor: Blob
    at_unit: str = ""
    at_value: str = ""
