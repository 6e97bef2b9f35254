"""`aiolead demo`: what it shows, and that it would notice a broken promise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from client.guarded import guardian_of, is_running
from kit.checks import until
from kit.cli import Command, Lines, OnTerminal, environment, processes_with

from aiolead.cli.demo import HandOver, broken_promises, next_steps, own_name, summary
from aiolead.cli.demo_processes import DemoTerm

pytestmark = pytest.mark.exhaustive("an edge of the command")

SESSION = 4.0
FAST = ("--session-timeout", str(SESSION))


@pytest.fixture
def terminal() -> Iterator[OnTerminal]:
    with OnTerminal("demo", *FAST, "--backend", "trio", fresh=True) as demo:
        yield demo


@pytest.mark.keeps_time(SESSION)
def test_demo_shows_its_steps_in_a_pipe_and_on_a_terminal(terminal: OnTerminal) -> None:
    """Both at once, since each takes its time."""
    mark = uuid.uuid4().hex
    with Command("demo", *FAST, env={"MARK": mark}, fresh=True) as piped:
        assert piped.finish() == 0
        out = "\n".join(piped.out.rest())
        assert piped.err.rest() == []
    assert terminal.finish() == 0, terminal.shown

    assert "\x1b" not in out
    assert "\x1b" in terminal.shown
    for shown in (out, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.shown)):
        for promised in (
            r"anna leads\. Behind, as they came: ben, then cleo, then dan\.",
            r"is killed \(SIGKILL\)",
            r"ben leads, \d+\.\d+ m?s after the crash",
            r"Now ben is killed, which has no guardian",
            r"cleo leads, \d+\.\d\d s after the crash",
            r"is asked to end \(SIGTERM\)",
            r"leads, \d+\.\d+ m?s after \w+ had stopped",
            r"Summary",
            r"One leader at a time",
            r"Tokens rise \(\d+ < \d+ < \d+ < \d+\)",
            r"Next steps",
        ):
            assert re.search(promised, shown), promised
    assert list(processes_with(f"MARK={mark}")) == []
    assert list(processes_with(f"MARK={terminal.mark}")) == []


def test_modules_of_the_current_directory_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(
        "from pathlib import Path; Path(__file__).with_name('imported').touch()"
    )
    # As the console script: it does not look there itself.
    demo = subprocess.Popen(
        [sys.executable, "-P", "-m", "aiolead", "demo", *FAST],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        Lines(demo.stdout).expect("leads")
        assert not (tmp_path / "imported").exists()
    finally:
        demo.terminate()
        demo.wait()


@pytest.mark.keeps_time(SESSION)
def test_ctrl_c_leaves_nothing_behind(terminal: OnTerminal) -> None:
    terminal.wait_for("leads. Behind")
    ours = list(processes_with(f"MARK={terminal.mark}"))
    assert len(ours) == 5
    # Their environment is not the demo's.
    guardians = [guardian for guardian in map(guardian_of, ours) if guardian]
    assert len(guardians) == 3
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.finish() == 128 + signal.SIGINT
    assert list(processes_with(f"MARK={terminal.mark}")) == []
    assert "Traceback" not in terminal.shown
    until(lambda: not any(map(is_running, guardians)), "the guardians have ended")


def test_unreachable_server_ends_the_demo() -> None:
    with Command("demo", "--connect-timeout", "0.5", "--hosts", "127.0.0.1:1") as demo:
        assert demo.finish() == 69
        assert len(demo.err.rest()) == 1


def test_demo_has_its_own_server_whatever_the_environment_says() -> None:
    """A new user has exported AIOLEAD_HOSTS, and then tries the demo."""
    env = {"AIOLEAD_HOSTS": "127.0.0.1:1", "AIOLEAD_AUTH": "digest:a:b"}
    with Command("demo", "--session-timeout", "2", env=env) as demo:
        demo.out.expect("on its own ZooKeeper server")
        assert demo.finish(signal.SIGINT) == 128 + signal.SIGINT


def test_next_steps_are_commands_that_work_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    own = bin_ / "aiolead"
    own.write_text("#!/bin/sh\necho it works\n")
    own.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert own_name() == os.path.join(".venv", "bin", "aiolead")  # noqa: PTH118 - as it is typed
    typed = next_steps(own_name())[2][0].split()[0]
    assert subprocess.run([typed], capture_output=True, check=True).stdout == b"it works\n"
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    assert own_name() == "aiolead"
    own.unlink()
    assert own_name() == f"{bin_ / 'python'} -m aiolead"


# --- the promises ------------------------------------------------------------------------------

REIGNS = [
    DemoTerm("anna", 3, 1.0, 2.0),
    DemoTerm("ben", 5, 4.0, 5.0),
    DemoTerm("cleo", 6, 5.1, 6.0),
]
HAND_OVERS = [
    HandOver("anna", "ben", "expiry", 2.1, 4.0, 2.0),
    HandOver("ben", "cleo", "resignation", 5.0, 5.1),
]


def test_kept_promises_are_summarized() -> None:
    assert broken_promises(REIGNS, HAND_OVERS) == []
    assert any("3 < 5 < 6" in line for line, _ in summary(REIGNS, HAND_OVERS, 0.0))


@pytest.mark.parametrize(
    ("reigns", "hand_overs", "says"),
    [
        ([REIGNS[0], DemoTerm("ben", 5, 1.9, 5.0)], [], "anna and ben led at once"),
        ([REIGNS[0], DemoTerm("ben", 3, 4.0, 5.0)], [], "the token fell"),
        ([], [HandOver("anna", "ben", "expiry", 2.1, 2.0, 2.0)], "ben led before anna had stopped"),
        (
            [],
            [HandOver("anna", "ben", "guardian", 2.0, 4.0, 2.0)],
            "the guardian of anna did not close its session",
        ),
    ],
)
def test_broken_promise_is_reported(
    reigns: list[DemoTerm], hand_overs: list[HandOver], says: str
) -> None:
    (broken,) = broken_promises(reigns, hand_overs)
    assert says in broken
