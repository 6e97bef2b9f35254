"""When `aiolead run`, `lock` or `elect` is killed, the next one starts after the command's end.

Session timeouts are longer than the tests wait. The second command checks that the first is gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from client.guarded import TIMEOUT, guardian_of, is_running
from kit.checks import until
from kit.cli import Command, processes_with
from kit.raw_client import RawClient

from aiolead.testing import EmbeddedServer, FaultProxy, ThreadedServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

LONG = ("--session-timeout", str(TIMEOUT))
FIRST = """
    trap '' TERM
    echo $$ > pids
    sh -c 'echo $$ >> pids; echo works; exec sleep 1000' &
    while :; do wait; done
"""
"""A command that ignores SIGTERM, with a child. Both write their process ids to a file."""

SECOND = """
    for pid in $(cat pids); do kill -0 $pid 2> /dev/null && echo beside $pid; done
    echo works
"""


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread(max_session_timeout=2 * TIMEOUT) as server:
        yield server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    with suppress(FileNotFoundError):
        for pid in (tmp_path / "pids").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def contender(server: ThreadedServer, kind: str, script: str, *options: str) -> Command:
    command = [kind, *LONG, *options, "/app", "--", "sh", "-c", script]
    return Command(*command, hosts=server.connect_string, fresh=True)


@pytest.mark.parametrize("kind", ["run", "lock"])
def test_child_is_gone_before_the_next_one_starts(server: ThreadedServer, kind: str) -> None:
    with contender(server, kind, FIRST, "--grace", "0.5") as first:
        first.out.expect("works")
        with contender(server, kind, SECOND) as second:
            until(lambda: _contenders(server) == 2, "the second one waits")
            first.signal(signal.SIGKILL)
            second.out.expect("works")
            assert not any("beside" in line for line in second.out.all)
            assert second.finish() == 0


def test_session_is_closed_when_a_waiting_run_is_killed(server: ThreadedServer) -> None:
    with contender(server, "run", FIRST) as first:
        first.out.expect("works")
        with contender(server, "run", "true") as second:
            second.err.expect("waits")
            until(lambda: len(server.sessions()) == 2, "both are connected")
            second.signal(signal.SIGKILL)
            until(lambda: len(server.sessions()) == 1, "its session is closed")


@pytest.mark.exhaustive("an edge of the command")
def test_second_child_of_a_session_is_gone_before_the_next_one_starts(
    server: ThreadedServer,
) -> None:
    script = f"if [ -e again ]; then {FIRST} fi; touch again; echo first"
    with contender(server, "run", script, "--forever") as first:
        first.out.expect("first")
        first.out.expect("works")
        with contender(server, "run", SECOND) as second:
            second.err.expect("waits")
            first.signal(signal.SIGKILL)
            second.out.expect("works")
            assert not any("beside" in line for line in second.out.all)


def test_session_times_out_when_the_keeper_is_killed_as_well(server: ThreadedServer) -> None:
    """The guardian kills the child's process group, but knows nothing of what has left it."""
    with contender(server, "run", FIRST) as first:
        first.out.expect("works")
        pids = [int(pid) for pid in Path("pids").read_text().split()]
        (session,) = server.sessions()
        pid = first.process.pid
        guardian, keeper = guardian_of(pid), _keeper_of(pid)
        os.kill(pid, signal.SIGSTOP)  # so that it cannot release its hold
        os.kill(keeper, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_running(guardian), "the guardian has given up")
        until(lambda: not any(map(is_running, pids)), "the child and its own are gone")
        assert session in server.sessions()


@pytest.mark.parametrize("state", ["connects", "waits", "releases"])
def test_signal_ends_run_while_the_servers_are_silent(server: ThreadedServer, state: str) -> None:
    """Otherwise, it would wait for their answers for a third of the session timeout."""
    host, _, port = server.connect_string.rpartition(":")
    with FaultProxy(host, int(port)) as proxy, contender(server, "run", FIRST) as first:
        first.out.expect("works")
        path = "/other" if state == "releases" else "/app"
        command = ("run", *LONG, path, "--", "sh", "-c", "echo works; exec sleep 1000")
        if state == "connects":
            proxy.blackhole()
        with Command(*command, hosts=proxy.connect_string) as silent:
            if state == "waits":
                until(lambda: len(server.sessions()) == 2, "both are connected")
                silent.err.expect("waits")
            elif state == "releases":
                silent.out.expect("works")
            proxy.blackhole()
            assert silent.finish(signal.SIGTERM) == 128 + signal.SIGTERM


def _contenders(server: ThreadedServer) -> int:
    with RawClient(server.connect_string) as client:
        return len(client.children("/app"))


def _keeper_of(pid: int) -> int:
    """The child process that runs the keeper's program."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split())
    (keeper,) = {*children} & {*processes_with("process_keeper")}
    return keeper


def test_next_contender_without_a_command_leads_after_a_kill(server: ThreadedServer) -> None:
    hosts = server.connect_string
    with Command("run", *LONG, "/app", hosts=hosts, fresh=True) as first:
        first.out.expect("leads")
        with Command("run", *LONG, "/app", hosts=hosts, fresh=True) as second:
            second.out.expect("waits")
            first.signal(signal.SIGKILL)
            second.out.expect("leads")


@pytest.mark.parametrize("options", [["--no-close-on-crash"], ["--sasl", "digest-md5:user:secret"]])
def test_options_that_exclude_a_guardian(server: ThreadedServer, options: list[str]) -> None:
    with contender(server, "run", "echo works; exec sleep 1000", *options) as command:
        if "--sasl" not in options:
            command.out.expect("works")
        else:
            command.err.expect(".")
        assert guardian_of(command.process.pid) == 0
