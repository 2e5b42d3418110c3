"""Checks that tests run in the process of their group, which pytest and xdist agree on."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.plugins.selection import without_group

ROOT = Path(__file__).resolve().parents[2]
RAN = re.compile(r"\[(gw\d)\] \[ *\d+%\] PASSED (\S+)")
FILES = ("tests/unit/service/test_failed_logins.py", "tests/unit/service/test_transactions.py")


def test_tests_of_a_file_run_in_one_process_under_their_own_names():
    options = (
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "--no-loadscope-reorder",
        "-v",
        "-p",
        "no:cacheprovider",
    )
    environment = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *FILES],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    processes: dict[str, set[str]] = {}
    for process, test in RAN.findall(done.stdout):
        processes.setdefault(test.partition("::")[0], set()).add(process)
        assert "@" not in test
    assert processes.keys() == set(FILES)
    assert [file for file, where in processes.items() if len(where) != 1] == []


def test_name_without_its_group_keeps_an_at_sign_of_a_parameter():
    assert without_group("a.py::test[x@y]@spark") == "a.py::test[x@y]"
    assert without_group("a.py::test[x@y]") == "a.py::test[x@y]"
    assert without_group("a.py::test@a.py") == "a.py::test"
