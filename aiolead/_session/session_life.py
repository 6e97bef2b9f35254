"""The identity of the session, its state, and its end."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import AioleadError, AuthFailedError, InternalError, LossReason
from ..model import SessionCredentials, SessionState
from .authentication import Authentication
from .lease.lease_book import LeaseBook
from .lease.timing import Timing
from .requests.request_queue import RequestQueue
from .states import Trigger, after, why_over
from .watches.registry import WatchRegistry


class SessionLife:
    """A client's sessions, one after another: the base of `SessionMachine`, which sets the rest."""

    timing: Timing
    login: Authentication
    leases: LeaseBook
    watches: WatchRegistry
    requests: RequestQueue

    def __init__(
        self, resume: SessionCredentials | None, on_state: Callable[[SessionState, int], object]
    ) -> None:
        self.state: SessionState = SessionState.CONNECTING
        self.session_id: int = 0
        self.last_zxid: int = 0
        self.is_read_only: bool = False
        self.is_resuming: bool = resume is not None
        """Whether the session was passed in, and no server has resumed it yet."""
        self._password = b""
        self._failure: InternalError | None = None
        self._on_state = on_state
        if resume is not None:
            self.session_id, self._password = resume.session_id, resume.password
            self.last_zxid = resume.last_zxid

    @property
    def credentials(self) -> SessionCredentials | None:
        """The credentials with which another client can resume the session, if there is one."""
        if self.session_id == 0 or self.is_read_only:
            return None
        timeout = self.timing.session_timeout
        return SessionCredentials(self.session_id, self._password, timeout, self.last_zxid)

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
