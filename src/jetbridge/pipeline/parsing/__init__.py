"""Turns the text of statements into values."""
