"""The example of the README as a module."""

import importlib.util
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "parquet_folder.py"


def parquet_folder() -> Any:
    spec = importlib.util.spec_from_file_location("parquet_folder", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
