"""Translated queries answer in Spark what DuckDB answers: rows, order and types."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from jetbridge.embedded.workbench import Access, Desk, Workbench
from jetbridge.pipeline.places import Place
from jetbridge.pipeline.translate import Question, SparkTable, spark_type, translate
from tests.lakes import engine

pytestmark = pytest.mark.lake
