"""Whoever reads what is said: a narrow terminal, another encoding, nobody at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from kit.cli import WITHIN, OnTerminal, Run, environment, without_notice
from kit.raw_client import RawClient

from aiolead.cli import output

pytestmark = pytest.mark.exhaustive("an edge of the command")


@pytest.fixture
def tree(somewhere: str) -> str:
    """Where there are a few znodes."""
    with RawClient(somewhere) as client:
        client.create("")
        client.create("/näme")
        client.create("/näme/名-0000000001", "an idéntity".encode(), flags=0)
    return somewhere


def shell(
    command: str, hosts: str, *, stdout: int = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [
            "bash",
            "-c",
            f'set -o pipefail; aiolead() {{ "{sys.executable}" -m aiolead "$@"; }}; {command}',
        ],
        env=environment(AIOLEAD_HOSTS=hosts, **env),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    ended.stderr = "\n".join(without_notice(ended.stderr.splitlines()))
    return ended


def test_an_encoding_that_has_not_all_characters(tree: str) -> None:
    ended = shell("aiolead tree", tree, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.returncode == 0
    assert ended.stdout.splitlines() == ["/", r"`-- n\xe4me", r"    `-- \u540d-0000000001"]


def test_nobody_reads(tree: str) -> None:
    """Closed from the start, closed in the middle, and a disk that is full."""
    ended = shell("aiolead stat /näme >&- 2>&-", tree)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    reader, writer = os.pipe()
    os.close(reader)  # before there is anything to read, and not after
    ended = shell("aiolead stat /näme", tree, stdout=writer)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")
    for command in ("stat /näme", "--version"):
        # What is left in Python's buffer must not be tried again as it exits.
        ended = shell(f"aiolead {command} > /dev/full", tree, PYTHONUNBUFFERED="")
        assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
        assert "No space left on device" in ended.stderr


@pytest.mark.parametrize("command", ["top --interval 0", "observe /näme", "watch /näme"])
def test_whoever_follows_goes_away_and_nothing_happens_ever_after(tree: str, command: str) -> None:
    """What has nothing to say any more notices it all the same."""
    first = {"watch": "sleep 0"}.get(command.split()[0], "head -1")
    ended = shell(f"aiolead {command} --quiet | {first}", tree)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")


def test_whoever_follows_the_demo_goes_away() -> None:
    """While several tasks are at it: it is not a group of errors that ends it."""
    ended = shell("aiolead demo | head -1", "")
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, "")
    assert ended.stdout.startswith("aiolead demo, on its own ZooKeeper server")


def test_a_terminal(tree: str) -> None:
    """What is wider than the terminal is wrapped by it, and colours end where they should."""
    with RawClient(tree) as contender:
        contender.create("/lock")
        contender.create("/lock/名-lock-0000000001", "an idéntity".encode(), flags=1)
        with OnTerminal("contenders", "/lock", hosts=tree) as command:
            assert command.finish() == 0
    heading, row = command.shown.splitlines()
    assert heading.startswith("\x1b[2mplace  state")
    assert heading.endswith("\x1b[0m")
    assert "an idéntity" in row


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_without_colours(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.styled("x", "red") == "\x1b[31mx\x1b[0m"
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert output.styled("x", "red") == "x"


def test_tables_go_by_the_width_of_characters() -> None:
    assert output.table(["a", "n"], [["名", "1"], ["x", "10"]], right=["n"]) == [
        "a    n",
        "名   1",
        "x   10",
    ]
    assert output.table(["a"], []) == ["a"]


def test_a_defect_of_ours_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def defect(*_: object) -> None:
        raise KeyError("the defect")

    monkeypatch.setattr("aiolead.cli.znodes.validate", defect)
    code, out, err = run("ls", "/", hosts="127.0.0.1:1")
    assert (code, out) == (1, [])
    assert err == ["aiolead: KeyError: 'the defect' (--debug shows where)"]
    code, out, err = run("ls", "/", "--debug", hosts="127.0.0.1:1")
    assert (code, out, err[-1]) == (1, [], "aiolead: KeyError: 'the defect'")
    assert any(f'File "{Path(__file__)}"' in line for line in err)


def test_where_errors_come_from(run: Run) -> None:
    code, _, err = run("ls", "relative", "--debug", hosts="127.0.0.1:1")
    assert code == 2
    assert err[0] == "Traceback (most recent call last):"
    assert err[-1] == "aiolead: path: must start with '/', not 'relative'"
