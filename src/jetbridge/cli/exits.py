"""How a command ends that does not end well, and the error for impossible arguments."""

USAGE_ERROR = 2
INTERRUPTED = 130


class UsageError(Exception):
    """An argument that cannot be right; the message is one sentence with what is allowed."""
