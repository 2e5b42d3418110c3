import logging
import shutil
import subprocess

import pytest

from jetbridge.app.configuration import default_catalogs, load_config
from jetbridge.config import Config, ConfigError, ServerConfig, load_tokens
from jetbridge.config.model import Limits, Token, catalog_name_error, is_loopback

SECRET = "correct-horse-battery"


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="jetbridge.toml"):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write_file


@pytest.fixture
def pair(tmp_path):
    """A certificate and its key, made by openssl."""
    if shutil.which("openssl") is None:
        pytest.fail("the tests need openssl: apt-get install openssl")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def test_without_a_file_there_are_a_lake_and_a_memory_catalog_on_loopback():
    config = load_config()
    assert config == Config(catalogs=default_catalogs())
    assert {name: each.type for name, each in config.catalogs.items()} == {
        "lake": "lake",
        "memory": "memory",
    }
    assert is_loopback(config.server.host)


def test_every_section_of_the_file_is_read(write):
    path = write(
        """
        [server]
        port = 0
        drain_seconds = 5
        [limits]
        batch_rows = 7
        [spark]
        "spark.master" = "local[2]"
        "spark.ui.enabled" = false
        spark.executor.cores = 2
        [catalogs.scratch]
        type = "memory"
        """
    )
    config = load_config(path)
    assert config.server == ServerConfig(port=0, drain_seconds=5.0)
    assert config.limits == Limits(batch_rows=7)
    assert config.spark == {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.executor.cores": "2",
    }
    assert list(config.catalogs) == ["scratch"]


def test_settings_of_spark_keep_their_case(write):
    """A value with capitals was refused, and the error showed it, were it a secret or not."""
    path = write("[spark]\n'spark.app.name' = 'My App'\n'spark.hadoop.fs.s3a.secret.key' = 'AbC'")
    assert load_config(path).spark == {
        "spark.app.name": "My App",
        "spark.hadoop.fs.s3a.secret.key": "AbC",
    }


def test_flags_override_the_file(write):
    path = write("[server]\nport = 1\nhost = 'localhost'")
    config = load_config(path, {"port": 2})
    assert (config.server.host, config.server.port) == ("localhost", 2)


REFUSED = [
    ("[server]\nport = 65536", "server.port", "= 65536: must be a whole number from 0 to 65535"),
    ("[server]\nport = -1", "server.port", "= -1: must be a whole number from 0 to 65535"),
    ("[server]\nport = '8815'", "server.port", "= '8815': must be a whole number"),
    ("[server]\nport = true", "server.port", "= True: must be a whole number"),
    ("[server]\nhost = ''", "server.host", "= '': must be a host name or an IP address"),
    ("[server]\nhost = 1", "server.host", "= 1: must be a host name or an IP address"),
    ("[server]\nprot = 1", "server.prot", "is not a known key; did you mean 'port'? Known: host"),
    ("[server]\nzzz = 1", "server.zzz", "is not a known key; Known: host, port"),
    ("[sever]\nport = 1", "sever", "is not a known key; did you mean 'server'?"),
    ("server = 1", "server", "= 1: must be a table, [server]"),
    ("[server]\ndrain_seconds = -1", "server.drain_seconds", "= -1: must be a number of seconds"),
    ("[server]\ndrain_seconds = inf", "server.drain_seconds", "= inf: must be a number of"),
    ("[server]\ndrain_seconds = nan", "server.drain_seconds", "= nan: must be a number of"),
    ("[server]\ndrain_seconds = true", "server.drain_seconds", "= True: must be a number of"),
    ("[server]\ntls_key = 'no.pem'", "server.tls_key", "= 'no.pem': must be a file that exists"),
    (
        "[server]\ntokens_file = 7",
        "server.tokens_file",
        "= 7: must be a string, the path of a file",
    ),
    ("[limits]\nbatch_rows = 0", "limits.batch_rows", "= 0: must be a whole number, 1 or more"),
    ("[limits]\nmessage_bytes = 2147483648", "limits.message_bytes", "from 1024 to 2147483647"),
    ("[limits]\nscan = 1", "limits.scan", "is not a known key; did you mean 'scans'?"),
    ("[limits]\nconcurrent_calls = 9", "limits.concurrent_calls", "at least exchanges + scans"),
    ("[limits]\nstaged_bytes = 9", "limits.spill_bytes", "must not exceed staged_bytes (9)"),
    ("[spark]\nmaster = 'x'", "spark.master", 'their names begin with "spark."'),
    ("[spark]\n'spark.jars' = ['x']", "spark.spark.jars", "must be one value, not a list"),
    ("[catalogs]\nm = 1", "catalogs.m", "= 1: must be a table, [catalogs.m]"),
    ("[catalogs.m]", "catalogs.m.type", "is missing: must be 'lake' or 'memory' or"),
    ("[catalogs.m]\ntype = 'mem'", "catalogs.m.type", "= 'mem': must be 'lake' or"),
    ("[catalogs.m]\ntype = 3", "catalogs.m.type", "= 3: must be 'lake' or 'memory' or"),
    ("[catalogs.m]\ntype = 'memory'\nx = 1", "catalogs.m.x", "is not a known key; Known: type"),
    ("[catalogs.'é']\ntype = 'memory'", "catalogs.é", "must be printable ASCII"),
    ("[catalogs.M]\ntype='memory'\n[catalogs.m]\ntype='memory'", "catalogs.m", "is not unique"),
]


@pytest.mark.parametrize(("text", "key", "problem"), REFUSED)
def test_bad_value_is_refused_with_file_key_value_and_what_is_allowed(write, text, key, problem):
    path = write(text)
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert refused.value.key == key
    assert str(refused.value).startswith(f"{path}: {key} ")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[server", "is not TOML: "), (b"\xff\xfe", "is not UTF-8 text"), (None, "cannot be read: ")],
)
def test_file_that_cannot_be_read_is_named(tmp_path, content, problem):
    path = tmp_path / "jetbridge.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        load_config(path)
    assert str(refused.value).startswith(f"{path}: {problem}")


def test_bad_flag_is_reported_as_a_flag():
    with pytest.raises(ConfigError, match=r"^command line: --port = 70000: must be a whole number"):
        load_config(None, {"port": 70000})


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("db.example", False),
        ("localhost.example", False),
        ("2130706433", False),
    ],
)
def test_only_loopback_hosts_are_served_without_tokens(host, loopback):
    assert is_loopback(host) is loopback
    if loopback:
        assert load_config(None, {"host": host}).server.host == host
    else:
        with pytest.raises(ConfigError, match=r"callers must show a token: set server\.tokens_fil"):
            load_config(None, {"host": host})


def test_tokens_file_opens_other_hosts_and_the_log_asks_for_tls(write, caplog):
    write(f"alice: {SECRET}\n", "tokens.txt")
    path = write("[server]\nhost = '0.0.0.0'\ntokens_file = 'tokens.txt'")
    with caplog.at_level(logging.WARNING):
        assert load_config(path).credentials.tokens == (Token("alice", SECRET),)
    assert "tokens travel unencrypted" in caplog.text


@pytest.mark.parametrize("name", ["memory", "a b", "a.b", "x'y", '"', "~"])
def test_printable_ascii_is_a_catalog_name(name):
    assert catalog_name_error(name) == ""


@pytest.mark.parametrize("name", ["", " a", "a ", "a\n", "é", "a\x7f", "a/b", "a?b", "a,b", "日本"])
def test_other_catalog_names_would_kill_the_client(name):
    assert "is not a catalog name" in catalog_name_error(name)


def test_tokens_are_read_with_comments_and_allow_lists(write):
    path = write(
        f"# people\n\n alice :  {SECRET} \nbob: b0b: Sales , memory\n  # end\n", "tokens.txt"
    )
    assert load_tokens(path, ["memory", "sales"]) == (
        Token("alice", SECRET),
        Token("bob", "b0b", frozenset({"memory", "sales"})),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "holds no token"),
        ("# only a comment\n", "holds no token"),
        (SECRET, 'line 1 must be "name: token"'),
        (f": {SECRET}", 'line 1 must be "name: token"'),
        ("alice:", 'line 1 must be "name: token"'),
        ("alice: :memory", 'line 1 must be "name: token"'),
        (f"alice: {SECRET}: memory: x", 'line 1 must be "name: token"'),
        (f"alice: {SECRET} y", "line 1 (token 'alice'): a token is printable ASCII without blanks"),
        (f"alice: {SECRET}\nalice: b", "line 2 names token 'alice' a second time"),
        (f"alice: {SECRET}\nbob: {SECRET}", "line 2 (token 'bob') repeats the token of another"),
        (f"alice: x:{SECRET}", "must list catalogs of this server (memory)"),
        (f"alice: {SECRET}:", "must list catalogs of this server (memory)"),
        (f"alice: {SECRET}: memory,", "must list catalogs of this server (memory)"),
    ],
)
def test_bad_tokens_file_is_refused_without_showing_a_token(write, text, problem):
    path = write(text, "tokens.txt")
    with pytest.raises(ConfigError) as refused:
        load_tokens(path, ["memory"])
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")


def test_token_that_is_not_ascii_is_refused(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_bytes("alice: gehéim".encode())
    with pytest.raises(ConfigError, match="must be ASCII"):
        load_tokens(path, ["memory"])


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o644, True)])
def test_tokens_file_that_other_users_can_read_is_warned_about(write, caplog, mode, warned):
    path = write(f"alice: {SECRET}", "tokens.txt")
    path.chmod(mode)
    with caplog.at_level(logging.WARNING):
        load_tokens(path, ["memory"])
    assert ("other users can read or change it" in caplog.text) is warned
    assert SECRET not in caplog.text


def test_secrets_never_show_in_repr(write, pair):
    write(f"alice: {SECRET}", "tokens.txt")
    write("k" * 32, "seal.key")
    text = "tokens_file='tokens.txt'\ntls_cert='cert.pem'\ntls_key='key.pem'\n"
    config = load_config(write(f"[server]\n{text}seal_key_file='seal.key'"))
    assert config.credentials.tokens[0].secret == SECRET
    assert config.credentials.tls == tuple(path.read_bytes() for path in pair)
    for hidden in (SECRET, "PRIVATE", "kkkk"):
        assert hidden not in repr(config)


@pytest.mark.parametrize(("lone", "other"), [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_certificate_and_key_come_together(write, pair, lone, other):
    path = write(f"[server]\n{lone} = '{lone.removeprefix('tls_')}.pem'")
    with pytest.raises(ConfigError, match=rf"server\.{lone} requires server\.{other}"):
        load_config(path)


def test_key_that_does_not_fit_the_certificate_is_refused(write, pair):
    write("not a key", "key.pem")
    path = write("[server]\ntls_cert = 'cert.pem'\ntls_key = 'key.pem'")
    with pytest.raises(ConfigError, match="must be a PEM certificate that fits tls_key"):
        load_config(path)


def test_short_seal_key_is_refused(write):
    write("k" * 31, "seal.key")
    path = write("[server]\nseal_key_file = 'seal.key'")
    with pytest.raises(ConfigError, match="holds 31 bytes; it must hold at least 32"):
        load_config(path)
