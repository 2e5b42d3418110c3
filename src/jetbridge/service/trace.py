"""Trace ids: one per failed call, shown to the client and written to the log."""

import secrets


def new_trace_id() -> str:
    """16 hexadecimal digits; short enough to read out on the telephone."""
    return secrets.token_hex(8)
