"""The sessions as the leader knows them: the owner of each, and when it ends."""

from __future__ import annotations

from typing import ClassVar

from ....errors import ServerError
from ..._server.sessions import Sessions


class SessionOver(ServerError):
    """The session has ended, or is about to, or never was."""

    code: int = -112
    summary: ClassVar[str] = "the session has expired"


class SessionElsewhere(ServerError):
    """The session's client has come to another server in the meantime."""

    code: int = -118
    summary: ClassVar[str] = "the session has moved to another server"


class LeaderSessions:
    """ZooKeeper's `LeaderSessionTracker`.

    Args:
        tick_ms: sessions end at multiples of this, on the leader's clock.
    """

    def __init__(self, tick_ms: int) -> None:
        self._sessions = Sessions(tick_ms, 0, b"")
        self._closing: dict[int, None] = {}
        self._owners: dict[int, object] = {}

    def track(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        """Starts a session, unless it is known."""
        if session_id not in self._closing and not self.touch(session_id, timeout_ms, now_ms):
            self._sessions.track(session_id, timeout_ms, now_ms)

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> bool:
        """Puts the end of a session off; False if it is over."""
        return self._sessions.touch(session_id, timeout_ms, now_ms)

    def check(self, session_id: int, owner: object) -> ServerError | None:
        """Why a request is refused that came by `owner`: a learner, or the leader itself.

        The first one who asks owns a session that nobody owns.
        """
        if self._sessions.get(session_id) is None:
            return SessionOver()
        if self._owners.setdefault(session_id, owner) is not owner:
            return SessionElsewhere()
        return None

    def own(self, session_id: int, owner: object) -> None:
        """The session's client has come to `owner`."""
        if self._sessions.get(session_id) is not None:
            self._owners[session_id] = owner

    def closing(self, session_id: int) -> None:
        """From now on nothing is done for this session."""
        if self._sessions.get(session_id) is not None:
            self._sessions.remove(session_id)
            self._closing[session_id] = None

    def remove(self, session_id: int) -> None:
        """The session has ended."""
        self._sessions.remove(session_id)
        self._closing.pop(session_id, None)
        self._owners.pop(session_id, None)

    def overdue(self, now_ms: int) -> list[int]:
        """The sessions whose time is up, the earliest first."""
        return [session.id for session in self._sessions.overdue(now_ms)]

    def next_expiry_ms(self) -> int | None:
        """When the next session ends if its client stays silent."""
        return self._sessions.next_expiry_ms()
