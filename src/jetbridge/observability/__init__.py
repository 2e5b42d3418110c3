"""Log set-up and trace ids."""

from jetbridge.observability.logs import LineFormatter, redact, set_up_logging
from jetbridge.observability.trace import new_trace_id

__all__ = ["LineFormatter", "new_trace_id", "redact", "set_up_logging"]
