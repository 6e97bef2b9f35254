"""The configuration file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cyclopts import App
from kit.cli import Run, prints

from aiolead.cli import config_file, options
from aiolead.cli.app import app
from aiolead.cli.environment import (
    GIVEN,
    PLAIN,
    SECRET,
    misspelled,
    variable,
    without_credentials,
)
from aiolead.cli.options import COMMON_OPTIONS


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's file."""
    (tmp_path / "aiolead").mkdir()
    return tmp_path / "aiolead" / "config.toml"


@pytest.fixture
def configured(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command for a user who has a file, and no `AIOLEAD_HOSTS`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parent.parent))
    monkeypatch.delenv("AIOLEAD_HOSTS", raising=False)
    return run


def test_flags_override_the_environment_and_the_file(
    somewhere: str, configured: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(f'hosts = "{somewhere}"\nsession_timeout = 7\n[create]\nparents = true\n')
    assert configured("create /a/b") == prints("/a/b")
    assert configured("ls /a") == prints("b")
    monkeypatch.setenv("AIOLEAD_HOSTS", f"{somewhere}/a")
    assert configured("ls") == prints("b")
    assert configured("ls", hosts=f"{somewhere}/a/b") == prints()


def test_given_file_replaces_the_default_one(
    somewhere: str, configured: Run, file: Path, tmp_path: Path
) -> None:
    file.write_text("nonsense = 3")
    other = tmp_path / "other.toml"
    other.write_text(f'hosts = "{somewhere}"\n[ls]\njson = true\n[get]\nnot-read = "by ls"\n')
    assert configured("create /a -p --config", str(other)) == prints("/a")
    assert configured("ls --config", str(other)) == prints('{"name": "a", "path": "/a"}')


def test_file_of_an_editor_on_windows(somewhere: str, configured: Run, file: Path) -> None:
    """With a byte order mark, and other ends of lines."""
    file.write_bytes(f'\ufeffhosts = "{somewhere}"\r\n[create]\r\nparents = true\r\n'.encode())
    assert configured("create /a/b") == prints("/a/b")


def test_user_without_a_home(configured: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the users of containers, which no passwd file lists."""

    def getpwuid(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", getpwuid)
    assert config_file.default_files() == (Path("/etc/aiolead/config.toml"),)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("hostz = 'x'", "hostz: there is no such option: hosts?"),
        ("[ls]\nhostz = 'x'", "[ls] hostz: there is no such option: hosts?"),
        ("path = '/x'", "path: there is no such option"),
        ("config = '/x'", "config: there is no such option"),
        ("ls = 'x'", "ls: must be a table"),
        ("[lss]\njson = true", "lss: there is no such option"),
        ("auth = ['digest:ann:open sesame']", "auth: must be text or a number"),
        ("auth = {digest = 'open sesame'}", "auth: must be text or a number"),
        ("auth = 'open sesame'", "--auth: must be SCHEME:CREDENTIAL"),
        ("auth = 'digest:ann:open sesame", "(at end of document)"),
        ("session-timeout = 'open sesame'", "session-timeout"),
        ("\udcff", "must be UTF-8"),
        pytest.param("hosts = " + "[" * 20_000, "config.toml: ", id="deep"),
        pytest.param("a." * 2_000 + "a = 1", "config.toml: ", id="long"),
        pytest.param("[run]\nx = " + "9" * 5000, "config.toml: ", id="large"),
    ],
)
def test_invalid_file_is_refused(configured: Run, file: Path, content: str, why: str) -> None:
    file.write_bytes(content.encode(errors="surrogateescape"))
    file.chmod(0o600)
    code, out, err = configured("ls", hosts="127.0.0.1:1")
    assert (code, out, len(err)) == (2, [], 1)
    assert why in err[0]
    if "auth" in content:
        assert "sesame" not in err[0]


def test_unreadable_file_is_refused(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        code, out, err = run("ls --config", str(path), hosts="127.0.0.1:1")
        assert (code, out, len(err)) == (2, [], 1)
        assert f"--config: cannot read {path}: " in err[0]


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o644, "everybody can read it: chmod go-r"),
        (0o604, "everybody can read it: chmod go-r"),
        (0o640, "its group can read it: chmod g-r"),
        (0o660, "its group can read it: chmod g-r"),
        (0o622, ""),
        (0o600, ""),
    ],
)
def test_credentials_that_others_can_read_are_reported(
    somewhere: str, configured: Run, file: Path, mode: int, why: str
) -> None:
    file.write_text('auth = "digest:ann:open sesame"')
    file.chmod(mode)
    code, _, err = configured("create /a -p", hosts=somewhere)
    assert code == 0
    assert err == ([f"aiolead: {file} has credentials in it, and {why}"] if why else [])


@pytest.mark.parametrize(
    ("content", "warns"),
    [
        ('sasl = "nonsense"', True),
        ('[dashboard]\ntoken = "short"', True),
        ('tls_key = "/some/where"', False),
        ("session_timeout = 5", False),
    ],
)
def test_options_with_credentials_are_known(
    configured: Run, file: Path, content: str, warns: bool
) -> None:
    file.write_text(content)
    file.chmod(0o640)
    _, _, err = configured("dashboard", "--listen", "nonsense", hosts="127.0.0.1:1")
    assert any("has credentials in it" in line for line in err) == warns


def _variables(of: App) -> dict[str, set[str]]:
    """Every variable that an option of any command is read from, and the names of the option."""
    found: dict[str, set[str]] = {}
    for name in of:
        if name.startswith("-"):
            continue
        command = of[name]
        if command.default_command is None:  # it has subcommands only
            found |= _variables(command)
            continue
        for argument in command.assemble_argument_collection():
            for each in argument.parameter.env_var or ():
                found.setdefault(each, set()).update(argument.names)
    return found


def test_every_variable_is_secret_or_plain() -> None:
    variables = _variables(app)
    assert len(variables) > 10
    read_alone = {"AIOLEAD_TLS_KEY_PASSWORD"}  # by no option
    assert variables.keys() | read_alone == SECRET.keys() | PLAIN
    assert not SECRET.keys() & PLAIN
    for name, option in SECRET.items():
        assert option is None or f"--{option}" in variables[name]
    # Variables that sound like a secret are secret, except the path of a key.
    sounds = re.compile("AUTH|SASL|TOKEN|PASSWORD|SECRET|CREDENTIAL|KEY")
    assert {name for name in SECRET.keys() | PLAIN if sounds.search(name)} == (
        SECRET.keys() | {"AIOLEAD_TLS_KEY"}
    )
    with pytest.raises(KeyError, match="whether it is secret"):
        variable("AIOLEAD_NEW_PASSWORD")


def test_variables_are_read_only_by_listed_names() -> None:
    folder = Path(config_file.__file__).parent
    direct = re.compile(
        r"""(?:env_var\s*=\s*|environ\.get\(\s*|getenv\(\s*|environ\[)["']AIOLEAD"""
    )
    assert direct.search('Parameter(env_var="AIOLEAD_X")')
    assert direct.search('os.environ.get("AIOLEAD_X")')
    files = list(folder.rglob("*.py"))
    assert len(files) > 40
    for file in files:
        assert not direct.search(file.read_text("utf-8")), f"{file.name}: use variable(...)"


def test_credentials_are_removed_from_an_environment() -> None:
    plain = {"AIOLEAD_TOKEN": "7", "AIOLEAD_HOSTS": "zk1", "PATH": "/bin", "AUTH": "theirs"}
    assert without_credentials({**plain, **dict.fromkeys(SECRET, "x")}) == plain


def test_misspelled_variable_is_reported(
    run: Run, monkeypatch: pytest.MonkeyPatch, somewhere: str
) -> None:
    monkeypatch.setenv("AIOLEAD_CONECT_TIMEOUT", "3")
    monkeypatch.setenv("AIOLEAD_SESSION", "0x1")  # `run` sets it for its command
    said = "AIOLEAD_CONECT_TIMEOUT is not read: did you mean AIOLEAD_CONNECT_TIMEOUT?"
    assert run("create --parents /a/b", hosts=somewhere) == prints("/a/b", err=said)
    assert misspelled(dict.fromkeys([*GIVEN, *SECRET, *PLAIN, "AIOLEAD_PLAIN", "HOSTS"], "")) == {}
    assert misspelled({"AIOLEAD_HOST": ""}) == {"AIOLEAD_HOST": "AIOLEAD_HOSTS"}


def test_default_places_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    machine = Path("/etc/aiolead/config.toml")
    assert config_file.default_files() == (Path("/home/ann/.config/aiolead/config.toml"), machine)
    # The specification says that relative paths are ignored.
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert config_file.default_files()[0] == Path("/home/ann/.config/aiolead/config.toml")


def test_empty_variable_counts_as_unset(
    run: Run, monkeypatch: pytest.MonkeyPatch, somewhere: str
) -> None:
    """Files for containers set such variables: `AIOLEAD_TLS=${TLS:-}`."""
    for option in COMMON_OPTIONS | {"config"}:
        monkeypatch.setenv("AIOLEAD_" + option.upper().replace("-", "_"), "")
    monkeypatch.setenv("AIOLEAD_DASHBOARD_TOKEN", "")
    monkeypatch.setenv("AIOLEAD_TLS_KEY_PASSWORD", "")
    assert run("create --parents /a/b", hosts=somewhere) == prints("/a/b")
    monkeypatch.setattr(options, "DEFAULT_HOSTS", somewhere)
    said = f"no --hosts, and no AIOLEAD_HOSTS: using {somewhere}"
    assert run("ls") == prints("a", err=said)
    assert run("ls -q") == prints("a")
