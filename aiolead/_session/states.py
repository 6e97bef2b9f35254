"""The states of a session as a table; its identity, and its end.

    CONNECTING ──established──> CONNECTED ──conn. lost─> SUSPENDED ──established──> CONNECTED
        ^  │                        │                      │
        │  └───────expired─────┐    └──────expired─────┐   └──expired──┐
        │                      v                       v               v
        └──────retry──────── EXPIRED <─────────────────┴───────────────┘

    CONNECTING ──established with a read-only server──> READ_ONLY ──expired──> EXPIRED

A session that a read-only server has created ends with its connection. The ensemble's own session
is never shown to such a server, on whose answers holders and waiters must not act.

Every state leads to AUTH_FAILED and CLOSED, which are final. EXPIRED is reported before anything of
the next session, so that nobody mistakes one session for another.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ..errors import (
    AioleadError,
    AuthFailedError,
    ClientClosedError,
    InternalError,
    LossReason,
    SessionExpiredError,
)
from ..model import SessionCredentials, SessionState
from .authentication import Authentication
from .ephemeral_paths import EphemeralPaths
from .lease.lease_book import LeaseBook
from .lease.timing import Timing
from .requests.request_queue import RequestQueue
from .watches.registry import WatchRegistry

S = SessionState

SERVED = (S.CONNECTED, S.READ_ONLY)
"""The states in which a server takes requests."""


class Trigger(enum.Enum):
    """The cause of a change of state."""

    ESTABLISHED = "the handshake succeeded"
    ESTABLISHED_READ_ONLY = "the handshake with a read-only server succeeded"
    CONNECTION_LOST = "the connection was lost"
    EXPIRED = "the session is over"
    RETRY = "a new session is asked for"
    AUTH_REFUSED = "the credentials were refused"
    CLOSED = "the client was closed"


TRANSITIONS: dict[tuple[SessionState, Trigger], SessionState] = {
    (S.CONNECTING, Trigger.ESTABLISHED): S.CONNECTED,
    (S.CONNECTING, Trigger.ESTABLISHED_READ_ONLY): S.READ_ONLY,
    (S.CONNECTING, Trigger.EXPIRED): S.EXPIRED,
    (S.CONNECTED, Trigger.CONNECTION_LOST): S.SUSPENDED,
    (S.CONNECTED, Trigger.EXPIRED): S.EXPIRED,
    (S.SUSPENDED, Trigger.ESTABLISHED): S.CONNECTED,
    (S.SUSPENDED, Trigger.EXPIRED): S.EXPIRED,
    (S.READ_ONLY, Trigger.EXPIRED): S.EXPIRED,
    (S.EXPIRED, Trigger.RETRY): S.CONNECTING,
    **{(s, Trigger.AUTH_REFUSED): S.AUTH_FAILED for s in S if not s.is_final},
    **{(s, Trigger.CLOSED): S.CLOSED for s in S if s is not S.CLOSED},
}


def after(state: SessionState, trigger: Trigger) -> SessionState:
    """The state that a trigger leads to. Raises `RuntimeError` if the table has no such entry."""
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise RuntimeError(f"no transition from {state.name} when {trigger.value}") from None


def why_over(
    state: SessionState, refusal: str, failure: InternalError | None, is_resuming: bool
) -> AioleadError:
    """The error for requests after the session ended in `state`.

    `refusal`: why the credentials were refused. `failure`: the defect that ended the client.
    `is_resuming`: the session of another client could not be resumed.
    """
    match state:
        case SessionState.AUTH_FAILED:
            return AuthFailedError(refusal)
        case SessionState.CLOSED if failure is not None:
            over = ClientClosedError(f"the client has ended: {failure}")
            over.__cause__ = failure
            return over
        case SessionState.CLOSED if is_resuming:
            return SessionExpiredError("the session to be resumed is over")
        case SessionState.CLOSED:
            return ClientClosedError("the client is closed")
        case _:
            return SessionExpiredError("the session has expired")


class SessionLife:
    """A client's sessions, one after another: the base of `SessionMachine`, which sets the rest."""

    timing: Timing
    login: Authentication
    leases: LeaseBook
    watches: WatchRegistry
    requests: RequestQueue
    ephemerals: EphemeralPaths
    sole_at: float
    """From when on no other process that has the session can hold anything; `inf` for unknown.

    Its lease counts from a request on its own connection, which ended before our handshake was
    answered.
    """

    def __init__(
        self, resume: SessionCredentials | None, on_state: Callable[[SessionState, int], object]
    ) -> None:
        self.state: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.last_zxid: int = 0
        self.is_read_only: bool = False
        self.is_resuming: bool = resume is not None
        """Whether the session was passed in, and no server has resumed it yet."""
        self._passed_on = 0
        """The session whose credentials other processes may have; 0 for none."""
        self._is_handed_over = resume is not None and resume.is_detached
        """Whether the process that had the session before has left it to this client."""
        self._password = b""
        self._failure: InternalError | None = None
        self._on_state = on_state
        if resume is not None:
            self.session_id, self._password = resume.session_id, resume.password
            self._passed_on = resume.session_id
            self.last_zxid = resume.last_zxid

    @property
    def credentials(self) -> SessionCredentials | None:
        """The credentials with which another client can resume the session, if there is one."""
        if self.session_id == 0 or self.is_read_only:
            return None
        timeout = self.timing.session_timeout
        return SessionCredentials(self.session_id, self._password, timeout, self.last_zxid)

    def pass_on(self) -> None:
        """Record that another process may get the credentials of the present session."""
        self._passed_on = self.session_id
        self._is_handed_over = False

    def keep(self) -> None:
        """Record that no other process has the session, although it was passed in."""
        self._passed_on = 0

    @property
    def is_passed_on(self) -> bool:
        """Whether another process may have the present session, too."""
        return self._passed_on != 0 and self._passed_on == self.session_id

    @property
    def is_own(self) -> bool:
        """Whether no other process can hold anything that ends with the present session.

        One that has the session may take it back at any time, and this client learns of that only
        by its next write. ZooKeeper checks the owner of every write, but not of the request that
        ends a session.
        """
        return not self.is_passed_on or self._is_handed_over

    def ended(self) -> AioleadError:
        """The error that says why the session, or the client, has ended."""
        return why_over(self.state, self.login.refusal, self._failure, self.is_resuming)

    def closed(self) -> None:
        """Close the client: whatever is still open fails."""
        if self.state is not SessionState.CLOSED:
            self._move(Trigger.CLOSED)
            self._end_session(LossReason.CLOSED)

    def failed(self, error: InternalError) -> None:
        """Close the client after a defect, which becomes the cause of `ended`."""
        if not self.state.is_final:
            self._failure = error
            self.closed()

    def refuse_login(self, error: AuthFailedError) -> None:
        """End after a login failed for good; also for an owner that does not trust the server."""
        if not self.state.is_final:
            self.login.refusal = str(error)
            self._move(Trigger.AUTH_REFUSED)
            self._end_session(LossReason.EXPIRED)

    def give_up_session(self) -> None:
        """Treat the session as expired: every server refuses to resume it.

        Servers that have lost their data (or were replaced) close the connection of a client that
        has seen more than they have, without an answer; so the next session starts from nothing.
        """
        self.last_zxid = 0
        if self.session_id != 0:
            self._expired()

    def _move(self, trigger: Trigger) -> None:
        before, self.state = self.state, after(self.state, trigger)
        if self.state is not before:
            self._on_state(self.state, self.session_id)
            if self.state.is_final:
                self.watches.end(self.ended)

    def _expired(self, *, keep_queue: bool = False) -> None:
        self._move(Trigger.EXPIRED)
        self._end_session(LossReason.EXPIRED, keep_queue=keep_queue)
        if self.is_resuming:
            self._move(Trigger.CLOSED)  # no other session was asked for
            return
        self.session_id = 0
        self._password = b""
        self._move(Trigger.RETRY)

    def _end_session(self, reason: LossReason, *, keep_queue: bool = False) -> None:
        self.leases.lose_all(reason)
        if not keep_queue:
            self.requests.fail_all(self.ended)
        if self.state.is_final:
            self.login.fail_all()
        self.watches.session_over()
        self.ephemerals.session_over()
