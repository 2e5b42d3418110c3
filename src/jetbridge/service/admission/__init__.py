"""Decides whether a call may run: its token, how many calls, for how long."""
