"""Defines how much memory the decoders may use for one message of the other side."""

from dataclasses import dataclass

from jetbridge.catalog.settings import BATCH_ROWS, MESSAGE_BYTES, REQUEST_BYTES

MIB = 1024 * 1024


@dataclass(frozen=True)
class InputLimits:
    """Limit one batch (`unpacked_bytes`, `batch_rows`) and one msgpack body (`request_…`)."""

    unpacked_bytes: int = MESSAGE_BYTES
    batch_rows: int = BATCH_ROWS
    request_bytes: int = REQUEST_BYTES
    # Each list and each map is one item, and so is each of their keys and values.
    request_items: int = 100_000
    request_depth: int = 16


REQUEST_LIMITS = InputLimits()
# For the answers of a server, which the caller trusts: a listing has every table of a catalog.
ANSWER_LIMITS = InputLimits(
    unpacked_bytes=1024 * MIB,
    batch_rows=2**31 - 1,
    request_bytes=1024 * MIB,
    request_items=5_000_000,
)

# For one schema. Names and metadata may refer to the same bytes of the message several times; each
# time counts.
SCHEMA_FIELDS = 20_000
SCHEMA_DEPTH = 64
SCHEMA_TEXT_BYTES = 16 * MIB
# What a value without bytes of its own counts: a NULL of type null, a repeated value.
WEIGHTLESS_BYTES = 8
# A descriptor is one path.
DESCRIPTOR_BYTES = 64 * 1024
# FlightData has four fields.
MESSAGE_FIELDS = 64
# How often a stream may extend its dictionaries, and how many times more bytes than it sends they
# may unpack to or copy, beyond the same multiple of one batch.
DICTIONARY_DELTAS = 4096
DICTIONARY_WORK = 16
