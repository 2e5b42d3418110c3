"""Writes and checks requirements.lock: names, versions and hashes, no addresses.

    python tools/lock.py write [--upgrade]
    python tools/lock.py check

The first line of the lock is a digest of the dependency tables of pyproject.toml, so the check
needs no package index.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
HEADER = "# Made by `make lock` from pyproject.toml; dependencies sha256:"
# What `make setup` installs besides the core: everything the tests and the defaults use.
EXTRAS = ("lake", "mssql")
ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|\b[\w-]+\.(?:org|com|net|io)\b")


def dependencies_digest() -> str:
    """Return the digest of everything in pyproject.toml that decides what is installed."""
    project = tomllib.loads(PYPROJECT.read_text())
    inputs = [
        project["project"]["requires-python"],
        project["project"]["dependencies"],
        {name: project["project"]["optional-dependencies"][name] for name in EXTRAS},
        project["dependency-groups"],
    ]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def write(*options: str) -> int:
    """Resolve the dependencies with uv and write the lock; return an exit code."""
    command = [f"{ROOT}/.venv/bin/uv", "pip", "compile", "--quiet", "--universal"]
    command += ["--generate-hashes", "--no-emit-index-url", "--no-header"]
    command += ["--python-version", "3.11", "--group", "dev", "--output-file", LOCK.name]
    command += [option for extra in EXTRAS for option in ("--extra", extra)]
    compiled = subprocess.run([*command, *options, PYPROJECT.name], cwd=ROOT, check=False)
    if compiled.returncode == 0:
        LOCK.write_text(f"{HEADER}{dependencies_digest()}\n{LOCK.read_text()}")
        return check()
    return compiled.returncode


def check() -> int:
    """Report an outdated lock, and addresses in it; return an exit code."""
    lines = LOCK.read_text().splitlines()
    problems = [
        f"requirements.lock:{number}: contains an address: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if ADDRESS.search(line)
    ]
    if lines[:1] != [f"{HEADER}{dependencies_digest()}"]:
        problems.append("requirements.lock does not match pyproject.toml: run `make lock`")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    action, *rest = sys.argv[1:] or ["check"]
    sys.exit(write(*rest) if action == "write" else check())
