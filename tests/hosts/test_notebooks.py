"""Jupyter and IPython: one cell opens the client, the next ones use it, another one closes it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hosts.hosts import PROGRAMS, HostedElection, Leader
from jupyter_client.manager import KernelManager
from kit.checks import until
from kit.pages import PATIENCE, Program
from nbclient import NotebookClient

pytestmark = [
    # A kernel reports that its ports are on the loopback; the clients of Jupyter, how they run.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OPEN = f"""
import contextlib, sys
import aiolead
sys.path.append({str(PROGRAMS)!r})
from work import ELECTION, work
stack = contextlib.AsyncExitStack()
client = await stack.enter_async_context(aiolead.connect(HOSTS, close_on_crash=IS_GUARDED))
election = aiolead.Election(client, ELECTION)
await stack.enter_async_context(election.running(work(client)))
"""

USE = """
import asyncio
async with asyncio.timeout(60):
    while not await client.exists("/hosts/at-work"):
        await asyncio.sleep(0.01)
async with aiolead.Lock(client, "/notebook") as held:
    print("token", held.token)
"""

CLOSE = "await stack.aclose()"


def opening(election: HostedElection, *, is_guarded: bool = False) -> str:
    return OPEN.replace("HOSTS", repr(election.hosts)).replace("IS_GUARDED", str(is_guarded))


def test_cells_of_a_notebook_open_use_and_close_a_client(election: HostedElection) -> None:
    cells = [opening(election), USE, CLOSE]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    NotebookClient(notebook, kernel_name="python3", timeout=PATIENCE).execute()
    said = "".join(each.get("text", "") for cell in notebook.cells for each in cell.outputs)
    assert re.search(r"^token \d+$", said, re.MULTILINE)
    # A warning of the log: the server of this test grants a long session timeout.
    warned = [
        each.text for cell in notebook.cells for each in cell.outputs if each.name == "stderr"
    ]
    assert all("the servers grant a session timeout of 600 s" in text for text in warned)
    assert election.server.sessions() == {}
    assert election.closed == 1


@contextmanager
def kernel() -> Iterator[tuple[KernelManager, Any]]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=PATIENCE)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run_cell(client: Any, source: str) -> str:
    """Runs a cell; gives what it has printed."""
    said: list[str] = []
    reply = client.execute_interactive(
        source,
        timeout=PATIENCE,
        output_hook=lambda message: said.append(message["content"].get("text", "")),
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(said)


def lead(client: Any, election: HostedElection, *, is_guarded: bool) -> Leader:
    """Has a notebook lead."""
    run_cell(client, opening(election, is_guarded=is_guarded))
    run_cell(client, USE)
    said = run_cell(client, "import os; print(os.getpid(), client.session_id)")
    return Leader(*map(int, said.split()))


ENDS: dict[str, Callable[[KernelManager, Leader], None]] = {
    "restart": lambda manager, _: manager.restart_kernel(),
    "shutdown": lambda manager, _: manager.shutdown_kernel(),
    "SIGTERM": lambda _, leader: os.kill(leader.pid, signal.SIGTERM),
    "SIGKILL": lambda _, leader: leader.kill(),
}


@pytest.mark.parametrize("end", ENDS)
def test_end_of_a_kernel_is_a_crash(election: HostedElection, end: str) -> None:
    """A kernel stops its event loop, and leaves no block."""
    with kernel() as (manager, client):
        leader = lead(client, election, is_guarded=False)
        with election.next_contender() as contender:
            ENDS[end](manager, leader)
            election.let_expire(leader)
            contender.wait_until_it_leads()


@pytest.mark.parametrize("end", ENDS)
def test_guardian_closes_the_session_of_a_kernel(election: HostedElection, end: str) -> None:
    with kernel() as (manager, client):
        leader = lead(client, election, is_guarded=True)
        ENDS[end](manager, leader)
        until(lambda: leader.session not in election.server.sessions(), "the session is closed")
        assert election.closed == 1


# --- IPython in a terminal ---------------------------------------------------------------------


def ipython(election: HostedElection, directory: Path, *lines: str) -> Program:
    """Types lines into IPython; each one is a cell."""
    (directory / "typed").write_text("\n".join([*lines, "exit", ""]))
    options = "--simple-prompt --no-banner --no-confirm-exit --colors=nocolor"
    command = f"exec {shlex.quote(sys.executable)} -m IPython {options} <typed"
    environment = {"IPYTHONDIR": str(directory), "HOME": str(directory)}
    return Program("sh", "-c", command, hosts=election.hosts, cwd=directory, env=environment)


def test_cells_of_ipython_open_use_and_close_a_client(
    election: HostedElection, tmp_path: Path
) -> None:
    lines = [
        "import aiolead, asyncio",
        "%autoawait asyncio",
        "client = await aiolead.connect()",
        "print('made', await client.create('/made'))",
        "async with aiolead.Lock(client, '/lock') as held: print('token', held.token)",
        "",
        "await client.aclose()",
        "print('state', client.state.name)",
    ]
    with ipython(election, tmp_path, *lines) as program:
        program.wait_for(r"made Created\(path='/made'")
        program.wait_for(r"token \d+")
        program.wait_for("state CLOSED")
        assert program.finish() == 0
    assert election.server.sessions() == {}
    election.check_output(program)


def test_event_loop_of_ipython_stands_still_between_cells(
    election: HostedElection, tmp_path: Path
) -> None:
    """So a client there renews its session only while a cell awaits; one of threads always does."""
    lines = [
        "import asyncio, contextlib, time; from aiolead import blocking; ticks = []",
        "await asyncio.sleep(0); _ = asyncio.get_running_loop().call_later(0.01, ticks.append, 1)",
        "time.sleep(0.1)",
        "print('ticks', len(ticks))",
        "await asyncio.sleep(0.1); print('ticks', len(ticks))",
        "stack = contextlib.ExitStack(); client = stack.enter_context(blocking.connect())",
        "print('made', client.create('/made'))",
        "stack.close()",
    ]
    with ipython(election, tmp_path, *lines) as program:
        program.wait_for("ticks 0")
        program.wait_for("ticks 1")
        program.wait_for(r"made Created\(path='/made'")
        assert program.finish() == 0
    assert election.server.sessions() == {}
    election.check_output(program)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_signal_ends_ipython_as_a_crash(
    election: HostedElection, tmp_path: Path, number: signal.Signals
) -> None:
    lines = ["import aiolead, asyncio", "client = await aiolead.connect(); print('open')"]
    with ipython(election, tmp_path, *lines, "await asyncio.sleep(600)") as program:
        program.wait_for("open")
        program.send(number)
        assert program.finish() == -number
        assert len(election.server.sessions()) == 1
