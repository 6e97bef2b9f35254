"""The states of a session as a table, and the errors for its end.

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

from ..errors import (
    AioleadError,
    AuthFailedError,
    ClientClosedError,
    InternalError,
    SessionExpiredError,
)
from ..model import SessionState

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
