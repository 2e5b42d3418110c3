"""Pins the Java versions and the jars that go with the PySpark of the extra `lake`."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Jar:
    """Name a jar by its Maven coordinates and the SHA-256 of its file."""

    group: str
    artifact: str
    version: str
    sha256: str = field(default="", compare=False)

    @property
    def coordinates(self) -> str:
        """Return the name by which Ivy fetches the jar."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_names(self) -> tuple[str, str]:
        """Return the name that Ivy gives the file, and the one in the repository."""
        plain = f"{self.artifact}-{self.version}.jar"
        return f"{self.group}_{plain}", plain


# Spark 4.1 runs on these (https://spark.apache.org/docs/4.1.0/); the first is the recommended one.
JAVA_VERSIONS = (17, 21)

# 4.1 is Spark's version, 2.13 Scala's: both belong to the pin of pyspark in pyproject.toml.
ICEBERG = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
SQLITE = Jar(
    "org.xerial",
    "sqlite-jdbc",
    "3.50.3.0",
    "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
)
AWS = Jar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    ICEBERG.version,
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
POSTGRES = Jar(
    "org.postgresql",
    "postgresql",
    "42.7.8",
    "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
)
