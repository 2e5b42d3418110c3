"""Provides every room with cancellation, temporary folders and memory of the process."""
