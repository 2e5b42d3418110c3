"""How names are compared."""

import string

_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def fold(name: str) -> str:
    """The form in which equal names are equal: DuckDB folds A to Z and nothing else."""
    return name.translate(_FOLD)
