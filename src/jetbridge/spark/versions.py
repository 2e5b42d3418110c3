"""The one place that says which Java and which jars go with the PySpark of the extra `lake`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Jar:
    """The Maven coordinates of a jar."""

    group: str
    artifact: str
    version: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_names(self) -> tuple[str, str]:
        """What Ivy calls the file, and what the repository calls it."""
        plain = f"{self.artifact}-{self.version}.jar"
        return f"{self.group}_{plain}", plain


# Spark 4.1 runs on these (https://spark.apache.org/docs/4.1.0/); the first is the one we advise.
JAVA_VERSIONS = (17, 21)

# 4.1 is Spark's version, 2.13 Scala's: both belong to the pin of pyspark in pyproject.toml.
ICEBERG = Jar("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")
SQLITE = Jar("org.xerial", "sqlite-jdbc", "3.50.3.0")
AWS = Jar("org.apache.iceberg", "iceberg-aws-bundle", ICEBERG.version)
POSTGRES = Jar("org.postgresql", "postgresql", "42.7.8")
