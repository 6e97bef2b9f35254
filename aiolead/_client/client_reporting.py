"""Emits and counts the events of a client; their meanings: docs/how-to/observability.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import DEBUG, INFO, WARNING
from typing import final

from .._session.machine import SessionMachine
from .._util.escaping import get_logger, shown_session
from ..events import EventHub, EventName, EventSink
from ..model import SessionState

_logger = get_logger("aiolead.client")

_SESSION: dict[SessionState, tuple[EventName, int]] = {
    SessionState.CONNECTING: (EventName.SESSION_CONNECTING, DEBUG),
    SessionState.CONNECTED: (EventName.SESSION_CONNECTED, DEBUG),
    SessionState.READ_ONLY: (EventName.SESSION_READ_ONLY, INFO),
    SessionState.SUSPENDED: (EventName.SESSION_SUSPENDED, INFO),
    SessionState.EXPIRED: (EventName.SESSION_EXPIRED, WARNING),
    SessionState.AUTH_FAILED: (EventName.SESSION_AUTH_FAILED, WARNING),
    SessionState.CLOSED: (EventName.SESSION_CLOSED, DEBUG),
}


@final
@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client's state and counters at the moment of `Client.statistics()`; times are in seconds.

    Attributes:
        state: the state of its session.
        session_id: the session; 0 while there is none.
        session_timeout: as granted by the servers; the smallest value if their answers differed.
        server: the connected server, or None.
        last_zxid: the newest transaction that an answer has shown.
        connections: how many connections there were so far.
        suspensions: how often a session lost its connection.
        expirations: how many sessions have expired.
        requests: how many requests were sent, including the client's own, except pings.
        in_flight: how many of them are not answered yet.
        queued: how many wait to be sent.
        watches: how many watches there are.
        held: how many znodes are held under the lease.
        lease_remaining: the rest of the lease; 0.0 if nothing is proven.
        renewals: how often the lease was renewed.
        late_renewals: how many renewals took longer than a quarter of the session timeout.
        slowest_renewal: how long the slowest renewal took.
    """

    state: SessionState
    session_id: int
    session_timeout: float
    server: str | None
    last_zxid: int
    connections: int
    suspensions: int
    expirations: int
    requests: int
    in_flight: int
    queued: int
    watches: int
    held: int
    lease_remaining: float
    renewals: int
    late_renewals: int
    slowest_renewal: float


@final
class ClientReporting:
    def __init__(
        self, machine: SessionMachine, clock: Callable[[], float], sinks: Sequence[EventSink]
    ) -> None:
        self.hub: EventHub = EventHub(sinks)
        self.is_closing = False
        """Set while the client closes: the server's hang-up is then no event."""
        self._machine = machine
        self._clock = clock
        self._before = machine.state
        self._suspended_at: float | None = None
        self._has_reported_timeout = False
        self._connections = self._suspensions = self._expirations = 0
        self._renewals = self._late_renewals = 0
        self._slowest_renewal = 0.0

    def session(self, state: SessionState, session_id: int) -> None:
        if self.is_closing and not state.is_final:
            return
        name, level = _SESSION[state]
        fields: dict[str, str | float] = {"before": self._before.value}
        self._before = state
        match state:
            case SessionState.CONNECTED:
                since, self._suspended_at = self._suspended_at, None
                fields["away"] = 0.0 if since is None else self._clock() - since
                fields["timeout"] = self._machine.timing.granted
                self._look_at_the_timeout(session_id)
            case SessionState.SUSPENDED:
                self._suspensions += 1
                self._suspended_at = self._clock()
            case SessionState.EXPIRED:
                self._expirations += 1
                self._suspended_at = None
            case _:
                pass
        self.hub.emit(name, level, session_id=session_id, fields=fields)

    def _look_at_the_timeout(self, session_id: int) -> None:
        timing = self._machine.timing
        if timing.is_remarkable and not self._has_reported_timeout:
            self._has_reported_timeout = True
            _logger.warning(
                "session %s: the servers grant a session timeout of %g s, where %g s were asked "
                "for: see their minSessionTimeout and maxSessionTimeout",
                shown_session(session_id),
                timing.granted,
                timing.asked,
            )

    def connection_opened(self, server: str) -> None:
        self._connections += 1
        self._emit_connection(EventName.CONNECTION_OPENED, {"server": server})

    def connection_failed(self, server: str, why: Exception) -> None:
        self._emit_connection(EventName.CONNECTION_FAILED, _why(server, why))

    def connection_lost(self, server: str, why: Exception) -> None:
        if not self.is_closing:
            self._emit_connection(EventName.CONNECTION_LOST, _why(server, why))

    def _emit_connection(self, name: EventName, fields: dict[str, str]) -> None:
        self.hub.emit(name, DEBUG, session_id=self._machine.session_id, fields=fields)

    def lease_renewed(self, took: float, remaining: float) -> None:
        timing, session_id = self._machine.timing, self._machine.session_id
        self._renewals += 1
        self._slowest_renewal = max(self._slowest_renewal, took)
        fields = {"took": took, "remaining": remaining, "timeout": timing.session_timeout}
        self.hub.emit(EventName.LEASE_RENEWED, DEBUG, session_id=session_id, fields=fields)
        if took > timing.renew_every:
            self._late_renewals += 1
            self.hub.emit(EventName.LEASE_LATE, WARNING, session_id=session_id, fields=fields)

    def statistics(self, server: str | None) -> ClientStatistics:
        machine = self._machine
        requests = machine.requests
        sent, in_flight, queued = requests.sent, requests.inflight, requests.queued
        has_lease = machine.session_id != 0
        return ClientStatistics(
            state=machine.state,
            session_id=machine.session_id,
            session_timeout=machine.timing.granted,
            server=server,
            last_zxid=machine.last_zxid,
            connections=self._connections,
            suspensions=self._suspensions,
            expirations=self._expirations,
            requests=sent,
            in_flight=in_flight,
            queued=queued,
            watches=len(machine.watches),
            held=machine.leases.held,
            lease_remaining=max(0.0, machine.leases.deadline - self._clock()) if has_lease else 0.0,
            renewals=self._renewals,
            late_renewals=self._late_renewals,
            slowest_renewal=self._slowest_renewal,
        )


def _why(server: str, why: Exception) -> dict[str, str]:
    return {"server": server, "reason": str(why), "error": type(why).__name__}
