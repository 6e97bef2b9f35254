"""What does not depend on any server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from kit.cli import Run, environment

from aiolead import errors
from aiolead.cli import exits, main
from aiolead.cli.app import app
from aiolead.cli.options import COMMON_OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command.md").read_text()
COMMANDS = [name for name in app if not name.startswith("-")]


def test_help(run: Run) -> None:
    code, out, _ = run("--help")
    assert (code, len(COMMANDS) > 15) == (0, True)
    for command in COMMANDS:
        assert any(f"│ {command} " in line for line in out)


def test_help_of_a_command(run: Run) -> None:
    code, out, err = run("contenders", "--help")
    assert (code, err) == (0, [])
    assert "--leaders" in " ".join(out)


def test_a_commands_own_options_come_first_in_its_help(run: Run) -> None:
    code, out, _ = run("run", "--help")
    assert code == 0
    shown = "\n".join(out)
    places = [
        shown.index(text)
        for text in (
            *("─ Arguments ─", "─ Options ─", "--forever"),
            *("─ Where to connect ─", "--hosts", "─ How to run, and what to say ─", "--json"),
        )
    ]
    assert places == sorted(places)
    assert "[default: False]" not in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_a_command(command: str) -> None:
    """All have these, but for one whose output is a program."""
    arguments = app[command].assemble_argument_collection()
    names = {name for argument in arguments for name in argument.names}
    wanted = {"--json", "--debug", "--config"}
    assert names & wanted == (wanted if command != "completion" else set())


@pytest.mark.parametrize("command", ["ensemble", "doctor", "dashboard"])
def test_commands_that_ask_admin_servers_may_use_plain_http(run: Run, command: str) -> None:
    assert "--admin-plain-http" in " ".join(run(command, "--help")[1])


def test_all_commands_and_options_are_on_their_page() -> None:
    for command in COMMANDS:
        assert re.search(rf"^\| .*`{command}[ `].*\|", PAGE, re.MULTILINE), command
    for option in COMMON_OPTIONS - {"quiet", "verbose"} | {"config", "patience", "admin-port"}:
        assert f"`--{option}`" in PAGE, option


def test_completion(run: Run) -> None:
    code, out, err = run("completion", "bash")
    assert (code, err) == (0, [])
    script = "\n".join(out)
    for known in ("contenders", "session-timeout", "nonblock"):
        assert known in script
    for typed, completed in (
        ("lo", "lock"),
        ("lock --nonb", "--nonblock"),
        ("acl --ha", "--hashes"),
    ):
        *before, last = typed.split()
        words = " ".join(["aiolead", *before, last])
        asking = f"""
            COMP_WORDS=({words}) COMP_CWORD={len(before) + 1}
            COMP_LINE="{words}" COMP_POINT={len(words)}
            _aiolead aiolead {last} {before[-1] if before else "aiolead"}
            echo "${{COMPREPLY[@]}}"
        """
        done = subprocess.run(
            ["bash"], input=f"{script}\n{asking}", text=True, check=True, capture_output=True
        )
        assert (done.stdout.split(), done.stderr) == ([completed], "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["frobnicate"], "see: aiolead --help"),
        (["--frobnicate"], "see: aiolead --help"),
        (["--hosts", "x", "ls"], "see: aiolead --help"),
        (["ls", "--frobnicate"], "see: aiolead ls --help"),
        (["run", "/x", "ls", "--frobnicate"], "a command with options of its own goes after --"),
        (["completion", "tcsh"], "see: aiolead completion --help"),
        (["lock"], "see: aiolead lock --help"),
    ],
    ids=str,
)
def test_what_there_is_not(run: Run, arguments: list[str], why: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, len(err)) == (2, [], 1)
    assert err[0].startswith("aiolead: ")
    assert err[0].endswith(f"({why})")


def test_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out.strip()


WITHOUT = """
import aiolead, sys
assert not any(name.startswith("aiolead.cli") for name in sys.modules)
from aiolead.cli import main
for missing in ("cyclopts", "rich"):
    sys.modules[missing] = None
    assert main(["--help"]) == 2
    del sys.modules[missing]
"""


def test_without_the_extra() -> None:
    """As after `pip install aiolead`; and the library does not import the command."""
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.splitlines() == [
        f'aiolead: the command needs {missing}: pip install "aiolead[cli]"'
        for missing in ("cyclopts", "rich")
    ]


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
