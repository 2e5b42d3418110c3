"""A session of the pipeline in a process of its own: statements come in, outcomes go out.

python -m tests.faults.pipeline_child CONFIG
"""

import json
import sys
from pathlib import Path

from jetbridge.app.configuration import load_config
from jetbridge.app.sessions import open_session
from jetbridge.pipeline.run import run


def main(file: str) -> None:
    with open_session(load_config(Path(file))) as session:
        for line in sys.stdin:
            try:
                found = [outcome.table().to_pylist() for outcome in run(session, json.loads(line))]
                answer = {"rows": found[-1]}
            except Exception as error:  # noqa: BLE001 - the test looks at it
                answer = {"error": type(error).__name__, "message": str(error)}
            sys.stdout.write(f"{json.dumps(answer, default=str)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
