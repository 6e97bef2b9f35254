"""Emits and counts the events of a client; their meanings: docs/how-to/observability.md.

It decides which of them a person should see: docs/reference/logging.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from logging import DEBUG, INFO, WARNING
from math import inf
from typing import TYPE_CHECKING, Any, final

from .._session.machine import SessionMachine
from .._util.escaping import get_logger, in_words, shown_session
from .._wire.codes import op_name
from ..events import EventHook, EventName, EventSink, Limit, next_report
from ..model import SessionState
from .net.opener import ConnectionLeft

if TYPE_CHECKING:
    from .._session.requests import Call
    from ..types import ClientStatistics
    from .net.supervisor import Supervisor

_logger = get_logger("aiolead.client")

_SESSION: dict[SessionState, tuple[EventName, int]] = {
    SessionState.CONNECTING: (EventName.SESSION_CONNECTING, DEBUG),
    SessionState.CONNECTED: (EventName.SESSION_CONNECTED, DEBUG),
    SessionState.READ_ONLY: (EventName.SESSION_READ_ONLY, INFO),
    SessionState.SUSPENDED: (EventName.SESSION_SUSPENDED, DEBUG),
    SessionState.EXPIRED: (EventName.SESSION_EXPIRED, WARNING),
    SessionState.AUTH_FAILED: (EventName.SESSION_AUTH_FAILED, WARNING),
    SessionState.CLOSED: (EventName.SESSION_CLOSED, DEBUG),
}

MOST_NAMED = 8
"""The most servers that a line names."""

LEAST_STANDSTILL = 1.0
"""The shortest standstill of the process that is reported, in seconds."""

LONGEST_PAUSE = 600.0
"""The longest time between two lines that say that there is still no server, in seconds."""


class Outage:
    """A time without a connection.

    Attributes:
        since: when it began.
        is_first: whether there was no connection before.
        reports: how many lines have said that there is no server.
        due: how long it has lasted when the next such line is due.
        level: the level of the most important line about it, which is that of its last line.
        is_minor: whether there were so many outages lately that this one is not shown.
        why: the reasons of the servers, or of the loss.
    """

    __slots__ = ("due", "is_first", "is_minor", "level", "reports", "since", "why")

    def __init__(self, since: float, *, is_first: bool, level: int, is_minor: bool) -> None:
        self.since = since
        self.is_first = is_first
        self.reports = 0
        self.due = 0.0
        self.level = level
        self.is_minor = is_minor
        self.why = ""

    def described(self, now: float) -> str:
        return f"no server for {now - self.since:.1f} s: {self.why}"


@final
class ClientReporting:
    def __init__(
        self, machine: SessionMachine, clock: Callable[[], float], sinks: Sequence[EventSink]
    ) -> None:
        self.hub: EventHook = EventHook(sinks, trouble=self._trouble_now)
        self.is_closing = False
        """Set while the client closes: the server's hang-up is then no event."""
        self.wakes_at: float = inf
        """When the timekeeper is due to wake; `inf` while it sleeps without a limit."""
        self._machine = machine
        self._clock = clock
        self._stalled = self._missed = ("", -inf)
        """The last standstill and the last long outage, and until when each explains a loss."""
        self._before = machine.state
        self._suspended_at: float | None = None
        self._outage: Outage | None = None
        self._last_session = 0
        self._outages = Limit(burst=5, period=60.0)
        self._late = Limit(burst=1, period=60.0)
        self._standstills = Limit(burst=5, period=60.0)
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
            case SessionState.AUTH_FAILED:
                fields["reason"] = str(self._machine.ended())
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

    # --- trouble -------------------------------------------------------------------------------

    def awake(self, now: float, late: float) -> None:
        """The timekeeper runs so many seconds late: report a standstill, if it is much too late."""
        lasted = self._standstill(late)
        if not lasted:
            return
        self._stalled = _stood_still(lasted), now + self._machine.timing.session_timeout
        is_shown, hidden = self._standstills.admit(now)
        self.hub.emit(
            EventName.CLIENT_STALLED,
            WARNING if is_shown else DEBUG,
            session_id=self._machine.session_id,
            fields={"lasted": lasted, "hidden": hidden},
        )

    def _standstill(self, late: float) -> float:
        """For how long the process has stood still, as seen by its timekeeper; 0.0 if it has not.

        It may have been longer: the timekeeper was asleep at first.
        """
        least = max(LEAST_STANDSTILL, self._machine.timing.session_timeout / 4)
        return late if late >= least else 0.0

    def _trouble_now(self) -> str:
        """Why the servers confirm nothing: see `EventHook.trouble`. It only reads."""
        now, outage = self._clock(), self._outage
        if lasted := self._standstill(now - self.wakes_at):
            return _stood_still(lasted)
        if now < self._stalled[1]:
            return self._stalled[0]
        if outage is not None:
            return outage.described(now)
        return self._missed[0] if now < self._missed[1] else ""

    # --- connections ---------------------------------------------------------------------------

    def searching(self) -> None:
        """The client begins to look for a server."""
        self._outage = Outage(self._clock(), is_first=True, level=INFO, is_minor=False)

    def connection_opened(self, server: str) -> None:
        self._connections += 1
        outage, self._outage = self._outage, None
        before, session_id = self._last_session, self._machine.session_id
        self._last_session = session_id
        is_kept = before == session_id
        fields: dict[str, str | float] = {
            "server": server,
            "away": 0.0 if outage is None else self._clock() - outage.since,
            "session": "kept" if is_kept else "new" if before else "first",
        }
        level = INFO
        if outage is not None:
            now, level, timeout = self._clock(), outage.level, self._machine.timing.session_timeout
            if now - outage.since > timeout / 8:
                self._missed = outage.described(now), now + timeout
        self._emit_connection(EventName.CONNECTION_OPENED, level, fields)

    def connection_failed(self, server: str, why: Exception) -> None:
        self._emit_connection(EventName.CONNECTION_FAILED, DEBUG, _why(server, why))

    def no_server(self, attempts: Sequence[tuple[str, Exception]]) -> None:
        """No server of the list serves the client, for these reasons; called again and again."""
        outage, now = self._outage, self._clock()
        if outage is None or self.is_closing:
            return
        away, outage.why = now - outage.since, shown_attempts(attempts)
        if away < outage.due:
            return
        outage.due = next_report(away, outage.due, LONGEST_PAUSE)
        outage.reports += 1
        level = DEBUG if outage.is_minor and outage.reports == 1 else WARNING
        outage.level = max(outage.level, level)
        fields: dict[str, str | float] = {
            "away": away,
            "attempts": outage.why,
            "reports": outage.reports,
            "session": "first" if outage.is_first else "lost",
        }
        self._emit_connection(EventName.CONNECTION_MISSING, level, fields)

    def connection_lost(self, server: str, why: Exception) -> None:
        if self.is_closing or self._machine.state.is_final:
            return  # the end of the client is reported, and the connection ends with it
        now, leases = self._clock(), self._machine.leases
        is_shown, hidden = self._outages.admit(now)
        held = leases.held
        is_alarming = held and not isinstance(why, ConnectionLeft)
        level = DEBUG if not is_shown else WARNING if is_alarming else INFO
        fields: dict[str, str | float] = {
            **_why(server, why),
            "held": held,
            "remaining": max(0.0, leases.deadline - now) if held else 0.0,
            "hidden": hidden,
        }
        self._outage = Outage(now, is_first=False, level=level, is_minor=not is_shown)
        self._outage.why = f"{server}: {fields['reason']}"
        self._emit_connection(EventName.CONNECTION_LOST, level, fields)

    def _emit_connection(
        self, name: EventName, level: int, fields: Mapping[str, str | float]
    ) -> None:
        self.hub.emit(name, level, session_id=self._machine.session_id, fields=fields)

    # --- requests ------------------------------------------------------------------------------

    def follow(self, call: Call[Any], supervisor: Supervisor) -> None:
        """Report the end of a request, in the context of the present task: see `EventSink`."""
        context, asked_at = copy_context(), self._clock()

        def ended() -> None:
            peer, error = supervisor.peer, call.error()
            fields: dict[str, str | float] = {
                "operation": op_name(call.op),
                "znode": call.path or "",
                "server": "" if peer is None else peer.name,
                "took": self._clock() - asked_at,
                "error": "" if error is None else type(error).__name__,
            }
            context.run(self._emit_connection, EventName.REQUEST_ENDED, DEBUG, fields)

        call.add_done_callback(ended)

    def lease_renewed(self, took: float, remaining: float) -> None:
        timing, session_id = self._machine.timing, self._machine.session_id
        self._renewals += 1
        self._slowest_renewal = max(self._slowest_renewal, took)
        fields = {"took": took, "remaining": remaining, "timeout": timing.session_timeout}
        self.hub.emit(EventName.LEASE_RENEWED, DEBUG, session_id=session_id, fields=fields)
        if took > timing.renew_every:
            self._late_renewals += 1
            is_shown, hidden = self._late.admit(self._clock())
            self.hub.emit(
                EventName.LEASE_LATE,
                WARNING if is_shown else DEBUG,
                session_id=session_id,
                fields={**fields, "hidden": hidden},
            )

    def statistics(self, server: str | None) -> ClientStatistics:
        from ..types import ClientStatistics  # by the name that pickles have

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


def _stood_still(lasted: float) -> str:
    return f"this process stood still for {lasted:.1f} s or more"


def _why(server: str, why: Exception) -> dict[str, str]:
    return {"server": server, "reason": in_words(why), "error": type(why).__name__}


def shown_attempts(attempts: Sequence[tuple[str, Exception]]) -> str:
    """The servers that were tried, each with its reason."""
    shown = [f"{server}: {in_words(why)}" for server, why in attempts[:MOST_NAMED]]
    if len(attempts) > MOST_NAMED:
        shown.append(f"and {len(attempts) - MOST_NAMED} more")
    return "; ".join(shown) or "no server is known yet"
