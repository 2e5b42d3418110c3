"""Which jars Spark gets, and from where: given, found in a folder, cached, or fetched by Ivy."""

import fcntl
import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from jetbridge.errors import Unavailable
from jetbridge.spark.versions import AWS, ICEBERG, POSTGRES, SQLITE, Jar

FOLDER_VARIABLE = "JETBRIDGE_JARS"
# Any build of it: who gives jars by path may need another version.
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
    """What Spark is told, and the packages that Ivy looks up for it, in the folder `ivy`.

    `source` is where ours come from; packages that the user asked for are always looked up.
    """

    source: Source
    settings: Mapping[str, str]
    ivy: Path
    packages: tuple[str, ...] = ()
    fetched: tuple[Jar, ...] = ()

    def check_fetched(self) -> None:
        """Raises Unavailable if a jar that was fetched is not the one it must be."""
        wrong = [jar for jar in self.fetched if not _find(self.ivy / "jars", jar)]
        if wrong:
            names = ", ".join(jar.file_names[0] for jar in wrong)
            raise Unavailable(
                f"what was fetched is not what it must be, by its SHA-256: {names}; remove "
                f"{self.ivy}, and check the Maven repositories"
            )

    def fetch_failed(self) -> Unavailable:
        names = ", ".join(self.packages)
        return Unavailable(
            f"Spark could not fetch its jars ({names}): put them into a folder and name it in the "
            f"environment variable {FOLDER_VARIABLE}, or list their paths in the setting "
            "spark.jars, or name another Maven repository in the setting spark.jars.repositories"
        )


def files_of(warehouse: str) -> dict[str, str]:
    """How Java reads the files of a warehouse, where it must be told."""
    return {"io-impl": S3_FILES} if warehouse.startswith(_S3) else {}


def needed_jars(catalogs: Iterable[Mapping[str, str]]) -> list[Jar]:
    """SQLite is the default catalog, so its driver always comes along; others on demand."""
    asked = list(catalogs)
    needed = [ICEBERG, SQLITE]
    if any(each.get("uri", "").startswith(POSTGRES_URI) for each in asked):
        needed.append(POSTGRES)
    if any(each.get("io-impl") == S3_FILES for each in asked):
        needed.append(AWS)
    return needed


def choose_jars(
    settings: Mapping[str, str],
    needed: Sequence[Jar],
    environment: Mapping[str, str] = os.environ,
) -> Jars:
    """The first that applies: `spark.jars`, the folder of JETBRIDGE_JARS, the cache, Ivy."""
    ivy = ivy_folder(settings, environment)
    asked = tuple(filter(None, map(str.strip, settings.get("spark.jars.packages", "").split(","))))
    wanted = [jar for jar in needed if not _is_among(jar, asked)]
    if settings.get("spark.jars"):
        return _told("given", _given(settings["spark.jars"], asked), ivy, asked)
    folder = environment.get(FOLDER_VARIABLE)
    if folder:
        paths = _from_folder(Path(folder).expanduser().resolve(), wanted)
        return _told("folder", paths, ivy, asked)
    cached = {jar: str(path) for jar in wanted if (path := _find(ivy / "jars", jar))}
    missing = tuple(jar for jar in wanted if jar not in cached)
    source: Source = "fetch" if missing else "cache"
    told = _told(
        source, list(cached.values()), ivy, (*(jar.coordinates for jar in missing), *asked)
    )
    return replace(told, fetched=missing, settings=_alone(settings, told))


def _alone(given: Mapping[str, str], told: Jars) -> Mapping[str, str]:
    """Nothing comes along with what is fetched whose hash nobody has noted."""
    if not told.packages:
        return told.settings
    return {"spark.jars.excludes": given.get("spark.jars.excludes", _NOT_NEEDED), **told.settings}


def _told(source: Source, paths: Sequence[str], ivy: Path, packages: tuple[str, ...]) -> Jars:
    settings = {"spark.jars.ivy": str(ivy)}
    if paths:
        settings["spark.jars"] = ",".join(paths)
    if packages:
        settings["spark.jars.packages"] = ",".join(packages)
    return Jars(source, settings, ivy, packages)


def ivy_folder(settings: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Path:
    """Where Ivy keeps what it fetched; not ~/.ivy2, which other programs clean and rename."""
    given = settings.get("spark.jars.ivy")
    if given:
        return Path(given).expanduser().resolve()
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().resolve() / "jetbridge" / "ivy"


@contextmanager
def fetching(jars: Jars) -> Iterator[None]:
    """One server at a time fetches into the cache: Ivy tears its own files apart otherwise."""
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


def _given(text: str, asked: Sequence[str]) -> list[str]:
    """The user's jars, as absolute paths: Spark runs in another folder than we do."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    paths = [path for name in names for path in _expanded(name)]
    if not any(ICEBERG_RUNTIME in each for each in (*paths, *asked)):
        wanted = ICEBERG.file_names[1]
        raise Unavailable(f"the setting spark.jars must also name Iceberg's own jar, {wanted}")
    return paths


def _expanded(name: str) -> list[str]:
    """A path may have wildcards; a name with a scheme (file:, hdfs:, s3a:) is Spark's business."""
    if ":" in name:
        return [name]
    pattern = str(Path(name).expanduser().absolute())
    paths = sorted(glob.glob(pattern))
    if not paths:
        # Spark itself would only log it.
        raise Unavailable(f"the setting spark.jars names {pattern}, which does not exist")
    return paths


def _is_among(jar: Jar, packages: Iterable[str]) -> bool:
    """Whether the user named this jar in spark.jars.packages, in whichever version."""
    name = ICEBERG_RUNTIME if jar == ICEBERG else f"{jar.artifact}:"
    return any(each.startswith(f"{jar.group}:{name}") for each in packages)


def _from_folder(folder: Path, wanted: Sequence[Jar]) -> list[str]:
    found = {jar: _find(folder, jar) for jar in wanted}
    lacking = [jar.file_names[1] for jar, path in found.items() if path is None]
    wrong = next((path for jar in wanted for path in _there(folder, jar) if not found[jar]), None)
    if wrong is not None:
        raise Unavailable(
            f"{wrong}, in the folder named by {FOLDER_VARIABLE}, is not what it must be, by its "
            "SHA-256: fetch it again, or name it in the setting spark.jars to use it all the same"
        )
    if lacking:
        problem = f"{folder}, named by {FOLDER_VARIABLE}, lacks {', '.join(lacking)}"
        raise Unavailable(f"{problem}: put them there, or unset {FOLDER_VARIABLE} to fetch them")
    return [str(path) for path in found.values()]


def _there(folder: Path, jar: Jar) -> list[Path]:
    """Whatever is in them."""
    return [path for name in jar.file_names if (path := folder / name).is_file()]


def _find(folder: Path, jar: Jar) -> Path | None:
    """A file that a cut download left behind, or somebody else's of that name, does not count."""
    return next((path for path in _there(folder, jar) if _sha256(path) == jar.sha256), None)


def _sha256(path: Path) -> str:
    found = path.stat()
    return _sha256_of(path, found.st_mtime_ns, found.st_size, found.st_ino)


@cache
def _sha256_of(path: Path, *_: int) -> str:
    """Once for each state of a file: a process may start Spark again and again."""
    made = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            made.update(chunk)
    return made.hexdigest()
