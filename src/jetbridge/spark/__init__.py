"""The one place that starts Spark."""

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
