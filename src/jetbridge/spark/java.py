"""Finds a Java that Spark runs on."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jetbridge.errors import Unavailable
from jetbridge.spark.versions import JAVA_VERSIONS

# Where Debian, Ubuntu and Fedora install Java.
FOLDER = Path("/usr/lib/jvm")
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
SECONDS = 20.0
ALLOWED = " or ".join(map(str, JAVA_VERSIONS))
REMEDY = (
    f"install it with `apt-get install openjdk-{JAVA_VERSIONS[0]}-jre-headless` (Debian, Ubuntu), "
    f"elsewhere install any Java {ALLOWED} and set JAVA_HOME to its folder"
)


@dataclass(frozen=True)
class Java:
    """Describe a Java on this machine; `home` is the value for JAVA_HOME."""

    home: Path
    version: int


def find_java() -> Java:
    """Return a Java of a version that Spark supports; raises Unavailable, which names the others.

    JAVA_HOME comes first, then PATH, then the usual folder.
    """
    others: list[str] = []
    homes: set[Path] = set()
    for home in _homes():
        if home in homes:
            continue
        homes.add(home)
        version = java_version(home)
        if version in JAVA_VERSIONS:
            return Java(home, version)
        if version is not None:
            others.append(f"Java {version} in {home}")
    listed = f" (found {', '.join(others)})" if others else ""
    raise Unavailable(f"Spark needs Java {ALLOWED}, which this machine lacks{listed}: {REMEDY}")


def java_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder, or None if none works there."""
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(text: str) -> int | None:
    """Return the major version that `java -version` prints: Java 8 calls itself 1.8."""
    match = VERSION.search(text)
    return int(match[1]) if match else None


def _homes() -> Iterator[Path]:
    """Yield the folders in which there may be a Java."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home).resolve()
    path = shutil.which("java")
    if path:
        # Debian's /usr/bin/java is a link to a link to the home's bin/java.
        yield Path(path).resolve().parent.parent
    if FOLDER.is_dir():
        yield from (path.resolve() for path in sorted(FOLDER.iterdir()) if path.is_dir())
