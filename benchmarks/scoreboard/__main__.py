"""Writes benchmarks/results/scoreboard.json: how queries of known corpora fare as stages.

    make scoreboard ARGS="--tests WORKTREE"

WORKTREE is a work tree of DuckDB, whose SELECTs in test/sql are judged besides TPC-H and TPC-DS.
Judged files are kept beside the temporary files, so a run that was stopped goes on; `--seconds`
stops it. Files are judged in an order in which a part of them is a fair sample of all.
"""

import argparse
import hashlib
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.scoreboard.corpora import GENERATORS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "scoreboard.json"
SECONDS = 60.0
CORPUS_SECONDS = 600.0


class Worker:
    """A process that judges, which is started again if a file takes too long or ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scoreboard.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()

    @staticmethod
    def _read(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> None:
        for line in process.stdout or ():
            lines.put(line)
        lines.put("")

    def judge(self, name: str, seconds: float) -> dict[str, Any]:
        """Return what the process answers, or that it did not."""
        if self._process.stdin is not None:
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            line = ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        self._start()
        return {"name": name, "counts": {"files without an end": 1}, "others": [], "seconds": []}

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def judged_files(
    folder: Path, names: list[str], state: Path, jobs: int = 1, seconds: float = float("inf")
) -> list[dict[str, Any]]:
    """Return the verdicts of files, from an earlier run where there are any.

    After some seconds no more files are judged.
    """
    end = monotonic() + seconds
    known = {}
    if state.exists():
        known = {one["name"]: one for one in map(json.loads, state.read_text().splitlines())}
    waiting: queue.Queue[str] = queue.Queue()
    for name in names:
        if name not in known:
            waiting.put(name)
    lock = threading.Lock()

    def judge() -> None:
        worker = Worker(folder)
        with suppress(queue.Empty):
            while monotonic() < end:
                name = waiting.get_nowait()
                limit = CORPUS_SECONDS if name in GENERATORS else SECONDS
                answer = worker.judge(name, limit)
                with lock, state.open("a") as log:
                    known[name] = answer
                    log.write(json.dumps(answer) + "\n")
        worker.close()

    with ThreadPoolExecutor(jobs) as pool:
        for job in [pool.submit(judge) for _ in range(jobs)]:
            job.result()
    return [known[name] for name in names if name in known]


def report(verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts, reasons, and the median of plan, render and cut together."""
    counts: Counter[str] = Counter()
    reasons: dict[str, Counter[str]] = {"whole": Counter(), "cut": Counter()}
    seconds: list[float] = []
    for verdict in verdicts:
        counts.update(verdict["counts"])
        seconds += verdict["seconds"]
        for other in verdict["others"]:
            for kind, key in (("whole", "reason"), ("cut", "cut_reason")):
                if other[kind] == "refused":
                    reasons[kind][other[key]] += 1
    return {
        "counts": dict(sorted(counts.items())),
        "refused as one stage": dict(reasons["whole"].most_common(60)),
        "refused as stages": dict(reasons["cut"].most_common(60)),
        "plan, render and cut (median ms)": round(1000 * statistics.median(seconds or [0]), 1),
    }


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.name.encode()).digest()


def main() -> None:
    """Judge the corpora, write the results and print them."""
    parser = argparse.ArgumentParser(prog="make scoreboard")
    parser.add_argument("--tests", type=Path, help="a work tree of DuckDB")
    parser.add_argument("--under", default="test/sql", help="a folder of it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--again", action="store_true", help="forget what was judged")
    parser.add_argument("--corpora", nargs="*", default=list(GENERATORS), help="tpch, tpcds")
    parser.add_argument("--jobs", type=int, default=1, help="processes that judge")
    options = parser.parse_args()
    state = Path(tempfile.gettempdir()) / "jetbridge-scoreboard.jsonl"
    if options.again:
        state.unlink(missing_ok=True)
    results = {}
    for corpus in options.corpora:
        results[corpus] = report(judged_files(ROOT, [corpus], state))
    if options.tests:
        tests = sorted((options.tests / options.under).rglob("*.test"), key=_digest)
        names = [str(path.relative_to(options.tests)) for path in tests]
        verdicts = judged_files(options.tests, names, state, options.jobs, options.seconds)
        results["duckdb"] = {"files": f"{len(verdicts)} of {len(names)}", **report(verdicts)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
