"""Defines exit codes, and the error for impossible arguments."""

USAGE_ERROR = 2
INTERRUPTED = 130


class UsageError(Exception):
    """Refuse an argument; the message is one sentence with what is allowed."""
