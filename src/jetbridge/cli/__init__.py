"""The command `jetbridge`."""

from jetbridge.cli.command import main

__all__ = ["main"]
