"""Serves every room: cancellation, temporary folders, memory of the process."""
