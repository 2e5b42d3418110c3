"""Queries of known corpora, rendered and cut into stages, compared with their own answers."""
