"""Orders to a server in a process of its own: lines of JSON, each answered by a line.

{"fault": {"when": "statement", "pattern": "COMMIT", "number": 1205}}
{"clear": true}
{"counts": true}
{"bulk_rows": true}
{"fired": true}
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from standins.tds.faults import Fault
from standins.tds.server import Server


def obey(server: Server, lines: Iterable[str], answer: Callable[[str], None]) -> None:
    for line in lines:
        try:
            result = _order(server, json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        answer(json.dumps(result))


def _order(server: Server, order: dict[str, Any]) -> dict[str, Any]:
    ((what, given),) = order.items()
    if what == "fault":
        server.faults.add(Fault.from_mapping(given))
        return {"ok": True}
    if what == "clear":
        server.faults.clear()
        return {"ok": True}
    if what == "bulk_rows":  # for those who ask often
        return {"bulk_rows": server.counters.now.bulk_rows}
    if what == "fired":  # for those who ask often
        return {"fired": len(server.faults.fired)}
    if what == "counts":
        counters = server.counters
        fired = [asdict(fault) for fault in server.faults.fired]
        return {
            **asdict(counters.now),
            "open": server.connections,
            "batches": counters.batches,
            "by_session": counters.by_session,
            "fired": fired,
        }
    raise KeyError(what)
