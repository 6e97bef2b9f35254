"""Every interval that a session uses, derived from the timeout that the server granted.

The lease follows from the granted timeout, since the servers count with it. What the client waits
for anything follows from the asked timeout as well, and is never longer than if exactly that had
been granted.

    granted                                   the lease counts with     waits count with
    less than `SHORTEST`                      refused: the next server is tried
    less than was asked for                   granted                   granted
    more than was asked for, up to a minute   granted                   asked
    more than that                            asked, or a minute        asked
"""

from __future__ import annotations

from dataclasses import dataclass

from ..._wire.handshake import ConnectResponse
from ...errors import RemoteWireError

DRIFT = 0.001
"""How much faster the servers' clocks may run than ours, as a fraction: 500 ppm on each side."""


SHORTEST = 0.1
"""The shortest session timeout that is asked for or accepted, in seconds. With a much shorter one
the client would do nothing but ping and renew."""

LONGEST_UNASKED = 60.0
"""How much of a granted timeout counts that is longer than the asked one, in seconds. Servers grant
at least their `minSessionTimeout`, which is two ticks by default."""

REMARKABLE = 10.0
"""From which factor on between the granted and the asked timeout it is reported."""


LONGEST_PASSWORD = 256
"""Of a session, in bytes: ZooKeeper's have 16. Servers refuse handshakes with long ones."""


def granted_timeout(response: ConnectResponse) -> float:
    """The session timeout that a server grants, in seconds.

    Raises:
        RemoteWireError: no client can use this session. The server counts as failed; the session
            that was asked for may go on at another one.
    """
    granted = response.timeout_ms / 1000
    if granted < SHORTEST:
        raise RemoteWireError(
            f"the server grants a session timeout of {granted:g} seconds: at least {SHORTEST:g} "
            "are needed, see its maxSessionTimeout"
        )
    if len(response.password) > LONGEST_PASSWORD:
        raise RemoteWireError(
            f"the server gives the session a password of {len(response.password)} bytes: at most "
            f"{LONGEST_PASSWORD} are accepted"
        )
    return granted


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals in seconds.

    Attributes:
        session_timeout: how long the servers keep the session at least; the lease counts with it.
        granted: what the servers granted.
        asked: what they were asked for.
        half_tick: half the servers' tick time: how often a ZooKeeper leader collects from its
            followers which sessions they have touched. It is not in the protocol. By default
            servers grant two ticks at least, so that a quarter of the session timeout is enough.
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
            asked: what it was asked for; defaults to what it granted.
            tick_time: the servers' `tickTime`, if known.
            grace_period: what the user asked for; defaults to a tenth of the timeout. Never more
                than a quarter of it.
        """
        if asked is None:
            asked = granted
        session_timeout = min(granted, max(asked, LONGEST_UNASKED))
        return cls(
            session_timeout,
            granted,
            asked,
            # What was granted limits the tick, even if only a part of it counts.
            granted / 4 if tick_time is None else tick_time / 2,
            min(
                session_timeout / 10 if grace_period is None else grace_period, session_timeout / 4
            ),
        )

    @property
    def patience(self) -> float:
        """The granted timeout or the asked one, whichever is shorter: for every wait."""
        return min(self.granted, self.asked)

    @property
    def is_remarkable(self) -> bool:
        """Whether the granted timeout is far from the asked one."""
        return not 1 / REMARKABLE <= self.granted / self.asked <= REMARKABLE

    @property
    def ping_after(self) -> float:
        """Silence of the client after which a ping is due."""
        return self.patience / 3

    @property
    def silent_after(self) -> float:
        """Time without an answer after which the connection counts as lost; events are none."""
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
        """What is left of a lease when a client whose renewal is unanswered changes servers."""
        return self.session_timeout / 4

    @property
    def enough_lease(self) -> float:
        """What has to be left of a lease for a renewal to be answered in time."""
        return self.session_timeout / 8

    @property
    def ample_lease(self) -> float:
        """What is enough of a lease where answers are slow."""
        return self.session_timeout / 6

    @property
    def prompt(self) -> float:
        """How long the users' requests may take while renewals, of two requests, have to pass."""
        return self.enough_lease / 4

    @property
    def holders_wait(self) -> float:
        """How long a closing client waits for holders to stop."""
        return min(self.grace_period, self.patience)

    @property
    def close_wait(self) -> float:
        """How long a closing client waits for the servers to confirm the session's end."""
        return self.patience / 3

    @property
    def margin(self) -> float:
        """From the proven end of the session back to the moment a holder begins to stop."""
        return self.session_timeout * DRIFT + self.grace_period
