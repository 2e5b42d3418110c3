"""Sends Spark's log to a file, never to the terminal."""

from pathlib import Path

from jetbridge.spark.settings import escape

# The file itself and two older ones.
TEMPLATE = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file

appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {pattern}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.charset = UTF-8
appender.file.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSS}}{{UTC}}Z %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.fileIndex = min
appender.file.strategy.max = 2

# Spark applies the level of this logger to all others (Logging.initializeLogging).
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
# It warns at every start that it runs without native code, which is normal.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def log4j_properties(log_file: Path, *, verbose: bool = False) -> str:
    """Return a log4j2 configuration that logs to a file: three files of 10 MB each."""
    # log4j looks for ${...} in every value, and for %i and its like in the pattern.
    file = str(log_file).replace("${", "$${")
    level = "info" if verbose else "warn"
    pattern = file.replace("%", "%%")
    return TEMPLATE.format(level=level, file=escape(file), pattern=escape(pattern))
