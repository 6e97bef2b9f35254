"""`aiolead demo`: what it shows, and that it would notice a broken promise."""

from __future__ import annotations

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

from aiolead.cli.demo import HandOver, broken_promises, summary
from aiolead.cli.demo_processes import DemoTerm

pytestmark = pytest.mark.exhaustive("an edge of the command")

SESSION = 4.0
FAST = ("--session-timeout", str(SESSION))


@pytest.fixture
def terminal() -> Iterator[OnTerminal]:
    with OnTerminal("demo", *FAST, "--backend", "trio", fresh=True) as demo:
        yield demo


@pytest.mark.keeps_time(SESSION)
def test_piped_and_on_a_terminal(terminal: OnTerminal) -> None:
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


def test_on_a_server_that_cannot_be_reached() -> None:
    with Command("demo", "--connect-timeout", "0.5", "--hosts", "127.0.0.1:1") as demo:
        assert demo.finish() == 69
        assert len(demo.err.rest()) == 1


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


def test_all_went_well() -> None:
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
def test_a_broken_promise_is_noticed(
    reigns: list[DemoTerm], hand_overs: list[HandOver], says: str
) -> None:
    (broken,) = broken_promises(reigns, hand_overs)
    assert says in broken
