"""Batches: control flow, statements, procedures."""
