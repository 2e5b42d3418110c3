"""The JVMs below a process, for tests that kill them."""

import psutil


def jvms(process: psutil.Process, *, recursive: bool = False) -> list[psutil.Process]:
    """Return the JVMs that run now: other children may end at any moment."""
    return [each for each in process.children(recursive=recursive) if _is_java(each)]


def _is_java(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "java")
    except psutil.NoSuchProcess:
        return False
