"""Defines tables and converts rows for all backends, wherever they keep the rows."""
