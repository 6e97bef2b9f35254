"""The processes of `aiolead demo`, and what they report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import anyio

from .._util import parsing
from .._util.escaping import in_seconds
from .process_keeper import clock

_ENDS_WITHIN = 5.0
"""Longest time for a process to be gone after SIGKILL, in seconds."""
PATIENCE = 20.0
"""Longest time for a step on a busy machine, in seconds."""

_CONTENDER = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from aiolead.cli.demo_contender import main
sys.exit(main(*sys.argv[1:]))
"""
"""The program of a process. With `-P`, it imports nothing from the current directory."""


class DemoFailed(Exception):
    """Something did not happen as promised."""


@dataclass(slots=True)
class DemoTerm:
    """When a process first and last led, by its own reports, and its fencing token."""

    name: str
    token: int
    begin: float
    end: float


@dataclass(slots=True)
class DemoProcess:
    """One of the processes; `output` has lines that are no reports, such as an error.

    `state` is "starts", "waits", "leads", "stops", "ended", or "killed" (and dead at `killed_at`).
    `session_timeout` is granted by the servers, in seconds.
    """

    name: str
    process: subprocess.Popen[bytes]
    state: str = "starts"
    session_timeout: float = 0.0
    term: DemoTerm | None = None
    killed_at: float = 0.0
    output: list[str] = field(default_factory=list)
    _unread: bytes = b""

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    @property
    def led(self) -> DemoTerm:
        assert self.term is not None
        return self.term

    def take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                message = parsing.json_object(line)
                self._on_event(message["event"], message["at"], message)
            except (ValueError, KeyError, TypeError):
                self.output.append(parsing.lossy_text(line))

    def _on_event(self, event: str, at: float, message: dict[str, Any]) -> None:
        match event:
            case "waits":
                self.session_timeout = message["session_timeout"]
            case "leads":
                self.term = DemoTerm(self.name, message["token"], at, at)
            case "works" | "stops" if self.term is not None:
                self.term.end = at
        if event != "works":
            self.state = event


class DemoProcesses:
    """Starts `demo_contender` with `arguments(name)` for each name, and follows the reports.

    `queue` has the names of the contenders in the servers' order; `queue_is` sets it.
    """

    def __init__(self, names: tuple[str, ...], arguments: Callable[[str], list[str]]) -> None:
        self._names = names
        self._arguments = arguments
        self._changed = anyio.Event()
        self.members: dict[str, DemoProcess] = {}
        self.queue: list[str] = []

    @contextmanager
    def killed_at_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            for member in self.members.values():
                member.process.kill()
            for member in self.members.values():
                member.process.wait(_ENDS_WITHIN)
                member.stdout.close()
                assert member.process.stdin is not None
                member.process.stdin.close()

    async def run(self) -> None:
        """Start the processes one after the other, and follow their reports until cancelled."""
        async with anyio.create_task_group() as tasks:
            for name in self._names:
                # In a session of its own: Ctrl-C is for the demo, which then ends it.
                process = subprocess.Popen(  # noqa: ASYNC220, S603 - no shell; it starts at once
                    [sys.executable, "-P", "-c", _CONTENDER, *self._arguments(name)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                member = self.members[name] = DemoProcess(name, process)
                os.set_blocking(member.stdout.fileno(), False)
                tasks.start_soon(self._follow, member)
                await self.until(
                    partial(self._contends, name), PATIENCE, f"{name} did not enter the queue"
                )
            await anyio.sleep_forever()

    async def _follow(self, member: DemoProcess) -> None:
        descriptor = member.stdout.fileno()
        while True:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, 65536)
            if not data:
                break
            member.take(data)
            self._notify()
        member.state = "killed" if member.state == "killed" else "ended"
        self._notify()

    def queue_is(self, names: list[str]) -> None:
        self.queue = names
        self._notify()

    def _contends(self, name: str) -> bool:
        return name in self.queue

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    @property
    def leader(self) -> DemoProcess | None:
        """The process that leads, by its own report."""
        return next((each for each in self.members.values() if each.state == "leads"), None)

    @property
    def terms(self) -> list[DemoTerm]:
        terms = [each.term for each in self.members.values() if each.term is not None]
        return sorted(terms, key=lambda term: term.begin)

    async def until(self, condition: Callable[[], bool], within: float, what: str) -> None:
        """Wait for a condition; `DemoFailed` after `within` seconds, or if a process ends early."""
        with anyio.move_on_after(within):
            while not condition():
                self.check()
                await self._changed.wait()
            return
        raise DemoFailed(f"{what}: not within {in_seconds(within)}")

    def kill(self, member: DemoProcess) -> None:
        """Kill a process as a crash would."""
        member.state = "killed"
        member.process.kill()
        member.process.wait(_ENDS_WITHIN)
        member.killed_at = clock()

    def ask_to_end(self, member: DemoProcess) -> None:
        member.process.send_signal(signal.SIGTERM)

    def check(self) -> None:
        """Raise `DemoFailed` if a process has ended by itself."""
        for member in self.members.values():
            if member.state == "ended" and (member.output or member.process.poll()):
                said = " ".join(member.output[-3:]) or "it said nothing"
                raise DemoFailed(f"{member.name} has ended by itself: {said}")
