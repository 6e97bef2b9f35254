"""Which holds should have ended, and have not: what a watchdog decides. No thread, no I/O.

The servers may give a role to another client when the proof of its session ends. A hold that is
neither released nor lost by then has an event loop that does not run; one that was lost, but not
released, has a body that goes on although it was cancelled. Either is *overdue* from a small
reserve before that moment on.

Two threads use this. Only the event loop's thread writes: what is held, and until when that is
proven. The watchdog's thread only calls `look`. No lock is needed: each write is one store of an
immutable value, or one change of a dict, and `look` copies the dict in one step, all of which are
atomic in CPython, with its global lock and without it. What `look` misses it finds the next time;
`look_by` requests an earlier look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from ...errors import LossReason
from ..machine import SessionMachine
from .lease_book import HeldZnode

RESERVE = 0.25
"""How long ending a process takes on an overloaded machine, in seconds; usually 10 ms."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A hold that has not ended.

    Attributes:
        path: its znode.
        session_id: the session that owns it.
        reason: why it was lost; None while it is not.
        given_away_at: when the servers may give it to another client, on the lease's clock. None
            while that moves with the lease.
    """

    path: str
    session_id: int
    reason: LossReason | None = None
    given_away_at: float | None = None


class Overdue:
    """The holds of a client, as its watchdog sees them. A `HoldObserver`.

    Args:
        clock: the lease's clock, which both threads read.
        reserve: how long before the servers may give it away a hold is overdue, in seconds.
        look_by: called in the event loop's thread with a time at which something may be overdue:
            `look` must be called then at the latest.
    """

    def __init__(
        self,
        machine: SessionMachine,
        clock: Callable[[], float],
        reserve: float | None,
        look_by: Callable[[float], object],
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._asked_reserve = reserve
        self._look_by = look_by
        self._holds: dict[HeldZnode, Watched] = {}
        self._lease_ends = inf
        self._reported: set[HeldZnode] = set()  # the watchdog's thread's own

    @property
    def reserve(self) -> float:
        """The reserve in use: bodies keep half of the grace period at least."""
        asked = RESERVE if self._asked_reserve is None else self._asked_reserve
        return min(asked, self._machine.timing.grace_period / 2)

    @property
    def is_idle(self) -> bool:
        """Whether every hold has ended."""
        return not self._holds

    # --- the event loop's thread ---------------------------------------------------------------

    def began(self, held: HeldZnode) -> None:
        # Before the hold is visible: the time of an earlier one has passed.
        self._lease_ends = self._machine.leases.given_away_at
        self._holds[held] = Watched(held.path, self._machine.session_id)
        self._look_by(self._lease_ends - self.reserve)

    def proof_moved(self) -> None:
        if not self._holds:
            return
        before, self._lease_ends = self._lease_ends, self._machine.leases.given_away_at
        if self._lease_ends < before:
            self._look_by(self._lease_ends - self.reserve)

    def lost(self, held: HeldZnode, reason: LossReason) -> None:
        """From now on its time is fixed: later proofs are not about this hold."""
        at = self._machine.leases.given_away_at
        if not reason.znode_remains:
            # Given away already, or when the client is closed. Its body is cancelled only now.
            at = min(at, self._clock() + self._machine.timing.grace_period)
        self._holds[held] = replace(self._holds[held], reason=reason, given_away_at=at)
        self._look_by(at - self.reserve)

    def ended(self, held: HeldZnode) -> None:
        self._holds.pop(held, None)

    # --- the watchdog's thread -----------------------------------------------------------------

    def look(self, now: float) -> tuple[list[tuple[Watched, float]], float]:
        """What is overdue at `now`; each hold is reported once.

        Returns:
            The holds, each with the seconds until the servers may give it away (negative if they
            may have done so); and when to look next, unless `look_by` asks for an earlier look:
            `inf` if there is nothing to watch.
        """
        holds = self._holds.copy()
        lease_ends, reserve = self._lease_ends, self.reserve
        self._reported.intersection_update(holds)
        found: list[tuple[Watched, float]] = []
        next_look = inf
        for held, watched in holds.items():
            at = lease_ends if watched.given_away_at is None else watched.given_away_at
            if held in self._reported:
                continue
            if at - reserve <= now:
                self._reported.add(held)
                found.append((watched, at - now))
            else:
                next_look = min(next_look, at - reserve)
        return found, next_look
