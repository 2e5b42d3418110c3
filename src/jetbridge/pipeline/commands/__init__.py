"""Runs statements: one module for each kind."""
