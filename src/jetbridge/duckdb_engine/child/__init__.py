"""Statements of clients run here: in a process of their own, with hard limits of memory.

DuckDB's memory_limit does not count everything: long strings, lists and the states of some
aggregates are left out. The system counts all of it, and ends this process alone.

    server ── starts once ──> fork_server ── forks for each session ──> worker
       └───────────────────── messages of `channel` ──────────────────────┘
"""
