"""Serve an empty memory catalog named `bench`."""

from jetbridge.backends.memory import MemoryCatalog
from jetbridge.service import Server

if __name__ == "__main__":
    server = Server({"bench": MemoryCatalog()}, port=0)
    server.start()
    print(f"listening on {server.location}", flush=True)
    server.wait()
