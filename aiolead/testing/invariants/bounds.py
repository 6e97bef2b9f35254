"""The parameters of the invariants beside the history, and their findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

REQUESTS, REQUESTS_PER_CHANGE = 150.0, 2.0
"""The defaults of the bounds of I27."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long things may take in a run, and how many may hold. All times are in seconds.

    Attributes:
        session_timeout: that of the sessions, as the servers agreed to it.
        tick_time: the servers'; defaults to half of the session timeout.
        grace_period: how long a body may take to end; defaults to a tenth of the session timeout.
        losing: how long it may take to cancel one body, if a session loses several holds at once.
        reconnect: how long a client may take to find a server that it can reach: an attempt at one
            that it cannot, and the longest pause. Defaults to a quarter of the session timeout, and
            another tenth of it or a second, whichever is shorter.
        release: how long the znode of a contender that has left may stay although its session
            lives, once nothing is broken and the servers have a leader; None if that is not asked.
        election: how long the servers may take to have a leader once nothing is broken.
        harmless: how long a fault may last without costing a session or a hold; defaults to a third
            of the session timeout.
        harmless_to_holds: the same for holds alone, whose leases are shorter than sessions are at
            times; below 0 if any fault may cost one.
        grace: how long progress may take beyond the computed time.
        slack: how much later than its limit a bounded call may end.
        places: how many may hold at once, in each line or in all of them.
        woken: how many waiters one departure may wake, where there is one place.
        requests: how many requests a session may send in a session timeout in which nothing
            changes: pings, renewals, and what is asked again after a pause.
        requests_per_change: how many more for each change that there is to learn of.
        is_complete: whether the run has ended, so that a contender that still waits was forgotten.
    """

    session_timeout: float = 10.0
    tick_time: float | None = None
    grace_period: float | None = None
    losing: float = 0.0001
    reconnect: float | None = None
    release: float | None = None
    election: float = 0.0
    harmless: float | None = None
    harmless_to_holds: float | None = None
    grace: float = 1.0
    slack: float = 0.1
    places: int | Mapping[str, int] = 1
    woken: int = 2
    requests: float = REQUESTS
    requests_per_change: float = REQUESTS_PER_CHANGE
    is_complete: bool = True

    def places_in(self, line: str) -> int:
        """How many may hold at once in a line."""
        return self.places if isinstance(self.places, int) else self.places.get(line, 1)

    @property
    def body(self) -> float:
        """How long a cancelled body may take to end."""
        return self.session_timeout / 10 if self.grace_period is None else self.grace_period

    @property
    def tick(self) -> float:
        """The servers' tick time."""
        return self.session_timeout / 2 if self.tick_time is None else self.tick_time

    @property
    def contact(self) -> float:
        """How long a client may take to find a server that it can reach."""
        tau = self.session_timeout
        return tau / 4 + min(tau / 10, 1.0) if self.reconnect is None else self.reconnect

    @property
    def longest_harmless(self) -> float:
        """How long a fault may last without costing anything."""
        return self.session_timeout / 3 if self.harmless is None else self.harmless

    @property
    def longest_harmless_to_holds(self) -> float:
        """How long a fault may last without costing a hold."""
        own = self.harmless_to_holds
        return self.longest_harmless if own is None else own

    @property
    def progress(self) -> float:
        """Within which everything that is due happens once nothing is broken any more.

        A session that nobody keeps alive ends after its timeout and a tick; a client that lost its
        link needs a while to reconnect.
        """
        return self.session_timeout + self.tick + self.contact + self.election + self.grace


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen has happened.

    Attributes:
        invariant: the name of what was violated, such as `I1`.
        text: a description in words.
        at: when, in seconds on the history's clock.
    """

    invariant: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at:.4f}: {self.text}"


@dataclass(frozen=True, slots=True)
class Margin:
    """How long before the servers deleted its znode a loser had stopped.

    Attributes:
        line: the path that it held.
        contender: who.
        token: the token of the hold.
        why: how it learned of the loss: the `why` of its first `SteppedDown`; empty if unknown.
        stopped: when its body had ended, in seconds on the history's clock.
        deleted: when the servers deleted its znode.
    """

    line: str
    contender: str
    token: int
    why: str
    stopped: float
    deleted: float

    @property
    def seconds(self) -> float:
        """The margin. Positive is safe."""
        return self.deleted - self.stopped
