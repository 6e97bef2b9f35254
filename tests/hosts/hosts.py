"""Hosts of aiolead (web servers, task queues, notebooks) as real processes that get real signals,
and how the server sees their sessions end.

The server grants sessions that outlive every test, so none of them ends by its timeout: a session
ends because its client closes it, because a guardian does, or because a test expires the session of
a process that it has killed. Nothing here depends on how fast the machine is.

A program runs `work` of `tests/hosts/programs/work.py` in its leader: that creates `AT_WORK`, and
fails if another leader is still at work.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kit.checks import PATIENCE, until
from kit.pages import ROOT, WHOLE_LINES, Program
from kit.raw_client import RawClient

import aiolead
from aiolead import blocking
from aiolead.testing import EmbeddedServer, ThreadedServer

PROGRAMS = ROOT / "tests" / "hosts" / "programs"

ELECTION = "/hosts/scheduler"
AT_WORK = "/hosts/at-work"

SESSION_TIMEOUT = 600.0
"""In seconds, longer than any test may take. Programs may ask for less: they get this."""

_LEADS = r"^(\d+) leads in session ([0-9a-f]+)$"
_COMPLAINT = re.compile(r"Traceback|Warning: |never retrieved|never awaited|unexpected error")
_OF_HOSTS = re.compile(
    # Hosts leave their listening sockets open at the end; a client's socket has a peer (raddr).
    r"ResourceWarning: unclosed <socket\.socket (?!.*raddr)"
    r"|ResourceWarning: unclosed file <_io\.\w+ name=\d"
    r"|ResourceWarning: Enable tracemalloc"
)
_LATE_SIGNAL = re.compile(
    # A signal comes while asyncio closes its loop: the second one, where a host forwards what its
    # processes also got from the terminal.
    r"Exception ignored when trying to write to the signal wakeup fd:\n"
    r"Traceback .*\n(?:[ ].*\n|\n)*"
    r"OSError: \[Errno 9\] Bad file descriptor\n"
)


@dataclass(frozen=True, slots=True)
class Leader:
    """A process that leads, as it has reported.

    Attributes:
        pid: the process id.
        session: the id of its session.
    """

    pid: int
    session: int

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class NextContender:
    """A contender in this process, which leads once the hosts before it have left the queue."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._leads = threading.Event()
        self._found_at_work = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._contend)
        with ExitStack() as stack:
            stack.callback(lambda: thread.ident is not None and thread.join())
            self._client = stack.enter_context(blocking.connect(self._hosts))
            thread.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def _contend(self) -> None:
        with suppress(aiolead.errors.ClientClosedError, aiolead.TenureLost):
            blocking.Election(self._client, ELECTION).run(self._lead)

    def _lead(self, term: blocking.Term) -> None:
        self._found_at_work = self._client.exists(AT_WORK) is not None
        self._leads.set()
        term.lost.wait()

    @property
    def session(self) -> int:
        return self._client.session_id

    @property
    def leads(self) -> bool:
        return self._leads.is_set()

    def wait_until_it_leads(self) -> None:
        """Waits until it leads; nobody else is at work then."""
        assert self._leads.wait(PATIENCE), "the next contender never led"
        assert not self._found_at_work, "two led at the same time"


class HostedElection:
    """An election among hosts, and the server on which it takes place."""

    def __init__(self, server: ThreadedServer) -> None:
        self.server = server

    @property
    def hosts(self) -> str:
        return self.server.connect_string

    def start(
        self, *command: str, cwd: Path = PROGRAMS, env: dict[str, str] | None = None
    ) -> Program:
        """Starts a host. Its first argument may be a script, or `-m` for a module."""
        return Program(*command, hosts=self.hosts, cwd=cwd, env={**WHOLE_LINES, **(env or {})})

    def leader(self, program: Program) -> Leader:
        """Waits until a process of this host leads: another one each time that it is called."""
        pid, session = program.wait_for(_LEADS).groups()
        return Leader(int(pid), int(session, 16))

    @contextmanager
    def next_contender(self) -> Iterator[NextContender]:
        """A contender behind those that contend now."""
        before = len(self.contenders())
        with NextContender(self.hosts) as contender:
            self.wait_for_contenders(before + 1)
            yield contender

    def contenders(self) -> set[int]:
        """The sessions that have a place in the queue."""
        places = [path for path in self.server.znodes() if path.startswith(f"{ELECTION}/")]
        return {int(path.rsplit("/", 1)[1].split("-", 1)[0], 16) for path in places}

    def wait_until_ready(self, program: Program, pattern: str, workers: int) -> set[int]:
        """Waits until all workers of a host contend, and have printed a line with the pattern;
        gives their sessions.
        """

        def lines() -> int:
            return sum(re.search(pattern, line) is not None for line in program.lines)

        until(lambda: lines() >= workers, f"{workers} lines with {pattern!r}")
        return self.wait_for_contenders(workers)

    def wait_for_contenders(self, number: int) -> set[int]:
        """Waits until that many sessions contend; gives their ids."""
        until(lambda: len(self.contenders()) == number, f"{number} contenders")
        return self.contenders()

    @property
    def closed(self) -> int:
        """How many sessions were closed by a request of their client or its guardian."""
        return self.server.requests["CLOSE_SESSION"]

    def stop(
        self,
        program: Program,
        number: signal.Signals,
        *,
        whole_group: bool = False,
        status: int = 0,
        or_else: int = 0,
        expected: str = "",
    ) -> None:
        """Stops a host by a signal, and checks that nothing is lost.

        Each of its clients closes its session, the next contender leads, no process of the host
        prints a traceback or a warning, and the host ends with the status that it always has.

        Args:
            program: the host, one of whose processes leads.
            number: SIGTERM or SIGINT.
            whole_group: send the signal to every process of the host. A terminal does so on Ctrl-C,
                and systemd does so on stop. Otherwise only the first process gets it, as in a
                container.
            status: the exit status of the host, also without aiolead.
            or_else: another one; 0 for none.
            expected: a pattern for complaints that the host prints without aiolead, too.
        """
        with self.next_contender() as contender:
            closed = self.closed
            sessions = self.server.sessions().keys() - {contender.session}
            assert sessions
            program.send(number, whole_group=whole_group)
            contender.wait_until_it_leads()
            ended = program.finish()
            assert ended in (status, or_else or status), "\n".join([f"{ended}", *program.lines])
            # Sessions end here only by a request.
            assert self.server.sessions().keys() == {contender.session}
            assert self.closed - closed == len(sessions)
        self.check_output(program, expected=expected)

    def crash(self, leader: Leader) -> None:
        """Kills the process that leads. The caller checks the next leader."""
        leader.kill()
        self.let_expire(leader)

    def let_expire(self, leader: Leader) -> None:
        """Checks that a process that has ended has not closed its session, and that nobody leads
        until the session has ended. Then ends that as its timeout would end it.
        """
        until(
            lambda: not self.server.sessions()[leader.session].is_connected,
            "the server has lost the connection of the process",
        )
        # The next leader has not begun.
        with RawClient(self.hosts) as client:
            client.sync(AT_WORK)
            assert int(client.get(AT_WORK), 16) == leader.session
        assert leader.session in self.server.sessions()
        self.server.expire_session(leader.session)

    def crash_guarded(self, leader: Leader) -> None:
        """Kills the process that leads, whose client has `close_on_crash`: the guardian closes the
        session. The caller checks the next leader.
        """
        closed = self.closed
        leader.kill()
        until(lambda: leader.session not in self.server.sessions(), "the session is closed")
        assert self.closed > closed

    def wait_until_replaced(self, program: Program, old: set[int]) -> Leader:
        """Waits until a host that reloads has replaced all its workers; gives the new leader.

        Each old worker has closed its session.

        Args:
            old: the sessions of the workers before, as `wait_for_contenders` has given them.
        """
        leader = self.leader(program)
        while leader.session in old:  # an old worker that was behind the one that stopped first
            leader = self.leader(program)
        # Sessions end here only by a request.
        until(lambda: not old & self.server.sessions().keys(), "the old sessions are closed")
        self.wait_for_contenders(len(old))
        return leader

    @staticmethod
    def check_output(program: Program, *, expected: str = "") -> None:
        """Checks that a host has printed no traceback and no warning.

        Args:
            program: the host, which has ended.
            expected: a pattern for the complaints that the host prints without aiolead, too.
        """
        lines = program.lines
        complaints = [
            line
            for line in _LATE_SIGNAL.sub("", "\n".join(lines)).splitlines()
            if _COMPLAINT.search(line) and not _OF_HOSTS.search(line)
        ]
        if expected:
            complaints = [line for line in complaints if not re.search(expected, line)]
        assert not complaints, "\n".join(lines)


@contextmanager
def hosted_election() -> Iterator[HostedElection]:
    with EmbeddedServer.in_thread(
        min_session_timeout=SESSION_TIMEOUT, max_session_timeout=SESSION_TIMEOUT
    ) as server:
        yield HostedElection(server)
