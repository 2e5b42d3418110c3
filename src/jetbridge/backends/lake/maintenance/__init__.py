"""Compacts tables, and removes files that no table refers to."""
