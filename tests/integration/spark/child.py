"""A process that owns a Spark engine: `child.py FOLDER`.

It says "up" when Spark is, then answers each line on standard input with a count of rows, until it
is killed. Everything else it might print is a mistake that the test looks for.
"""

import signal
import sys
from pathlib import Path

from jetbridge.spark import SparkEngine
from tests.integration.spark.small_catalog import catalog_properties


def main(folder: Path) -> None:
    # As `jetbridge serve` does: Ctrl-C is the beginning of the end, not the end.
    signal.signal(signal.SIGINT, lambda *_: None)
    engine = SparkEngine(log_file=folder / "spark.log", scratch=folder / "scratch")
    engine.add_catalog("child", catalog_properties(folder))
    with engine.session() as session:
        session.sql("CREATE NAMESPACE child.s")
        session.sql("CREATE TABLE child.s.t AS SELECT 1 AS i")
    for statement in ("SELEC", "SELECT * FROM child.s.nowhere", "SELECT raise_error('no')"):
        fail(engine, statement)
    say("up")
    for _ in sys.stdin:
        with engine.session() as session:
            say(str(session.sql("SELECT * FROM child.s.t").count()))


def fail(engine: SparkEngine, statement: str) -> None:
    try:
        with engine.session() as session:
            session.sql(statement).collect()
    except Exception:
        return
    raise AssertionError(statement)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
