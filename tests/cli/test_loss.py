"""When a hold is lost, the command that runs under it dies before another one can begin."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.checks import killed_at_the_end
from kit.cli import WITHIN, Command, Process, environment
from kit.raw_client import RawClient

from aiolead.cli import process_keeper as keeper
from aiolead.errors import NoNodeError
from aiolead.testing import FaultProxy, ThreadedServer

OBEDIENT = """
    trap 'echo told; exit 0' TERM
    echo works $$ $AIOLEAD_SESSION $AIOLEAD_NODE
    while :; do sleep 0.05; done
"""
STUBBORN = """
    trap 'echo told' TERM
    echo works $$ $AIOLEAD_SESSION $AIOLEAD_NODE
    while :; do sleep 0.05; done
"""
"""Commands that print that they got SIGTERM. Only the first one ends."""

SESSION = ("--session-timeout", "2")

pytestmark = pytest.mark.keeps_time(2.0)


def contender(hosts: str, *options: str, script: str = OBEDIENT) -> Command:
    return Command("run", *SESSION, *options, "/app", "--", "sh", "-c", script, hosts=hosts)


def works(command: Command) -> tuple[Process, int, str]:
    """Waits until the child works; the child, the session, and the znode."""
    match = command.out.expect(r"works (\d+) 0x(\w+) (\S+)")
    return Process(int(match[1])), int(match[2], 16), match[3]


class Disappearance:
    """Polls in a thread, with a session of its own, until a znode is gone.

    Attributes:
        was_running: whether a process ran when the znode was first seen to be gone.
    """

    was_running = False

    def __init__(self, hosts: str, path: str, child: Process | None = None) -> None:
        self._child = child
        self._client = RawClient(hosts)
        self._client.exists(path)
        self._path = path
        self._present = self._absent = 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        deadline = time.monotonic() + WITHIN
        with self._client:
            while time.monotonic() < deadline:
                asked = time.monotonic()
                try:
                    self._client.exists(self._path)
                except NoNodeError:
                    self.was_running = self._child is not None and self._child.is_running
                    self._absent = time.monotonic()
                    return
                self._present = asked
                time.sleep(0.005)

    def times(self) -> tuple[float, float]:
        """A time at which the znode existed, and a time at which it was gone."""
        self._thread.join(WITHIN)
        assert 0 < self._present < self._absent, f"{self._path} does not go away"
        return self._present, self._absent


@contextmanager
def dies_before_its_znode(hosts: str, command: Command) -> Iterator[None]:
    """After the block, the child gets SIGTERM, and dies before the znode in /app is gone."""
    child, _, _ = works(command)
    with child:
        with RawClient(hosts) as client:
            (name,) = client.children("/app")
        gone = Disappearance(hosts, f"/app/{name}", child)
        yield
        command.out.expect("told")
        # The session may be closed as soon as the child is dead, so two clocks cannot tell.
        gone.times()
        assert not gone.was_running
        child.death()


@pytest.mark.exhaustive("the same as on the embedded server", only="standalone")
def test_child_dies_when_the_connection_carries_nothing(hosts: str) -> None:
    """No process gets a message, so only the clocks can end the child in time."""
    address, slash, chroot = hosts.partition("/")
    host, _, port = address.rpartition(":")
    with (
        FaultProxy(host, int(port)) as proxy,
        contender(
            proxy.connect_string + slash + chroot, "--grace", "0.3", script=STUBBORN
        ) as command,
    ):
        with dies_before_its_znode(hosts, command):
            proxy.blackhole()
        assert command.finish() == 74
        assert any("leadership of /app lost" in line for line in command.err.rest())


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGSTOP, 74), (signal.SIGKILL, 128 + signal.SIGKILL)]
)
def test_child_dies_when_aiolead_is_stopped_or_killed(
    somewhere: str, number: int, code: int
) -> None:
    """As a debugger stops it, or a freezer of containers. Its keeper goes on."""
    with contender(somewhere, script=STUBBORN) as command:
        with dies_before_its_znode(somewhere, command):
            command.signal(number)
        assert command.finish(signal.SIGCONT) == code


@pytest.mark.exhaustive("an edge of the command")
def test_child_of_a_nested_run_dies_when_the_outer_one_is_stopped(somewhere: str) -> None:
    """The inner child is in none of the outer one's process groups."""
    patient = ["--session-timeout", "40", "--grace", "10"]
    inner = [sys.executable, "-m", "aiolead", "run", *patient, "/inner", "--"]
    inner += ["sh", "-c", STUBBORN]
    with Command("run", *SESSION, "/app", "--", *inner, hosts=somewhere) as command:
        with dies_before_its_znode(somewhere, command):
            command.signal(signal.SIGSTOP)
        assert command.finish(signal.SIGCONT) == 74


@pytest.mark.exhaustive("an edge of the command")
def test_child_survives_an_outage_shorter_than_the_session(somewhere: str) -> None:
    address, slash, chroot = somewhere.partition("/")
    host, _, port = address.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        with contender(proxy.connect_string + slash + chroot) as command:
            child, _, node = works(command)
            with child, RawClient(somewhere) as client:
                proxy.refuse()
                proxy.reset()
                begin = time.monotonic()
                # The lease from before the outage ends in this time.
                while (since := time.monotonic() - begin) < 1.25 * float(SESSION[1]):
                    if since > 0.2 * float(SESSION[1]):
                        proxy.heal()
                    assert child.is_running
                    client.exists(node)
                    time.sleep(0.1)
                assert command.finish(signal.SIGTERM) == 0


SUSPENDED = """
import sys, time
sys.path.insert(0, sys.argv[1])  # the module alone, as it is run
import process_keeper as keeper
jump = time.monotonic() + 0.5
keeper.clock = lambda: time.monotonic() + (3600 if time.monotonic() > jump else 0)
keeper.main(int(sys.argv[2]), sys.argv[3:])
"""


def test_keeper_counts_the_time_of_a_suspended_machine() -> None:
    """Its sleep does not count that time, so it must look at the clock."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        folder = str(Path(keeper.__file__).parent)
        script = [sys.executable, "-c", SUSPENDED, folder]
        script += [str(theirs.fileno()), "sleep", "1000"]
        process = subprocess.Popen(script, pass_fds=[theirs.fileno()], env=environment())
        theirs.close()
        ours.settimeout(WITHIN)
        until = time.monotonic() + 1000
        start = {"env": {}, "until": until, "kill_by": until, "grace": 0.0}
        start["program"] = "/bin/sleep"
        with killed_at_the_end(process), ours.makefile() as messages:
            ours.sendall(json.dumps({"do": "start", **start}).encode() + b"\n")
            assert "started" in json.loads(messages.readline())
            assert json.loads(messages.readline())["stopped"]
            assert process.wait(WITHIN) == 0


NOT_STARTED = """
import os, signal, sys
import anyio
from aiolead.cli.child import Child

async def main():
    with Child(("sleep", "1000"), os.environ) as child:
        os.kill(child._keeper.pid, signal.SIGSTOP)
        lost = {"grace": 0.0, "after_lease": 0.0, "renew_every": 1.0, "warn": print}
        with anyio.move_on_after(0):
            await child.run(lambda: 0.0, {}, **lost)
    print("goes on", flush=True)

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_lost_hold_before_the_start_kills_only_the_keeper(backend: str) -> None:
    """The process group of aiolead itself survives."""
    with Command(backend, code=NOT_STARTED) as program:
        assert program.finish() == 0
        assert program.out.rest()[-1] == "goes on"


def test_child_dies_when_its_keeper_is_killed(somewhere: str) -> None:
    with contender(somewhere, script=STUBBORN) as command:
        child, _, node = works(command)
        with child:
            gone = Disappearance(somewhere, node)
            parent = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(parent, signal.SIGKILL)
            assert child.death() < gone.times()[1]
            assert command.finish() == 1


@pytest.mark.parametrize(("lost", "code"), [("session", 42), ("znode", 74)])
def test_child_dies_when_its_session_or_znode_is_ended(
    server: ThreadedServer, lost: str, code: int
) -> None:
    options = ("--lost-exit-code", "42") if code == 42 else ()
    script = OBEDIENT if lost == "session" else STUBBORN
    with contender(server.connect_string, *options, script=script) as command:
        child, session, node = works(command)
        with child:
            if lost == "session":
                server.expire_session(session)
            else:
                with RawClient(server.connect_string) as operator:
                    operator.delete(node)
            command.out.expect("told")
            child.death()
        assert command.finish() == code


def test_forever_contends_again_after_a_loss(server: ThreadedServer) -> None:
    with contender(server.connect_string, "--forever") as command:
        child, session, _ = works(command)
        with child:
            server.expire_session(session)
            child.death()
        again, other_session, _ = works(command)
        with again:
            assert other_session != session
            assert command.finish(signal.SIGTERM) == 0


# --- the story of the connection ------------------------------------------------------------------


def test_command_says_that_its_connection_is_lost_and_back(server: ThreadedServer) -> None:
    host, _, port = server.connect_string.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        options = ("--session-timeout", "20", "/app", "--", "sh", "-c", OBEDIENT)
        with Command("run", *options, hosts=proxy.connect_string) as command:
            works(command)
            proxy.down()
            command.err.expect(
                r"aiolead: connection to 127.0.0.1:\d+ lost \(.*\); the lease of 1 hold ends in "
                r"\d+\.\d s$"
            )
            command.err.expect(r"aiolead: no server, trying: 127.0.0.1:\d+: ")
            proxy.heal()
            command.err.expect(r"aiolead: connected to .* again after .* s: session 0x\w+ kept$")
            assert command.finish(signal.SIGTERM) == 0
