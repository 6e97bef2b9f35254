"""Holds that should have ended and have not: what a watchdog decides. No thread, no I/O.

When the proof of its session ends, the servers may give a role to another client. A hold that is
neither released nor lost by then has a blocked event loop; one that was lost but not released has
a body that continues although it was cancelled. Both are *overdue*, a small reserve earlier.

Only the event loop's thread writes (the holds, and until when they are proven); the watchdog's
thread only calls `look`. No lock is needed: each write is one store of an immutable value or one
change of a dict, and `look` copies the dict in one step. All are atomic in CPython, with or without
the GIL. If `look` misses a hold, it finds it the next time; `look_by` requests an earlier look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from ..errors import LossReason
from .lease import HeldZnode, LeaseBook

RESERVE = 0.25
"""Seconds that ending a process takes on an overloaded machine; usually 10 ms."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A hold that has not ended.

    `reason` is None until it is lost. `given_away_at`, on the lease's clock, is when the servers
    may give it to another client; None while that moves with the lease.
    """

    path: str
    session_id: int
    reason: LossReason | None = None
    given_away_at: float | None = None


class Overdue:
    """The holds of a client, as its watchdog sees them. A `HoldObserver`.

    A hold is overdue `reserve` seconds before the servers may give it away. `look_by` is called in
    the event loop's thread with a time at which something may be overdue: `look` must be called by
    then. Both threads read `clock`, the lease's clock.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        reserve: float | None,
        look_by: Callable[[float], object],
    ) -> None:
        self._clock = clock
        self._asked_reserve = reserve
        self._look_by = look_by
        self._holds: dict[HeldZnode, Watched] = {}
        self._lease_ends = inf
        self.reserve: float = self._reserve(inf)
        """The reserve in use: at least half of the grace period remains for bodies."""
        self._reported: set[HeldZnode] = set()  # used by the watchdog's thread only

    def _reserve(self, grace_period: float) -> float:
        asked = RESERVE if self._asked_reserve is None else self._asked_reserve
        return min(asked, grace_period / 2)

    @property
    def is_idle(self) -> bool:
        return not self._holds

    # --- the event loop's thread ---------------------------------------------------------------

    def began(self, held: HeldZnode, leases: LeaseBook) -> None:
        # Set before the hold is visible: the time of an earlier hold has passed.
        self.reserve = self._reserve(leases.grace_period)
        self._lease_ends = leases.given_away_at
        self._holds[held] = Watched(held.path, leases.session_id)
        self._look_by(self._lease_ends - self.reserve)

    def proof_moved(self, leases: LeaseBook) -> None:
        self.reserve = self._reserve(leases.grace_period)
        if not self._holds:
            return
        before, self._lease_ends = self._lease_ends, leases.given_away_at
        if self._lease_ends < before:
            self._look_by(self._lease_ends - self.reserve)

    def lost(self, held: HeldZnode, reason: LossReason, leases: LeaseBook) -> None:
        """Fix the hold's time: later proofs are not about this hold."""
        at = leases.given_away_at
        if not reason.znode_remains:
            # It is given away already, or as the client closes. Its body is cancelled only now.
            at = min(at, self._clock() + leases.grace_period)
        self._holds[held] = replace(self._holds[held], reason=reason, given_away_at=at)
        self._look_by(at - self.reserve)

    def ended(self, held: HeldZnode) -> None:
        self._holds.pop(held, None)

    # --- the watchdog's thread -----------------------------------------------------------------

    def look(self, now: float) -> tuple[list[tuple[Watched, float]], float]:
        """Return what is overdue at `now`, each hold once, and when to look next.

        Each hold has the seconds until the servers may give it away (negative: they may have done
        so). The next look is `inf` if nothing is watched; `look_by` may request an earlier one.
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
