"""Every interval that a session uses, derived from the timeout that the server granted.

A server grants what it likes. The lease follows from the granted timeout, since the servers count
with it; how long the client waits for anything follows from the asked timeout as well, and is
never longer than a client would wait that had been granted what it asked for.

    granted                                   the lease counts with     waits count with
    less than `SHORTEST`                      refused: the next server is tried
    less than was asked for                   granted                   granted
    more than was asked for, up to a minute   granted                   asked
    more than that                            asked, or a minute        asked
"""

from __future__ import annotations

from dataclasses import dataclass

DRIFT = 0.001
"""How much faster the servers' clocks may run than ours, as a fraction: 500 ppm on each side."""


SHORTEST = 0.1
"""The shortest session timeout that is asked for or accepted, in seconds. Pings and renewals follow
from it: with a much shorter one the client would do nothing else."""

LONGEST_UNASKED = 60.0
"""How much of a granted timeout counts that is longer than was asked for, in seconds. Servers grant
more than they were asked for up to their `minSessionTimeout`, which is two ticks by default."""

REMARKABLE = 10.0
"""How many times what was asked for, or what part of it, a server grants before it is reported."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    Attributes:
        session_timeout: how long the servers keep the session at least: what they granted, where
            that is not absurd. The lease counts with it.
        granted: what the servers granted.
        asked: what they were asked for.
        half_tick: half the servers' tick time: how often a ZooKeeper leader collects from its
            followers which sessions they heard of. The protocol does not tell it; servers refuse
            session timeouts under two ticks unless configured otherwise, so a quarter of the
            session timeout is never too short.
        grace_period: how long before the proven end of the session a holder has to begin to stop.
    """

    session_timeout: float
    granted: float
    asked: float
    half_tick: float
    grace_period: float

    @classmethod
    def derive(
        cls,
        granted: float,
        *,
        asked: float | None = None,
        tick_time: float | None,
        grace_period: float | None,
    ) -> Timing:
        """The intervals for a granted timeout.

        Args:
            granted: what the server granted.
            asked: what it was asked for; as much as it granted by default.
            tick_time: the servers' `tickTime`, where the user knows it.
            grace_period: what the user asked for; a tenth of the timeout by default. A server that
                grants less time than was asked for also shortens this, to a quarter at most.
        """
        if asked is None:
            asked = granted
        session_timeout = min(granted, max(asked, LONGEST_UNASKED))
        return cls(
            session_timeout,
            granted,
            asked,
            # What was granted tells of the tick, however little of it counts.
            granted / 4 if tick_time is None else tick_time / 2,
            min(
                session_timeout / 10 if grace_period is None else grace_period, session_timeout / 4
            ),
        )

    @property
    def patience(self) -> float:
        """The granted timeout or the asked one, whichever is shorter. Every wait counts with it."""
        return min(self.granted, self.asked)

    @property
    def is_remarkable(self) -> bool:
        """Whether the granted timeout is more than was asked for by far, or less."""
        return not 1 / REMARKABLE <= self.granted / self.asked <= REMARKABLE

    @property
    def ping_after(self) -> float:
        """Silence of ours after which the server is told that we live."""
        return self.patience / 3

    @property
    def silent_after(self) -> float:
        """Time without an answer after which the link counts as dead; events are none."""
        return self.patience * 2 / 3

    @property
    def renew_every(self) -> float:
        """Least time between two renewals of a lease."""
        return self.session_timeout / 4

    @property
    def refused_pause(self) -> float:
        """How long a renewal waits after one that the servers refused as a whole."""
        return self.enough_lease / 4

    @property
    def settle(self) -> float:
        """How old a hold that is not urgent gets before it is renewed for the first time."""
        return min(0.1, self.session_timeout / 16)

    @property
    def short_lease(self) -> float:
        """What is left of a lease when a holder whose renewal goes unanswered changes servers."""
        return self.session_timeout / 4

    @property
    def enough_lease(self) -> float:
        """What has to be left of a lease for a renewal to be answered in time."""
        return self.session_timeout / 8

    @property
    def ample_lease(self) -> float:
        """What is enough of a lease where answers take their time."""
        return self.session_timeout / 6

    @property
    def prompt(self) -> float:
        """How long the users' requests may take while renewals, of two steps, have to pass, too."""
        return self.enough_lease / 4

    @property
    def holders_wait(self) -> float:
        """How long a client that is closed waits for holders to stop."""
        return min(self.grace_period, self.patience)

    @property
    def close_wait(self) -> float:
        """How long a client that is closed waits for the servers to confirm the session's end."""
        return self.patience / 3

    @property
    def margin(self) -> float:
        """From the proven end of the session back to the moment a holder begins to stop."""
        return self.session_timeout * DRIFT + self.grace_period
