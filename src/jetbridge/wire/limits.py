"""What one message of the other side may make this process hold: all limits of the decoders."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class InputLimits:
    """`unpacked_bytes` and `batch_rows` are of one batch, `request_bytes` of one msgpack body."""

    unpacked_bytes: int = 64 * MIB
    batch_rows: int = 1_048_576
    request_bytes: int = 8 * MIB
    # Lists and maps count one, and so does each of their keys and values.
    request_items: int = 100_000
    request_depth: int = 16


REQUEST_LIMITS = InputLimits()
# Answers of a server that the caller chose: a listing names every table of a catalog.
ANSWER_LIMITS = InputLimits(
    unpacked_bytes=1024 * MIB,
    batch_rows=2**31 - 1,
    request_bytes=1024 * MIB,
    request_items=5_000_000,
)

# Of one schema. Names and metadata may refer to the same bytes of the message many times, so they
# are counted each time.
SCHEMA_FIELDS = 20_000
SCHEMA_DEPTH = 64
SCHEMA_TEXT_BYTES = 16 * MIB
# A value without bytes of its own (NULL of the type null, a repeated value) counts as this many.
WEIGHTLESS_BYTES = 8
# A descriptor is one path.
DESCRIPTOR_BYTES = 64 * 1024
# FlightData has four fields.
MESSAGE_FIELDS = 64
