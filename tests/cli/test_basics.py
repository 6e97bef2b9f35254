"""What does not depend on any server."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.cli import environment

from aiolead import errors
from aiolead.cli import exits, main


def test_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capfd.readouterr().out
    for command in ("run", "lock", "observe", "server", "demo"):
        assert f" {command} " in shown


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.strip()


@pytest.mark.parametrize("missing", ["cyclopts", "rich"])
def test_without_the_extra(missing: str) -> None:
    """As after `pip install aiolead`."""
    script = f"import sys; sys.modules[{missing!r}] = None\nfrom aiolead.cli import main\n"
    ended = subprocess.run(
        [sys.executable, "-c", script + "sys.exit(main(['--help']))"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == [
        f'aiolead: the command needs {missing}: pip install "aiolead[cli]"'
    ]


def test_the_library_does_not_import_the_command() -> None:
    script = "import aiolead, sys; sys.exit(any(m.startswith('aiolead.cli') for m in sys.modules))"
    subprocess.run([sys.executable, "-c", script], env=environment(), check=True)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConfigurationError("x"), 2),
        (errors.InvalidPathError("x"), 2),
        (errors.ConnectFailed("x"), 69),
        (errors.ConnectionLossError("x"), 69),
        (errors.SessionExpiredError("x"), 69),
        (errors.AuthFailedError("x"), 77),
        (errors.NoAuthError("/x"), 77),
        (errors.AcquireTimeout("x"), 75),
        (errors.LeadershipLost("/x", errors.LossReason.EXPIRED, 1), 74),
        (errors.MixedLayoutError("/x", "y"), 1),
    ],
)
def test_exit_codes(error: errors.AioleadError, code: int) -> None:
    assert exits.exit_code(error) == code
