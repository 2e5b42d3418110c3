"""A process that judges the files that it is sent by name, and answers one line of JSON a file."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.scoreboard.corpora import GENERATORS, judge_benchmark
from benchmarks.scoreboard.files import Judged, judge_file


def summary(judged: Iterable[Judged]) -> dict[str, Any]:
    """Return counts of verdicts, with the queries that are not equal."""
    counts: Counter[str] = Counter()
    others, seconds = [], []
    for query, verdict in judged:
        if verdict is None:
            counts["no answer of their own"] += 1
            continue
        counts["queries"] += 1
        counts[f"whole: {verdict.whole}"] += 1
        counts[f"cut: {verdict.cut}"] += 1
        counts["more than one stage"] += verdict.stages > 1
        seconds.append(round(verdict.seconds, 4))
        if {verdict.whole, verdict.cut} != {"equal"}:
            others.append({"query": query[:600], **asdict(verdict)})
    return {"counts": dict(counts), "others": others, "seconds": seconds}


def main() -> None:
    """Serve names of files and benchmarks, one a line, until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        judged = judge_benchmark(name) if name in GENERATORS else judge_file(Path(name))
        print(json.dumps({"name": name, **summary(judged)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
