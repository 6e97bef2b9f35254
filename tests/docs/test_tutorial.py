"""The tutorial, as somebody follows it: workers are stopped, killed, frozen; their test passes."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from cli.terminal import Terminal
from kit.checks import until
from kit.cli import environment
from kit.pages import GETTING_STARTED, PATIENCE, TUTORIAL, Program, blocks

from aiolead.testing.launch import free_ports

pytestmark = pytest.mark.exhaustive("runs the tutorial as programs")

LEADS = r"process (\d+) leads, token (\d+)"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the files that the page says to save."""
    text = TUTORIAL.read_text()
    names = re.findall(r"Save this as\s+`(\w+\.py)`:\n", text)
    programs = blocks(TUTORIAL)
    assert names == ["worker.py", "test_worker.py"]
    for name, block in zip(names, programs, strict=True):
        (tmp_path / name).write_text(block.source)
    # Nobody wants to wait for seconds here.
    worker = tmp_path / "worker.py"
    source = worker.read_text()
    assert source.count("session_timeout=4") == source.count("asyncio.sleep(1)") == 1
    source = source.replace("session_timeout=4", "session_timeout=1.5")
    worker.write_text(source.replace("asyncio.sleep(1)", "asyncio.sleep(0.5)"))
    return tmp_path


def stop_between_bills(
    stop: Callable[[], object], wake: Callable[[], object], database: Path
) -> None:
    """Stop a worker, but not within a transaction, which the others would wait for."""
    while True:
        stop()
        with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as store:
            try:
                store.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                wake()
            else:
                store.execute("ROLLBACK")
                return


@pytest.mark.keeps_time(1.5)
def test_one_worker_at_a_time_sends_bills(here: Path, embedded: str, chroot: str) -> None:
    def start() -> Program:
        worker = Program(sys.executable, "worker.py", hosts=embedded + chroot, cwd=here)
        running.enter_context(worker)
        worker.wait_for("joins the queue")
        return worker

    def lead(worker: Program) -> int:
        pid, token = worker.wait_for(LEADS).groups()
        while tokens and int(token) < tokens[-1]:
            # If the machine stands still, it loses its lead, and joins the queue again.
            pid, token = worker.wait_for(LEADS).groups()
        worker.wait_for("sends bill")
        tokens.append(int(token))
        return int(pid)

    tokens: list[int] = []
    with ExitStack() as running:
        stopped = start()
        lead(stopped)
        killed = start()
        assert stopped.finish(signal.SIGINT) == 130
        pid = lead(killed)
        frozen = start()
        os.kill(pid, signal.SIGKILL)
        pid = lead(frozen)
        last = start()
        stop_between_bills(
            lambda: (os.kill(pid, signal.SIGSTOP), os.waitid(os.P_PID, pid, os.WSTOPPED)),
            lambda: os.kill(pid, signal.SIGCONT),
            here / "bills.db",
        )
        lead(last)
        os.kill(pid, signal.SIGCONT)
        # It joins the queue again, behind the current leader, and leads after it.
        last.wait_for("sends bill")
        assert last.finish(signal.SIGINT) == 130
        assert lead(frozen) == pid
        said = [*stopped.lines, *killed.lines, *frozen.lines, *last.lines]

    assert tokens == sorted(set(tokens))
    with closing(sqlite3.connect(here / "bills.db")) as database:
        bills = database.execute("SELECT number, token FROM bills ORDER BY number").fetchall()
    assert [token for _, token in bills] == sorted(token for _, token in bills)
    led = [int(match[2]) for line in said if (match := re.search(LEADS, line))]
    assert len(led) == len(set(led))
    assert set(tokens) <= {token for _, token in bills} <= set(led)
    sent = sorted(int(match[1]) for line in said if (match := re.search(r"bill (\d+)$", line)))
    assert len(sent) == len(set(sent))


def seen(terminal: Terminal, pattern: str, besides: int = 0) -> int:
    """Wait until the screen shows a line of a worker, `besides` one; return its process number."""
    found: list[str] = []

    def is_shown() -> bool:
        pids = re.findall(pattern, "\n".join(terminal.screen()))
        found[:] = [pid for pid in pids if int(pid) != besides]
        return bool(found)

    try:
        until(is_shown, f"{pattern} is shown")
    except AssertionError as error:
        error.add_note("\n".join(terminal.screen()))
        raise
    return int(found[-1])


@pytest.mark.keeps_time(1.5)
def test_two_terminals_are_enough(here: Path) -> None:
    """The commands of the page are typed, and nothing is left behind."""
    bin_ = here / "try-aiolead" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "activate").write_text(f"PATH={bin_}:{Path(sys.executable).parent}:$PATH\n")
    (bin_ / "aiolead").write_text('#!/bin/sh\nexec python -m aiolead "$@"\n')
    (bin_ / "aiolead").chmod(0o755)
    (port,) = free_ports(1)
    text = TUTORIAL.read_text().replace("2181", str(port))
    server, alone, beside, freeze, wake, end, *_ = re.findall(
        r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )

    def enter(terminal: Terminal, commands: str) -> None:
        for line in commands.splitlines():
            terminal.type(line, "Enter")

    with Terminal("", here) as one, Terminal("", here) as other:
        enter(one, server)
        one.wait_for(f"127.0.0.1:{port}")
        enter(one, alone)
        stopped = seen(one, r"process (\d+) sends bill")
        enter(other, beside)
        second = seen(other, r"process (\d+) joins the queue")
        one.type("C-c")
        assert seen(other, r"process (\d+) leads") == second
        enter(one, "clear\n" + alone)
        killed = seen(one, r"process (\d+) joins the queue", besides=stopped)

        def stop() -> None:
            enter(other, freeze)
            stat = Path(f"/proc/{second}/stat")
            until(lambda: stat.read_text().rpartition(") ")[2].startswith("T"), "it is stopped")

        stop_between_bills(stop, lambda: enter(other, wake), here / "bills.db")
        assert seen(one, r"process (\d+) sends bill") == killed
        enter(other, wake)
        enter(other, f"clear\nkill -9 {killed}")
        one.wait_for("Killed")
        assert seen(other, r"process (\d+) sends bill") == second
        for terminal in (one, other):
            enter(terminal, f"clear\n{end}wait\nclear\njobs\necho nothing left: $(jobs | wc -l)")
            terminal.wait_for("nothing left: 0")
    with closing(sqlite3.connect(here / "bills.db")) as database:
        tokens = database.execute("SELECT token FROM bills ORDER BY number").fetchall()
    assert tokens == sorted(tokens)


def test_test_of_the_tutorial_passes(here: Path) -> None:
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-q", "test_worker.py")
    said = Program(sys.executable, *command, cwd=here).run()
    assert said[-1].startswith("2 passed"), said


# --- getting started -----------------------------------------------------------------------------

STEPS = {
    "operate": [r"b'hello' is version \d+", r"\[.*'greeting'.*\] 5", "it has changed since"],
    "lock": [r"holds the lock, with token \d+", "somebody else holds it"],
    "work": [r"works, with token \d+", r"\S+ leads"],
    "fence": ["this term is over: refused"],
}
"""The output of each step of the page."""


def test_program_of_getting_started_grows_and_runs_at_each_step(
    tmp_path: Path, embedded: str, chroot: str
) -> None:
    """As a reader does: each function goes above `main`, its call to the end of the block."""
    text = GETTING_STARTED.read_text()
    first, _, *steps = (block.at(embedded + chroot).source for block in blocks(GETTING_STARTED))
    names = [re.match(r"async def (\w+)\(client\):", step) for step in steps]
    assert [name and name[1] for name in names] == [*STEPS]
    program, expected = first.replace("sleep(1)", "sleep(0)"), [r"leading, with token \d+"]
    run(program, tmp_path, expected)
    for name, step in zip(STEPS, steps, strict=True):
        call = f"await {name}(client)"
        assert re.search(rf"Call\s+it\s+with\s+`{re.escape(call)}`", text)
        program = program.replace("async def main", f"{step}\nasync def main")
        program = program.replace("\ntry:\n", f"        {call}\n\ntry:\n", 1)
        expected = [*expected, *STEPS[name]]
        run(program, tmp_path, expected)


def run(program: str, here: Path, expected: list[str]) -> None:
    (here / "first.py").write_text(program)
    said = in_a_shell(f"{sys.executable} first.py", here)
    assert len(said) == len(expected), said
    for line, pattern in zip(said, expected, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


def in_a_shell(commands: str, here: Path) -> list[str]:
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=here,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()
