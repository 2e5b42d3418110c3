"""DuckDB SQL into Spark SQL, by the table of verified translations."""

from jetbridge.pipeline.translate.translator import translate
from jetbridge.pipeline.translate.types import kind, spark_type
from jetbridge.pipeline.translate.untranslatable import Untranslatable
from jetbridge.pipeline.translate.values import Question, SparkTable

__all__ = ["Question", "SparkTable", "Untranslatable", "kind", "spark_type", "translate"]
