"""Compacts tables and removes files that are no longer needed."""
