"""What a table may look like, and how rows that are sent become rows that are stored.

Shared by the backends; nothing here knows where the rows are kept.
"""
