"""The server in a process of its own, as its owner sees it."""

import json
import subprocess
import sys
import threading
from typing import Any, NamedTuple

_SAID = "listening on 127.0.0.1"


# Tests order from several threads, and an answer belongs to the order before it.
_one_at_a_time = threading.Lock()


class ServerProcess(NamedTuple):
    """What `control` knows is ordered on its standard input, until that is closed."""

    port: int
    process: subprocess.Popen[str]

    def order(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with _one_at_a_time:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def stop(self) -> int:
        """Its exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(10)
        self.process.stdout.close()
        return code


def start(*options: str) -> ServerProcess:
    command = [sys.executable, "-m", "standins.tds", *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said, _, port = process.stdout.readline().strip().rpartition(":")
    assert said == _SAID, said
    return ServerProcess(int(port), process)
