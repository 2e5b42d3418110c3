"""Pins the jars that go with our PySpark, and chooses where they come from.

They are the user's own, in a folder, in the cache, or what Ivy fetches.
"""

import fcntl
import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from jetbridge.errors import Unavailable


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


FOLDER_VARIABLE = "JETBRIDGE_JARS"
# In any version: the user's own jars may need another one.
ICEBERG_RUNTIME = "iceberg-spark-runtime"
POSTGRES_URI = "jdbc:postgresql:"
S3_FILES = "org.apache.iceberg.aws.s3.S3FileIO"
_S3 = ("s3:", "s3a:", "s3n:")

# The driver of PostgreSQL names it for those who compile it.
_NOT_NEEDED = "org.checkerframework:checker-qual"
_CHUNK = 1024 * 1024

Source = Literal["given", "folder", "cache", "fetch"]


@dataclass(frozen=True)
class Jars:
    """Say which jars Spark gets.

    `settings` are Spark's settings for them. Ivy fetches `packages` into the folder `ivy`, and
    `fetched` are those of ours among them. `source` is where our jars come from; packages of the
    user are always looked up.
    """

    source: Source
    settings: Mapping[str, str]
    ivy: Path
    packages: tuple[str, ...] = ()
    fetched: tuple[Jar, ...] = ()

    def check_fetched_jars(self) -> None:
        """Raise Unavailable if a jar that was fetched has another SHA-256 than the known one."""
        wrong = [jar for jar in self.fetched if not _find(self.ivy / "jars", jar)]
        if wrong:
            names = ", ".join(jar.file_names[0] for jar in wrong)
            raise Unavailable(
                f"fetched jars do not have the expected SHA-256: {names}; remove "
                f"{self.ivy}, and check the Maven repositories"
            )

    def fetch_error(self) -> Unavailable:
        """Return the error for jars that could not be fetched."""
        names = ", ".join(self.packages)
        return Unavailable(
            f"Spark could not fetch its jars ({names}): put them into a folder and name it in the "
            f"environment variable {FOLDER_VARIABLE}, or list their paths in the setting "
            "spark.jars, or name another Maven repository in the setting spark.jars.repositories"
        )


def files_of(warehouse: str) -> dict[str, str]:
    """Return the properties by which Java reads the files of a warehouse, where it needs any."""
    return {"io-impl": S3_FILES} if warehouse.startswith(_S3) else {}


def needed_jars(catalogs: Iterable[Mapping[str, str]]) -> list[Jar]:
    """Return the jars that catalogs with these properties need.

    The driver of SQLite is always among them, as SQLite is the default catalog.
    """
    catalogs = list(catalogs)
    needed = [ICEBERG, SQLITE]
    if any(properties.get("uri", "").startswith(POSTGRES_URI) for properties in catalogs):
        needed.append(POSTGRES)
    if any(properties.get("io-impl") == S3_FILES for properties in catalogs):
        needed.append(AWS)
    return needed


def choose_jars(
    settings: Mapping[str, str],
    needed: Sequence[Jar],
    environment: Mapping[str, str] = os.environ,
) -> Jars:
    """Return the jars from the first source that applies.

    The sources are `spark.jars`, the folder of JETBRIDGE_JARS, the cache, and Ivy. Raises
    Unavailable if one of the first two lacks a jar.
    """
    ivy = ivy_folder(settings, environment)
    names = map(str.strip, settings.get("spark.jars.packages", "").split(","))
    packages = tuple(filter(None, names))
    needed = [jar for jar in needed if not _is_among(jar, packages)]
    if settings.get("spark.jars"):
        return _jars("given", _user_jars(settings["spark.jars"], packages), ivy, packages)
    folder = environment.get(FOLDER_VARIABLE)
    if folder:
        paths = _from_folder(Path(folder).expanduser().resolve(), needed)
        return _jars("folder", paths, ivy, packages)
    cached = {jar: str(path) for jar in needed if (path := _find(ivy / "jars", jar))}
    missing = tuple(jar for jar in needed if jar not in cached)
    source: Source = "fetch" if missing else "cache"
    packages = (*(jar.coordinates for jar in missing), *packages)
    jars = _jars(source, list(cached.values()), ivy, packages)
    return replace(jars, fetched=missing, settings=_without_dependencies(settings, jars))


def _without_dependencies(settings: Mapping[str, str], jars: Jars) -> Mapping[str, str]:
    """Return the settings without the dependencies of what is fetched: their hashes are unknown."""
    if not jars.packages:
        return jars.settings
    return {
        "spark.jars.excludes": settings.get("spark.jars.excludes", _NOT_NEEDED),
        **jars.settings,
    }


def _jars(source: Source, paths: Sequence[str], ivy: Path, packages: tuple[str, ...]) -> Jars:
    settings = {"spark.jars.ivy": str(ivy)}
    if paths:
        settings["spark.jars"] = ",".join(paths)
    if packages:
        settings["spark.jars.packages"] = ",".join(packages)
    return Jars(source, settings, ivy, packages)


def ivy_folder(settings: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Path:
    """Return Ivy's folder. It is not ~/.ivy2, which other programs clean and rename."""
    folder = settings.get("spark.jars.ivy")
    if folder:
        return Path(folder).expanduser().resolve()
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().resolve() / "jetbridge" / "ivy"


@contextmanager
def fetching(jars: Jars) -> Iterator[None]:
    """Hold a lock of the cache: Ivy damages its files if two processes fetch at once."""
    if not jars.packages:
        yield
        return
    try:
        jars.ivy.mkdir(parents=True, exist_ok=True)
        lock = (jars.ivy / "jetbridge.lock").open("w")
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unavailable(f"the folder for Spark's jars, {jars.ivy}, fails: {reason}") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _user_jars(text: str, packages: Sequence[str]) -> list[str]:
    """Return the user's jars as absolute paths: Spark runs in another folder than we do."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    paths = [path for name in names for path in _expand(name)]
    if not any(ICEBERG_RUNTIME in name for name in (*paths, *packages)):
        jar = ICEBERG.file_names[1]
        raise Unavailable(f"the setting spark.jars must also name Iceberg's own jar, {jar}")
    return paths


def _expand(name: str) -> list[str]:
    """Return the paths that a name with wildcards matches. One with a scheme (s3a:) is Spark's."""
    if ":" in name:
        return [name]
    pattern = str(Path(name).expanduser().absolute())
    paths = sorted(glob.glob(pattern))
    if not paths:
        # Spark itself would only log it.
        raise Unavailable(f"the setting spark.jars names {pattern}, which does not exist")
    return paths


def _is_among(jar: Jar, packages: Iterable[str]) -> bool:
    """Return whether the user's packages contain a jar, in any version."""
    name = ICEBERG_RUNTIME if jar == ICEBERG else f"{jar.artifact}:"
    return any(package.startswith(f"{jar.group}:{name}") for package in packages)


def _from_folder(folder: Path, needed: Sequence[Jar]) -> list[str]:
    """Return the paths of jars in a folder; raises Unavailable if one is missing or wrong."""
    paths = {jar: _find(folder, jar) for jar in needed}
    missing = [jar.file_names[1] for jar, path in paths.items() if path is None]
    wrong = next(
        (path for jar in needed for path in _find_files(folder, jar) if not paths[jar]), None
    )
    if wrong is not None:
        raise Unavailable(
            f"{wrong}, in the folder of {FOLDER_VARIABLE}, has another SHA-256 than the known jar: "
            "fetch it again, or name it in the setting spark.jars to use it nevertheless"
        )
    if missing:
        problem = f"{folder}, the folder of {FOLDER_VARIABLE}, lacks {', '.join(missing)}"
        raise Unavailable(f"{problem}: put them there, or unset {FOLDER_VARIABLE} to fetch them")
    return [str(path) for path in paths.values()]


def _find_files(folder: Path, jar: Jar) -> list[Path]:
    """Return the files that have a name of the jar, whatever they contain."""
    return [path for name in jar.file_names if (path := folder / name).is_file()]


def _find(folder: Path, jar: Jar) -> Path | None:
    """Return the file of a jar; one with another content does not count, such as a cut download."""
    return next((path for path in _find_files(folder, jar) if _sha256(path) == jar.sha256), None)


def _sha256(path: Path) -> str:
    status = path.stat()
    return _sha256_of(path, status.st_mtime_ns, status.st_size, status.st_ino)


@cache
def _sha256_of(path: Path, *_: int) -> str:
    """Compute a hash once for each state of a file: a process may start Spark many times."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
