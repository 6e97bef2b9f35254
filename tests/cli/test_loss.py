"""What was held is lost while the command runs: it is dead before anybody else can begin."""

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
from pathlib import Path

import pytest
from kit.cli import WITHIN, Command, Process, environment
from kit.raw_client import RawClient

from aiolead.cli import process_keeper as keeper
from aiolead.errors import NoNodeError
from aiolead.testing import EmbeddedServer, FaultProxy, ThreadedServer

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
"""Commands that say that they were told to end; one does, one does not."""

SESSION = ("--session-timeout", "2")

pytestmark = pytest.mark.keeps_time(2.0)


@pytest.fixture
def server() -> Iterator[ThreadedServer]:
    with EmbeddedServer.in_thread() as server:
        yield server


def contender(hosts: str, *options: str, script: str = OBEDIENT) -> Command:
    return Command("run", *SESSION, *options, "/app", "--", "sh", "-c", script, hosts=hosts)


def works(command: Command) -> tuple[Process, int, str]:
    """Waits until the child works: the child, the session, and the znode."""
    match = command.out.expect(r"works (\d+) 0x(\w+) (\S+)")
    return Process(int(match[1])), int(match[2], 16), match[3]


class Disappearance:
    """Watches from a session of its own until a znode is gone, in a thread."""

    def __init__(self, hosts: str, path: str) -> None:
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
                    self._absent = time.monotonic()
                    return
                self._present = asked
                time.sleep(0.005)

    def times(self) -> tuple[float, float]:
        """A moment at which it was still there, and a moment at which it was not any more."""
        self._thread.join(WITHIN)
        assert 0 < self._present < self._absent, f"{self._path} does not go away"
        return self._present, self._absent


@pytest.mark.exhaustive("the same as on the embedded server", only="standalone")
def test_a_link_that_carries_nothing(hosts: str) -> None:
    """Nobody says a word: the clocks alone have to be enough."""
    address, slash, chroot = hosts.partition("/")
    host, _, port = address.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        path = proxy.connect_string + slash + chroot
        with contender(path, "--grace", "0.3", script=STUBBORN) as command:
            child, _, node = works(command)
            with child:
                gone = Disappearance(hosts, node)
                proxy.blackhole()
                command.out.expect("told")
                assert child.death() < gone.times()[0]
                assert command.finish() == 74
            assert any("leadership of /app lost" in line for line in command.err.rest())


def test_aiolead_itself_is_stopped(somewhere: str) -> None:
    """As a debugger does, or a machine that freezes a container: its keeper goes on."""
    with contender(somewhere, script=STUBBORN) as command:
        child, _, node = works(command)
        with child:
            gone = Disappearance(somewhere, node)
            command.signal(signal.SIGSTOP)
            command.out.expect("told")
            assert child.death() < gone.times()[0]
            command.signal(signal.SIGCONT)
            assert command.finish() == 74


def test_aiolead_itself_is_killed(somewhere: str) -> None:
    with contender(somewhere, script=STUBBORN) as command:
        child, _, node = works(command)
        with child:
            gone = Disappearance(somewhere, node)
            command.signal(signal.SIGKILL)
            command.out.expect("told")
            assert child.death() < gone.times()[0]


@pytest.mark.exhaustive("an edge of the command")
def test_a_command_that_holds_something_else(somewhere: str) -> None:
    """A run in a run. The inner child is in none of the outer one's process groups."""
    patient = ["--session-timeout", "40", "--grace", "10"]
    inner = [sys.executable, "-m", "aiolead", "run", *patient, "/inner", "--"]
    inner += ["sh", "-c", STUBBORN]
    with Command("run", *SESSION, "/app", "--", *inner, hosts=somewhere) as command:
        child, _, _ = works(command)
        with child:
            with RawClient(somewhere) as client:
                (name,) = client.children("/app")
            gone = Disappearance(somewhere, f"/app/{name}")
            command.signal(signal.SIGSTOP)
            command.out.expect("told")
            assert child.death() < gone.times()[0]
            command.signal(signal.SIGCONT)
            assert command.finish() == 74


@pytest.mark.exhaustive("an edge of the command")
def test_a_short_outage(somewhere: str) -> None:
    """Shorter than the session timeout: the command goes on, and so does the session."""
    address, slash, chroot = somewhere.partition("/")
    host, _, port = address.rpartition(":")
    with FaultProxy(host, int(port)) as proxy:
        with contender(proxy.connect_string + slash + chroot) as command:
            child, _, node = works(command)
            with child, RawClient(somewhere) as client:
                proxy.refuse()
                proxy.reset()
                begin = time.monotonic()
                # By the end of this the lease that it had would have run out.
                while (since := time.monotonic() - begin) < 1.25 * float(SESSION[1]):
                    if since > 0.2 * float(SESSION[1]):
                        proxy.heal()
                    assert child.is_running
                    client.exists(node)
                    time.sleep(0.1)
                command.signal(signal.SIGTERM)
                assert command.finish() == 0


SUSPENDED = """
import sys, time
sys.path.insert(0, sys.argv[1])  # the module alone, as it is run
import process_keeper as keeper
jump = time.monotonic() + 0.5
keeper.clock = lambda: time.monotonic() + (3600 if time.monotonic() > jump else 0)
keeper.main(int(sys.argv[2]), sys.argv[3:])
"""


def test_the_machine_was_suspended() -> None:
    """The keeper's own sleep does not count that time; it has to look at the clock."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        folder = str(Path(keeper.__file__).parent)
        script = [sys.executable, "-c", SUSPENDED, folder]
        script += [str(theirs.fileno()), "sleep", "1000"]
        process = subprocess.Popen(script, pass_fds=[theirs.fileno()], env=environment())
        theirs.close()
        ours.settimeout(WITHIN)
        until = time.monotonic() + 1000
        start = {"env": {}, "until": until, "kill_by": until, "grace": 0.0, "terminal": False}
        ours.sendall(json.dumps({"do": "start", **start}).encode() + b"\n")
        with ours.makefile() as messages:
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
def test_the_keeper_has_not_started_it_yet(backend: str) -> None:
    """The lease has ended: the keeper is killed, and not our own process group."""
    process = subprocess.run(
        [sys.executable, "-c", NOT_STARTED, backend],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=WITHIN,
        process_group=0,
        check=False,
    )
    assert process.returncode == 0
    assert process.stdout.splitlines()[-1] == "goes on"


def test_the_keeper_is_killed(somewhere: str) -> None:
    with contender(somewhere, script=STUBBORN) as command:
        child, _, node = works(command)
        with child:
            gone = Disappearance(somewhere, node)
            parent = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(parent, signal.SIGKILL)
            assert child.death() < gone.times()[1]
            assert command.finish() == 1


def test_the_session_is_ended_by_force(server: ThreadedServer) -> None:
    with contender(server.connect_string, "--lost-exit-code", "42") as command:
        child, session, _ = works(command)
        with child:
            server.expire_session(session)
            command.out.expect("told")
            child.death()
        assert command.finish() == 42


def test_the_znode_is_deleted_by_hand(server: ThreadedServer) -> None:
    with contender(server.connect_string, script=STUBBORN) as command:
        child, _, node = works(command)
        with child:
            with RawClient(server.connect_string) as operator:
                operator.delete(node)
            command.out.expect("told")
            child.death()
        assert command.finish() == 74


def test_forever_contends_again_after_a_loss(server: ThreadedServer) -> None:
    with contender(server.connect_string, "--forever") as command:
        child, session, _ = works(command)
        with child:
            server.expire_session(session)
            child.death()
        again, other_session, _ = works(command)
        with again:
            assert other_session != session
            command.signal(signal.SIGTERM)
            assert command.finish() == 0
