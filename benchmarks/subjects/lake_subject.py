"""Serve a catalog `memory`, and a catalog `lake` in the folder that is the argument."""

import sys
from pathlib import Path

from benchmarks.by_hand import ByHand
from jetbridge.backends.lake import LakeCatalog
from jetbridge.backends.memory import MemoryCatalog
from jetbridge.service import Server
from jetbridge.spark.engine import SparkEngine

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    engine = SparkEngine(log_file=folder / "spark.log", scratch=folder)
    lake = LakeCatalog("lake", folder / "warehouse", engine)
    actions = ByHand(lake, engine).actions()
    server = Server({"memory": MemoryCatalog(), "lake": lake}, port=0, actions=actions)
    server.start()
    print(f"listening on {server.location}", flush=True)
    engine.start()
    server.wait()
