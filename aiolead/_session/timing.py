"""Every interval that a session uses, derived from the timeout that the server granted."""

from __future__ import annotations

from dataclasses import dataclass

DRIFT = 0.001
"""How much faster the servers' clocks may run than ours, as a fraction: 500 ppm on each side."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    Attributes:
        session_timeout: what the server granted.
        half_tick: half the servers' tick time: how often a ZooKeeper leader collects from its
            followers which sessions they heard of. The protocol does not tell it; servers refuse
            session timeouts under two ticks unless configured otherwise, so a quarter of the
            session timeout is never too short.
        wind_down: how long before the proven end of the session a holder has to begin to stop.
    """

    session_timeout: float
    half_tick: float
    wind_down: float

    @classmethod
    def derive(
        cls, session_timeout: float, *, tick_time: float | None, wind_down: float | None
    ) -> Timing:
        """The intervals for a granted timeout.

        Args:
            session_timeout: what the server granted.
            tick_time: the servers' `tickTime`, where the user knows it.
            wind_down: what the user asked for; a tenth of the timeout by default. A server that
                grants less time than was asked for also shortens this, to a quarter at most.
        """
        quarter = session_timeout / 4
        return cls(
            session_timeout,
            quarter if tick_time is None else tick_time / 2,
            min(session_timeout / 10 if wind_down is None else wind_down, quarter),
        )

    @property
    def ping_after(self) -> float:
        """Silence of ours after which the server is told that we live."""
        return self.session_timeout / 3

    @property
    def silent_after(self) -> float:
        """Time without an answer after which the link counts as dead; events are none."""
        return self.session_timeout * 2 / 3

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
    def margin(self) -> float:
        """From the proven end of the session back to the moment a holder begins to stop."""
        return self.session_timeout * DRIFT + self.wind_down
