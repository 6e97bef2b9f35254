"""The processes of `aiolead demo`, and what they have said of themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Self

import anyio
from anyio.abc import TaskGroup

from .. import _parsing
from .process_keeper import clock

__all__ = ["DemoFailed", "DemoProcess", "Reign", "Troupe"]

_ENDS_WITHIN = 5.0
"""How long a process may need to be gone after SIGKILL, in seconds."""


class DemoFailed(Exception):
    """Something did not happen as promised."""


@dataclass(slots=True)
class Reign:
    """A time of leading, from a process's own words.

    Attributes:
        token: the fencing token.
        begin: when it was first known to lead.
        end: when it was last known to lead.
    """

    name: str
    token: int
    begin: float
    end: float


@dataclass(slots=True)
class DemoProcess:
    """One of the processes.

    Attributes:
        state: "starts", "waits", "leads", "stops", "ended", or "killed".
        session_timeout: what the servers granted it, in seconds.
        reign: its time of leading, if there was one.
        killed_at: when it was dead, if it was killed.
        said: what it said that was not meant for us, such as an error.
    """

    name: str
    process: subprocess.Popen[bytes]
    state: str = "starts"
    session_timeout: float = 0.0
    reign: Reign | None = None
    killed_at: float = 0.0
    said: list[str] = field(default_factory=list)
    _unread: bytes = b""

    @property
    def output(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def take(self, data: bytes) -> None:
        """Takes in what it has written."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            try:
                message = _parsing.json_object(line)
                self._on_event(message["event"], message["at"], message)
            except (ValueError, KeyError, TypeError):
                self.said.append(_parsing.lossy_text(line))

    def _on_event(self, event: str, at: float, message: dict[str, Any]) -> None:
        match event:
            case "waits":
                self.session_timeout = message["session_timeout"]
            case "leads":
                self.reign = Reign(self.name, message["token"], at, at)
            case "works" | "stops" if self.reign is not None:
                self.reign.end = at
        if event != "works":
            self.state = event


class Troupe:
    """Starts the processes, listens to them, and leaves none behind. A context manager.

    Args:
        names: what they are called.
        arguments: those of `demo_contender` for a name.
    """

    def __init__(self, names: tuple[str, ...], arguments: Callable[[str], list[str]]) -> None:
        self._names = names
        self._arguments = arguments
        self._changed = anyio.Event()
        self.members: dict[str, DemoProcess] = {}

    def start(self, tasks: TaskGroup) -> None:
        """Starts them, and listening to them in a task group."""
        for name in self._names:
            member = DemoProcess(name, self._launch(name))
            self.members[name] = member
            tasks.start_soon(self._listen, member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self.members.values():
            member.process.kill()
        for member in self.members.values():
            member.process.wait(_ENDS_WITHIN)
            member.output.close()
            assert member.process.stdin is not None
            member.process.stdin.close()

    def _launch(self, name: str) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C is for the demo, which then ends them.
        process = subprocess.Popen(  # noqa: S603 - the arguments are not for a shell
            [sys.executable, "-m", "aiolead.cli.demo_contender", *self._arguments(name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        return process

    async def _listen(self, member: DemoProcess) -> None:
        descriptor = member.output.fileno()
        while True:
            await anyio.wait_readable(descriptor)
            data = os.read(descriptor, 65536)
            if not data:
                break
            member.take(data)
            self._notify()
        member.state = "killed" if member.state == "killed" else "ended"
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # --- what the story needs ------------------------------------------------------------------

    @property
    def leader(self) -> DemoProcess | None:
        """Who leads, as they say."""
        return next((each for each in self.members.values() if each.state == "leads"), None)

    @property
    def reigns(self) -> list[Reign]:
        """All times of leading, in order."""
        reigns = [each.reign for each in self.members.values() if each.reign is not None]
        return sorted(reigns, key=lambda reign: reign.begin)

    async def until(self, condition: Callable[[], bool], within: float, what: str) -> None:
        """Waits until a condition that the processes' words can change holds.

        Raises:
            DemoFailed: it did not within that many seconds, or a process has ended by itself.
        """
        with anyio.move_on_after(within):
            while not condition():
                self.check()
                await self._changed.wait()
            return
        raise DemoFailed(f"{what}: not within {within:g} seconds")

    def kill(self, member: DemoProcess) -> float:
        """Kills a process as a crash would; returns when it was dead."""
        member.state = "killed"
        member.process.kill()
        member.process.wait(_ENDS_WITHIN)
        member.killed_at = clock()
        return member.killed_at

    def ask_to_end(self, member: DemoProcess) -> float:
        """Sends SIGTERM to a process; returns when."""
        now = clock()
        member.process.send_signal(signal.SIGTERM)
        return now

    def check(self) -> None:
        """Returns if no process has ended by itself.

        Raises:
            DemoFailed: one has.
        """
        for member in self.members.values():
            if member.state == "ended" and (member.said or member.process.poll()):
                said = " ".join(member.said[-3:]) or "it said nothing"
                raise DemoFailed(f"{member.name} has ended by itself: {said}")
