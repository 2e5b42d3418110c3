"""Manages what reads and writes of a warehouse share: locks, spool tables and Java's catalog."""
