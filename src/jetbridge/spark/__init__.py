"""Runs Spark in a process: the only room that starts Java.

Examples:
    >>> from pathlib import Path
    >>> engine = SparkEngine({"spark.driver.memory": "4g"}, log_file=Path("spark.log"))
    >>> engine.status()
    'not started'
"""

from jetbridge.spark.application import SparkConnection
from jetbridge.spark.engine import SparkEngine
from jetbridge.spark.errors import is_java, java_class, java_classes, java_message

__all__ = [
    "SparkConnection",
    "SparkEngine",
    "is_java",
    "java_class",
    "java_classes",
    "java_message",
]
