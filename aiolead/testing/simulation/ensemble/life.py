"""One life of a server's process: its clock, its timers, and what waits while it is stopped."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Sized
from functools import partial
from typing import Protocol

from ..timeline import Timeline, Timer


class Urgency(enum.IntEnum):
    """The order of events that are all due at once when a stopped process goes on."""

    TIMER = 0
    BYTES = 1
    SILENCE = 2
    """A waiter for bytes looks at those that have arrived before it gives up."""


class Socket(Protocol):
    """A resource that a process has open and the system closes when it dies."""

    def reset(self) -> None: ...


class Life:
    """From the start of a process until it is killed.

    Args:
        timeline: where the time comes from.
        rate: how fast this process's clock runs, of real time's rate.
        phase: the time on the clock at the beginning, in seconds.

    Attributes:
        is_over: whether the process was killed.
        is_stopped: whether it is stopped, as by SIGSTOP.
        unsent: the objects with something to send; where it is not empty after something was done,
            `settle` is called.
        settle: sends it.
    """

    def __init__(self, timeline: Timeline, rate: float, phase: float) -> None:
        self.is_over: bool = False
        self.is_stopped: bool = False
        self.unsent: Sized = ()
        self.settle: Callable[[], None]
        self._timeline = timeline
        self._rate = rate
        self._phase = phase
        self._backlog: list[tuple[Urgency, Callable[[], object]]] = []
        self._sockets: dict[Socket, None] = {}

    def clock(self) -> float:
        """In seconds, by this process's own clock."""
        return self._phase + self._timeline.now * self._rate

    def run(self, do: Callable[..., object], *args: object) -> None:
        """Lets the process take what has come in: now, or when it goes on."""
        if self.is_stopped:
            self._backlog.append((Urgency.BYTES, partial(do, *args)))
        elif not self.is_over:
            do(*args)
            if self.unsent:
                self.settle()

    def after(
        self, delay: float, do: Callable[[], object], urgency: Urgency = Urgency.TIMER
    ) -> LifeTimer:
        """Calls `do` after a delay, in seconds of this process's clock."""
        timer = LifeTimer(self, do, urgency)
        timer.inner = self._timeline.after(delay / self._rate, timer.fire)
        return timer

    def due(self, urgency: Urgency, do: Callable[[], object]) -> None:
        if self.is_stopped:
            self._backlog.append((urgency, do))
        elif not self.is_over:
            do()
            if self.unsent:
                self.settle()

    def opened(self, socket: Socket) -> None:
        self._sockets[socket] = None

    def closed(self, socket: Socket) -> None:
        self._sockets.pop(socket, None)

    def stop(self) -> None:
        """Nothing of the process runs until `go_on`; incoming messages wait."""
        self.is_stopped = True

    def go_on(self, rng: random.Random) -> None:
        """Does what has waited.

        The threads of a process that goes on run in no certain order: what its timers do may come
        before or after what the network has brought.
        """
        if not self.is_stopped or self.is_over:
            return
        self.is_stopped = False
        backlog, self._backlog = self._backlog, []
        if rng.random() < 0.5:
            backlog.sort(key=lambda one: one[0])
        else:
            backlog.sort(key=lambda one: one[0] is Urgency.SILENCE)
        for _, do in backlog:
            if self.is_over:
                return
            do()
            if self.unsent:
                self.settle()

    def end(self) -> None:
        """The process is killed: its connections break, its timers are gone."""
        self.is_over = True
        self.is_stopped = False
        self._backlog.clear()
        sockets, self._sockets = self._sockets, {}
        for socket in sockets:
            socket.reset()


class LifeTimer:
    """A callback of a process that is due at an instant."""

    __slots__ = ("_do", "_life", "_urgency", "inner")

    inner: Timer

    def __init__(self, life: Life, do: Callable[[], object], urgency: Urgency) -> None:
        self._life = life
        self._do: Callable[[], object] | None = do
        self._urgency = urgency

    def cancel(self) -> None:
        self._do = None
        self.inner.cancel()

    def fire(self) -> None:
        self._life.due(self._urgency, self._run)

    def _run(self) -> None:
        # It may have been cancelled while the process was stopped.
        if self._do is not None:
            self._do()


class Silence:
    """Calls back after a time of silence, as a socket's read timeout does.

    A sign of life costs no timer: the one that is armed looks how long ago the last one was.
    """

    __slots__ = ("_do", "_heard", "_life", "_limit", "_timer")

    def __init__(self, life: Life, limit: float, do: Callable[[], object]) -> None:
        self._life = life
        self._limit = limit
        self._do = do
        self._heard = life.clock()
        self._timer = life.after(limit, self._look, Urgency.SILENCE)

    def heard(self) -> None:
        self._heard = self._life.clock()

    def set_limit(self, limit: float) -> None:
        self._limit = limit
        self._timer.cancel()
        self._arm()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        if self._heard + self._limit - self._life.clock() < 1e-9:
            self._do()
        else:
            self._arm()

    def _arm(self) -> None:
        left = self._heard + self._limit - self._life.clock()
        self._timer = self._life.after(max(left, 0.0), self._look, Urgency.SILENCE)
