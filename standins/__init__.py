"""Servers that stand in for those that the tests and benchmarks cannot start here."""
