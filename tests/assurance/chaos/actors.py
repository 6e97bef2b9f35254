"""The driver's side of contenders: their seats, their processes, and the end of both."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from aiolead.testing import FaultProxy
from aiolead.testing._proxy.thread import LoopThread
from aiolead.testing.history import Event, History, from_line
from aiolead.testing.launch import LOOPBACK, ChildProcess

from .role import Role

E = TypeVar("E", bound=Event)

_ENOUGH = 1 << 17
"""How much of a history holds the latest turn, in bytes."""


class Actor:
    """One contender's process.

    Args:
        name: its name in the histories.
        role: its task.
        hosts: where it connects.
        directory: for its history and its log.
    """

    def __init__(self, name: str, role: Role, hosts: str, directory: Path) -> None:
        self.name = name
        self.role = role
        self.history = directory / f"{name}.jsonl"
        self.log = directory / f"{name}.log"
        self._process = ChildProcess(role.command(name, hosts, self.history), self.log)

    @property
    def is_running(self) -> bool:
        """Whether its process lives, stopped or not."""
        return self._process.exit_status is None

    @property
    def exit_status(self) -> int | None:
        return self._process.exit_status

    def holds_since(self) -> float | None:
        """Since when it believes that it holds, by the end of its history; None if it does not."""
        try:
            end = self.history.read_bytes()[-_ENOUGH:]
        except FileNotFoundError:
            return None
        entered = end.rfind(b'{"event":"Entered"')
        if not self.is_running or entered <= end.rfind(b'{"event":"Left"'):
            return None
        line, ended, _ = end[entered:].partition(b"\n")
        return from_line(line).at if ended else None

    def await_event(self, kind: type[E], timeout: float, *, after: float = 0.0) -> E:
        """Waits for an event in its history.

        Args:
            kind: the kind of the event.
            timeout: for how long, in seconds.
            after: earlier events do not count.

        Returns:
            the first such event.

        Raises:
            TimeoutError: there was none in time, or its process has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            is_over = not self.is_running or time.monotonic() >= deadline
            events = History.load([self.history]).events if self.history.exists() else []
            for event in events:
                if isinstance(event, kind) and event.at > after:
                    return event
            if is_over:
                raise TimeoutError(f"{self.name}: no {kind.__name__} in time\n{self.tail()}")
            time.sleep(0.05)

    def tail(self) -> str:
        """The end of what it has said beside its history."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])

    def stop(self) -> None:
        """SIGSTOP; returns when it has stopped."""
        self._process.pause()

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.resume()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._process.kill()

    def ask_to_leave(self) -> None:
        """SIGTERM: it leaves in good order. Returns at once."""
        if self.is_running:
            os.kill(self._process.pid, signal.SIGTERM)


class Seat:
    """The place of a contender: links of its own to each server, and one process after the other.

    Args:
        name: the name of its first process; the second one is called `name-2`.
        role: the task of its processes.
        ports: of the servers that they may talk to.
        thread: for the proxies; None to go without them.
        directory: for histories and logs.
    """

    def __init__(
        self,
        name: str,
        role: Role,
        ports: Sequence[int],
        thread: LoopThread | None,
        directory: Path,
    ) -> None:
        self.name = name
        self.actors: list[Actor] = []
        self._role = role
        self._directory = directory
        self.links = [FaultProxy(LOOPBACK, port, thread=thread) for port in ports if thread]
        for link in self.links:
            link.start()
        here = [link.port for link in self.links] or ports
        self._hosts = ",".join(f"{LOOPBACK}:{port}" for port in here)

    @property
    def actor(self) -> Actor:
        """The latest process of the seat."""
        return self.actors[-1]

    def fill(self) -> Actor:
        """Starts a process, the first one or the successor of one that was killed."""
        number = len(self.actors) + 1
        name = self.name if number == 1 else f"{self.name}-{number}"
        role = replace(self._role, seed=self._role.seed + number)
        self.actors.append(Actor(name, role, self._hosts, self._directory))
        return self.actor

    def heal_links(self) -> None:
        """Undoes all that was done to the links."""
        for link in self.links:
            link.heal()

    def close(self) -> None:
        """Kills its processes, and ends the connections."""
        for actor in self.actors:
            actor.kill()
        for link in self.links:
            link.close()


def leave_all(actors: Sequence[Actor], timeout: float) -> list[Actor]:
    """Has everybody leave in good order; returns those that had to be killed.

    Args:
        actors: the contenders that have to leave.
        timeout: how long they have, in seconds.
    """
    for actor in actors:
        actor.ask_to_leave()
    deadline = time.monotonic() + timeout
    while any(actor.is_running for actor in actors) and time.monotonic() < deadline:
        time.sleep(0.02)
    late = [actor for actor in actors if actor.is_running]
    for actor in late:
        actor.kill()
    return late
