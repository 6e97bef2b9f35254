"""The configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Run

from aiolead.cli import settings
from aiolead.cli.options import COMMON_OPTIONS


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the user's file is."""
    (tmp_path / "aiolead").mkdir()
    return tmp_path / "aiolead" / "config.toml"


@pytest.fixture
def configured(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command for a user who has a file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(file.parent.parent))
    return run


def test_flags_before_environment_before_file(
    configured: Run, file: Path, somewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(f'hosts = "{somewhere}"\nsession_timeout = 7\n[create]\nparents = true\n')
    assert configured("create", "/a/b") == (0, ["/a/b"], [])
    assert configured("ls", "/a") == (0, ["b"], [])
    monkeypatch.setenv("AIOLEAD_HOSTS", f"{somewhere}/a")
    assert configured("ls") == (0, ["b"], [])
    assert configured("ls", hosts=f"{somewhere}/a/b") == (0, [], [])


def test_a_file_that_is_given(configured: Run, file: Path, tmp_path: Path, somewhere: str) -> None:
    file.write_text("nonsense = 3")
    other = tmp_path / "other.toml"
    other.write_text(f'hosts = "{somewhere}"\n[ls]\njson = true\n[get]\nnot-read = "by ls"\n')
    code, out, err = configured("create", "/a", "-p", "--config", str(other))
    assert (code, out, err) == (0, ["/a"], [])
    code, out, err = configured("ls", "--config", str(other))
    assert (code, out, err) == (0, ['{"name": "a", "path": "/a"}'], [])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("hostz = 'x'", "hostz: there is no such option"),
        ("[ls]\nhostz = 'x'", "[ls] hostz: there is no such option"),
        ("path = '/x'", "path: there is no such option"),
        ("config = '/x'", "config: there is no such option"),
        ("ls = 'x'", "ls: must be a table"),
        ("[lss]\njson = true", "lss: there is no such option"),
        ("auth = ['digest:ann:open sesame']", "auth: must be text or a number"),
        ("auth = {digest = 'open sesame'}", "auth: must be text or a number"),
        ("auth = 'open sesame'", "--auth: must be SCHEME:CREDENTIAL"),
        ("auth = 'digest:ann:open sesame", "(at end of document)"),
        ("session-timeout = 'open sesame'", "session-timeout"),
        ("\udcff", "is no UTF-8"),
    ],
)
def test_what_makes_no_sense(configured: Run, file: Path, content: str, why: str) -> None:
    file.write_bytes(content.encode(errors="surrogateescape"))
    file.chmod(0o600)
    code, out, err = configured("ls", hosts="127.0.0.1:1")
    assert (code, out, len(err)) == (2, [], 1)
    assert why in err[0]
    if "auth" in content:
        assert "sesame" not in err[0]


def test_files_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        code, out, err = run("ls", "--config", str(path), hosts="127.0.0.1:1")
        assert (code, out, len(err)) == (2, [], 1)
        assert f"--config: cannot read {path}: " in err[0]


def test_credentials_that_everybody_can_read(configured: Run, file: Path, somewhere: str) -> None:
    file.write_text('auth = "digest:ann:open sesame"')
    file.chmod(0o644)
    code, _, err = configured("create", "/a", "-p", hosts=somewhere)
    assert (code, len(err)) == (0, 1)
    assert "everybody can read it" in err[0]
    file.chmod(0o600)
    assert configured("ls", "/a", hosts=somewhere) == (0, [], [])


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    machine = Path("/etc/aiolead/config.toml")
    assert settings.default_files() == (Path("/home/ann/.config/aiolead/config.toml"), machine)
    # A relative one is to be ignored, says the specification: it would be somebody else's.
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings.default_files()[0] == Path("/home/ann/.config/aiolead/config.toml")


def test_an_empty_variable_is_none(
    run: Run, monkeypatch: pytest.MonkeyPatch, somewhere: str
) -> None:
    """As files for containers have them: `AIOLEAD_TLS=${TLS:-}`."""
    for option in COMMON_OPTIONS | {"config"}:
        monkeypatch.setenv("AIOLEAD_" + option.upper().replace("-", "_"), "")
    monkeypatch.setenv("AIOLEAD_DASHBOARD_TOKEN", "")
    monkeypatch.setenv("AIOLEAD_TLS_KEY_PASSWORD", "")
    assert run("create", "--parents", "/a/b", hosts=somewhere) == (0, ["/a/b"], [])
    code, _, err = run("ls")
    assert (code, err) == (2, ["aiolead: --hosts: not given, and AIOLEAD_HOSTS is not set"])
