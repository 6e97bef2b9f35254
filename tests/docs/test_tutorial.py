"""The tutorial, as somebody follows it: workers are stopped, killed, frozen; their test passes."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kit.pages import TUTORIAL, Program, blocks

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


def stop_between_bills(pid: int, database: Path) -> None:
    """Stop a worker, but not within a transaction, which the others would wait for."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as store:
            try:
                store.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
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
        stop_between_bills(pid, here / "bills.db")
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


def test_test_of_the_tutorial_passes(here: Path) -> None:
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-q", "test_worker.py")
    said = Program(sys.executable, *command, cwd=here).run()
    assert said[-1].startswith("2 passed"), said
