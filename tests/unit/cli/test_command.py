import subprocess
import sys

import pytest

from jetbridge import __version__
from jetbridge.cli import main


def run_main(*arguments: str) -> int:
    """The exit code, however it comes."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, f"jetbridge {__version__}\n", ""),
        (["--help"], 0, "ATTACH 'lake' AS l (TYPE AIRPORT", ""),
        (["serve", "--help"], 0, "listening on grpc://HOST:PORT", ""),
        (["optimize", "--help"], 0, "jetbridge optimize lake.shop.orders --older-than 12h", ""),
        ([], 2, "", "the following arguments are required: COMMAND"),
        (["sevre"], 2, "", "invalid choice: 'sevre'"),
        (["serve", "--port", "x"], 2, "", "invalid int value: 'x'"),
        (["serve", "--port", "70000"], 2, "", "--port = 70000: must be a whole number from 0"),
        (["serve", "--host", "0.0.0.0"], 2, "", "set server.tokens_file"),
        (["serve", "--config", "no-such.toml"], 2, "", "no-such.toml: cannot be read: No such fil"),
        (["serve", "--warehouse", ""], 2, "", "--warehouse = '': must be the path of a folder"),
        (["optimize"], 2, "", "the following arguments are required: CATALOG.SCHEMA.TABLE"),
    ],
)
def test_command_line_answers_or_says_what_is_wrong(capsys, arguments, code, out, err):
    assert run_main(*arguments) == code
    said = capsys.readouterr()
    assert out in said.out
    assert err in said.err


def test_bad_configuration_is_one_line_on_standard_error(tmp_path, capsys):
    path = tmp_path / "jetbridge.toml"
    path.write_text("[server]\nprot = 1")
    assert run_main("serve", "--config", str(path)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f"jetbridge: {path}: server.prot is not a known key; did you mean 'port'? Known: "
        "host, port, tokens_file, tls_cert, tls_key, drain_seconds, transaction_seconds, "
        "seal_key_file, open_handshake, "
        "open_health, open_reflection"
    ]


def test_help_does_not_wait_for_grpc():
    code = "import sys, jetbridge.cli.command as c; c.parser().format_help(); "
    code += "sys.exit('grpc' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_reader_that_has_gone_is_no_traceback():
    command = f"{sys.executable} -m jetbridge doctor | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stderr == b""
