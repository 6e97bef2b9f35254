"""Every interval of a session, derived from the timeout that the server granted.

The lease counts with the granted timeout, as the servers do. Waits are never longer than if the
timeout that was asked for had been granted.

    granted                                   the lease counts with     waits count with
    less than `SHORTEST`                      refused: the next server is tried
    less than was asked for                   granted                   granted
    more than was asked for, up to a minute   granted                   asked
    more than that                            asked, or a minute        asked
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import floor

from .._util.escaping import in_seconds
from .._wire.handshake import ConnectResponse
from ..errors import RemoteWireError

DRIFT = 0.001
"""How much faster or slower the servers' clocks may run than ours: 500 ppm on each side."""


SHORTEST = 0.1
"""The shortest session timeout in use, in seconds: a shorter one is lost to pings and renewals."""

LONGEST_UNASKED = 60.0
"""The part of a granted timeout that counts if less was asked for, in seconds. Servers grant at
least their `minSessionTimeout`, by default two ticks."""

GRAIN = 1 / 32
"""Answers closer together than this part of the session timeout share an entry of the proof."""

LOSING = 0.0001
"""Seconds allowed for losing one hold: cancelling its body, until the body begins to stop."""

REMARKABLE = 10.0
"""The factor between the granted and the asked timeout from which on it is reported."""


LONGEST_PASSWORD = 256
"""In bytes: ZooKeeper's passwords have 16, and servers refuse handshakes with long ones."""


def granted_timeout(response: ConnectResponse) -> float:
    """The session timeout that a server grants, in seconds.

    Raises `RemoteWireError` if no client can use this session: the server counts as failed, and
    the session that was asked for may continue at another one.
    """
    granted = response.timeout_ms / 1000
    if granted < SHORTEST:
        raise RemoteWireError(
            f"the server grants a session timeout of {in_seconds(granted)}: at least {SHORTEST:g} "
            "are needed, see its maxSessionTimeout"
        )
    if len(response.password) > LONGEST_PASSWORD:
        raise RemoteWireError(
            f"the server gives the session a password of {len(response.password)} bytes: at most "
            f"{LONGEST_PASSWORD} are accepted"
        )
    return granted


@dataclass(frozen=True)
class Timing:
    """The intervals of a session, in seconds.

    Attributes:
        session_timeout: how long the servers keep the session at least; the lease counts with it.
        half_tick: half the servers' tick time, how often a leader collects from its followers which
            sessions they touched; with a reserve for clock drift, as the client's clock waits for
            it. The protocol does not state it; by default, servers grant at least two ticks, so a
            quarter of the session timeout is enough.
        grace_period: how long before the proven end of the session a holder must begin to stop.
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
        """The intervals for a `granted` timeout; `asked` defaults to it.

        `tick_time` is the servers' `tickTime`, if known. `grace_period` defaults to a tenth of the
        session timeout, and is never more than a quarter of it.
        """
        if asked is None:
            asked = granted
        session_timeout = min(granted, max(asked, LONGEST_UNASKED))
        return cls(
            session_timeout,
            granted,
            asked,
            # The granted timeout limits the tick, even if only a part of it counts.
            (granted / 4 if tick_time is None else tick_time / 2) / (1 - DRIFT),
            min(
                session_timeout / 10 if grace_period is None else grace_period, session_timeout / 4
            ),
        )

    @cached_property
    def patience(self) -> float:
        """The shorter one of the granted and the asked timeout: the measure of every wait."""
        return min(self.granted, self.asked)

    @cached_property
    def is_remarkable(self) -> bool:
        """Whether the granted timeout is far from the asked one."""
        return not 1 / REMARKABLE <= self.granted / self.asked <= REMARKABLE

    @cached_property
    def ping_after(self) -> float:
        """Silence of the client after which a ping is due."""
        return self.patience / 3

    @cached_property
    def silent_after(self) -> float:
        """Time without an answer after which the connection counts as lost; events do not count."""
        return self.patience * 2 / 3

    @cached_property
    def renew_every(self) -> float:
        """The least time between two renewals of a lease."""
        return self.session_timeout / 4

    @cached_property
    def renew_indirect_every(self) -> float:
        """The same where each proof takes two rounds."""
        return self.session_timeout / 8

    @cached_property
    def rounds_overlap(self) -> bool:
        """Whether two rounds are renewed by turns, since three half ticks are too long a time.

        A lease of two rounds counts from the renewal before the last but one.
        """
        return self.half_tick > self.session_timeout / 5

    @cached_property
    def grain(self) -> float:
        """Answers closer together share one entry of a proof."""
        return self.session_timeout * GRAIN

    @cached_property
    def refused_pause(self) -> float:
        """The pause after the servers refused a renewal as a whole."""
        return self.enough_lease / 4

    @cached_property
    def settle(self) -> float:
        """The age at which a hold that is not urgent is renewed for the first time."""
        return min(0.1, self.session_timeout / 16)

    @cached_property
    def half_lease(self) -> float:
        """The rest of a lease below which a client finds out what its writes prove."""
        return self.session_timeout / 2

    @cached_property
    def short_lease(self) -> float:
        """The rest of a lease at which a client with an unanswered renewal changes servers."""
        return self.session_timeout / 4

    @cached_property
    def enough_lease(self) -> float:
        """The rest of a lease that a renewal needs to be answered in time."""
        return self.session_timeout / 8

    @cached_property
    def ample_lease(self) -> float:
        """The rest of a lease that is enough where answers are slow."""
        return self.session_timeout / 6

    @cached_property
    def prompt(self) -> float:
        """How long users' requests may take while renewals, of two requests, have to pass."""
        return self.enough_lease / 4

    @cached_property
    def holders_wait(self) -> float:
        """How long a closing client waits for holders to stop."""
        return min(self.grace_period, self.patience)

    @cached_property
    def greeting_wait(self) -> float:
        """How long a closing client waits for a session that it has asked for, to close it."""
        return self.patience / 16

    @cached_property
    def close_wait(self) -> float:
        """How long a closing client waits for the confirmation that the session has ended."""
        return self.patience / 3

    @cached_property
    def drift(self) -> float:
        """How far clocks may get apart during a session timeout."""
        return self.session_timeout * DRIFT

    @cached_property
    def margin(self) -> float:
        """How long before the proven end of the session a holder begins to stop."""
        return self.drift + self.grace_period

    @cached_property
    def most_holds(self) -> int:
        """How many holds a session may have: losing them all takes no more than `enough_lease`."""
        return floor(self.enough_lease / LOSING)
