"""Implements the command `jetbridge`: arguments, terminal output, exit codes."""

from jetbridge.cli.command import main

__all__ = ["main"]
